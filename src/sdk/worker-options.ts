import { requireObject } from './given.ts'
import { HttpSource } from './http-source.ts'
import { type Fetch, HttpTransport } from './http-transport.ts'
import { nodeFetch } from './node-fetch.ts'
import { refuseAmqp } from './server-url.ts'
import type { JobSource } from './source.ts'
import type { Transport } from './transport.ts'

/** What `console` is. pino and its like take the object first: wrap them. */
export interface WorkerLogger {
  info(message: string, details: Readonly<Record<string, unknown>>): void
  warn(message: string, details: Readonly<Record<string, unknown>>): void
  error(message: string, details: Readonly<Record<string, unknown>>): void
}

/** Times are milliseconds. */
export interface OJSWorkerOptions {
  /** Of the server, e.g. `http://localhost:8080`. This, `transport` or `source` is needed. */
  url?: string | undefined
  /** As for the client: a token, or a whole `Authorization` value. */
  auth?: string | undefined
  headers?: Readonly<Record<string, string>> | undefined
  /** Default: Node.js's own HTTP client, which costs much less than `fetch`; elsewhere `fetch`. */
  fetch?: Fetch | undefined
  /** Instead of HTTP to `url`, e.g. one that a test made up. */
  transport?: Transport | undefined
  /** Instead of the HTTP binding: the AMQP source of `ojs-rabbitmq/worker`. */
  source?: JobSource | undefined
  /** In the order in which they are looked at. Default: `default`. */
  queues?: readonly string[] | undefined
  /** Jobs at a time. Default 10. */
  concurrency?: number | undefined
  /** Default: a random one, new for each worker. */
  workerId?: string | undefined
  /**
   * How long the server may keep a request for jobs waiting until there are some, and the pause
   * between two requests where it does not wait. At most 30,000; default 1,000.
   */
  pollInterval?: number | undefined
  /** Default 5,000; more often where a lease is shorter than three of it, or the server says so. */
  heartbeatInterval?: number | undefined
  /** How long `stop()` waits for running jobs. Default 25,000. */
  gracePeriod?: number | undefined
  /** How long a job stays reserved between two heartbeats. Default: what the job or server says. */
  visibilityTimeout?: number | undefined
  /** Default: warnings and errors to the console. `false`: nothing. */
  logger?: WorkerLogger | false | undefined
  /** `false`: SIGTERM and SIGINT are the program's own business. */
  handleSignals?: boolean | undefined
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

/** What is used where no logger is given: a worker that fails silently helps nobody. */
export const toConsole: WorkerLogger = { info() {}, warn: show('warn'), error: show('error') }

function show(level: 'warn' | 'error'): WorkerLogger['warn'] {
  // biome-ignore lint/suspicious/noConsole: this is the logger.
  return (message, details) => console[level](`ojs worker: ${message}`, details)
}

/** Throws `TypeError` for options that cannot work. */
export function settingsOf(options: OJSWorkerOptions): WorkerSettings {
  requireObject(options, 'A worker needs options, such as { url }.')
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

/** With another one no gateway takes a word of a native worker, which would acknowledge its jobs unheard. */
function requireWorkerId(workerId: unknown): void {
  const isUsable = typeof workerId === 'string' && workerId !== '' && workerId.length <= 255
  if (isUsable && !/[\0\p{Cs}]/u.test(workerId)) return
  throw new TypeError('workerId must be a text of 1 to 255 characters, no NUL or half a pair.')
}

/** Seed 003. With another name every poll would be refused. */
const QUEUE_NAME = /^[a-z0-9][a-z0-9\-.]{0,127}$/

/** A text is iterable too: each of its letters would be a queue, which the server declares for good. */
function requireNames(queues: unknown): void {
  if (!Array.isArray(queues) || queues.length === 0) {
    throw new TypeError("queues must be a list with at least one name, such as ['email'].")
  }
  for (const name of queues) {
    if (typeof name === 'string' && QUEUE_NAME.test(name)) continue
    const rule = "1 to 128 characters of a-z, 0-9, '-' and '.', a letter or digit first"
    throw new TypeError(`${JSON.stringify(name)} is no queue: its name must be ${rule}.`)
  }
}

function httpSource(options: OJSWorkerOptions): JobSource {
  const { visibilityTimeout } = options
  return new HttpSource({
    transport: options.transport ?? httpTransport(options),
    pollInterval: Math.min(30_000, whole('pollInterval', options.pollInterval ?? 1_000, 1)),
    heartbeatInterval: whole('heartbeatInterval', options.heartbeatInterval ?? 5_000, 1),
    ...(visibilityTimeout !== undefined && {
      visibilityTimeout: whole('visibilityTimeout', visibilityTimeout, 1),
    }),
  })
}

/** The source repeats by itself what may be repeated, for as long as it makes sense. */
function httpTransport(options: OJSWorkerOptions): Transport {
  const { url, auth, headers, fetch = nodeFetch() } = options
  if (url === undefined) throw new TypeError('A worker needs a url, a transport or a source.')
  refuseAmqp(url, 'OJSWorker with a url', 'NativeWorker')
  return new HttpTransport({ url, auth, headers: headers ?? {}, fetch, retry: false })
}

/** Throws `TypeError` for anything else: programs without types give texts and NaN, too. */
export function whole(name: string, value: number, least: number): number {
  if (Number.isSafeInteger(value) && value >= least) return value
  throw new TypeError(`${name} must be a whole number from ${least}.`)
}

/** `crypto.randomUUID` is missing in browsers on pages without TLS. */
function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12))
  const text = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
  return `worker_${text}`
}
