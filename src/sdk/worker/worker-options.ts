/** The options of a worker: checked, with their defaults. */
import { requireKnown, requireObject } from '../async/options.ts'
import { type Fetch, HttpTransport } from '../transport/http-transport.ts'
import { nodeFetch } from '../transport/node-fetch.ts'
import { refuseAmqp } from '../transport/server-url.ts'
import type { Transport } from '../transport/transport.ts'
import { HttpSource } from './http-source.ts'
import type { JobSource } from './source.ts'

/** A logger of the shape of `console`. pino and its like take the object first, so they need a wrapper. */
export interface WorkerLogger {
  info(message: string, details: Readonly<Record<string, unknown>>): void
  warn(message: string, details: Readonly<Record<string, unknown>>): void
  error(message: string, details: Readonly<Record<string, unknown>>): void
}

/** Times are milliseconds. */
export interface OJSWorkerOptions {
  /** The server's URL, e.g. `http://localhost:8080`. Either this, `transport` or `source` is required. */
  url?: string | undefined
  /** As for the client: a token, or a whole `Authorization` value. */
  auth?: string | undefined
  headers?: Readonly<Record<string, string>> | undefined
  /** Default: in Node.js its own HTTP client, which costs much less CPU than `fetch`; elsewhere `fetch`. */
  fetch?: Fetch | undefined
  /** Used instead of HTTP to `url`, e.g. a transport for tests. */
  transport?: Transport | undefined
  /** Used instead of the HTTP binding: the AMQP source of `ojs-rabbitmq/worker`. */
  source?: JobSource | undefined
  /** Queues to take jobs from, in this order. Default: `default`. */
  queues?: readonly string[] | undefined
  /** Jobs that run at a time. Default 10. */
  concurrency?: number | undefined
  /** Default: a random id, new for each worker. */
  workerId?: string | undefined
  /**
   * How long a request for jobs may wait at the server until there are some. Also the pause between two
   * requests if the server answers at once without jobs. At most 30,000. Default: 20,000, and a pause of 1,000.
   */
  pollInterval?: number | undefined
  /**
   * Default 5,000; three times as long while the worker has no job. Heartbeats are sent more often if a lease is
   * shorter than three intervals, or if the server asks for it.
   */
  heartbeatInterval?: number | undefined
  /** How long `stop()` waits for running jobs. Default 25,000. */
  gracePeriod?: number | undefined
  /** How long a job stays reserved after each heartbeat. Default: as the job or the server says. */
  visibilityTimeout?: number | undefined
  /** Default: warnings and errors go to the console. `false`: no logging. */
  logger?: WorkerLogger | false | undefined
  /** Default true: SIGTERM and SIGINT stop the worker. `false`: the program handles these signals itself. */
  handleSignals?: boolean | undefined
}

const OPTIONS: Readonly<Record<keyof OJSWorkerOptions, true>> = {
  url: true,
  auth: true,
  headers: true,
  fetch: true,
  transport: true,
  source: true,
  queues: true,
  concurrency: true,
  workerId: true,
  pollInterval: true,
  heartbeatInterval: true,
  gracePeriod: true,
  visibilityTimeout: true,
  logger: true,
  handleSignals: true,
}

export interface WorkerSettings {
  readonly source: JobSource
  readonly queues: readonly string[]
  readonly concurrency: number
  readonly workerId: string
  readonly gracePeriod: number
  readonly logger: WorkerLogger
  readonly handleSignals: boolean
}

export const silent: WorkerLogger = { info() {}, warn() {}, error() {} }

/** The default logger: a worker that failed silently would help nobody. */
export const toConsole: WorkerLogger = { info() {}, warn: show('warn'), error: show('error') }

function show(level: 'warn' | 'error'): WorkerLogger['warn'] {
  // biome-ignore lint/suspicious/noConsole: without a logger of the user's, warnings go to the console.
  return (message, details) => console[level](`ojs worker: ${message}`, details)
}

/** The options with defaults. Throws `TypeError` for invalid ones. */
export function settingsOf(options: OJSWorkerOptions): WorkerSettings {
  requireObject(options, 'A worker needs options, such as { url }.')
  requireKnown(options, OPTIONS, 'OJSWorker')
  const { logger, queues = ['default'], workerId = randomId() } = options
  requireNames(queues)
  requireWorkerId(workerId)
  return {
    source: options.source ?? httpSource(options),
    queues: [...queues],
    concurrency: whole('concurrency', options.concurrency ?? 10, 1),
    workerId,
    gracePeriod: whole('gracePeriod', options.gracePeriod ?? 25_000, 0),
    logger: logger === false ? silent : (logger ?? toConsole),
    handleSignals: options.handleSignals ?? true,
  }
}

/**
 * A gateway refuses every message of a native worker with an invalid id, and the worker would acknowledge its
 * jobs without any gateway having heard of them.
 */
function requireWorkerId(workerId: unknown): void {
  // In a directive `*` means all workers.
  if (workerId === '*') throw new TypeError("workerId must not be '*', which means all workers.")
  const isUsable = typeof workerId === 'string' && workerId !== '' && workerId.length <= 255
  if (isUsable && !/[\0\p{Cs}]/u.test(workerId)) return
  throw new TypeError(
    'workerId must be a string of 1 to 255 characters without NUL and lone surrogates.',
  )
}

/** Names of queues (seed 003). A server would refuse every poll that has another one. */
const QUEUE_NAME = /^[a-z0-9][a-z0-9\-.]{0,127}$/

/**
 * Refuses a single string: it is iterable, and each of its letters would be taken for a queue, which the
 * server then declares for good.
 */
function requireNames(queues: unknown): void {
  if (!Array.isArray(queues) || queues.length === 0) {
    throw new TypeError("queues must be a list with at least one name, such as ['email'].")
  }
  for (const name of queues) {
    if (typeof name === 'string' && QUEUE_NAME.test(name)) continue
    const rule = "1 to 128 characters of a-z, 0-9, '-' and '.', and start with a letter or digit"
    throw new TypeError(`${JSON.stringify(name)} is not a valid queue name: it must be ${rule}.`)
  }
}

/** Long, since each poll is a request; below the 30 s after which common proxies give up. */
const WAIT_MS = 20_000
const PAUSE_MS = 1_000

function httpSource(options: OJSWorkerOptions): JobSource {
  const { visibilityTimeout } = options
  const pollInterval = Math.min(30_000, whole('pollInterval', options.pollInterval ?? PAUSE_MS, 1))
  return new HttpSource({
    transport: options.transport ?? httpTransport(options),
    waitMs: options.pollInterval === undefined ? WAIT_MS : pollInterval,
    pauseMs: pollInterval,
    heartbeatInterval: whole('heartbeatInterval', options.heartbeatInterval ?? 5_000, 1),
    ...(visibilityTimeout !== undefined && {
      visibilityTimeout: whole('visibilityTimeout', visibilityTimeout, 1),
    }),
  })
}

/** Without retries: the source itself repeats what may be repeated, for as long as that makes sense. */
function httpTransport(options: OJSWorkerOptions): Transport {
  const { url, auth, headers, fetch = nodeFetch() } = options
  if (url === undefined) throw new TypeError('A worker needs a url, a transport or a source.')
  refuseAmqp(url, 'OJSWorker with a url', 'NativeWorker')
  return new HttpTransport({ url, auth, headers: headers ?? {}, fetch, retry: false })
}

/**
 * `value` if it is a whole number from `least`. Throws `TypeError` otherwise: programs without types pass
 * strings and NaN, too.
 */
export function whole(name: string, value: number, least: number): number {
  if (Number.isSafeInteger(value) && value >= least) return value
  throw new TypeError(`${name} must be a whole number of at least ${least}.`)
}

/** `crypto.randomUUID` is missing in browsers on pages that were loaded without TLS. */
function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12))
  const text = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
  return `worker_${text}`
}
