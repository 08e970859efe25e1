/** RabbitMQ options of native workers and producers: defaults and checks. */
import {
  isAmqpUrl,
  notOneCluster,
  OF_CLIENT,
  parameterMistakes,
} from '../broker/connection/urls.ts'
import { PREFIX, PREFIX_RULE } from '../broker/names.ts'
import type { QueueProfile } from '../broker/topology/queue-arguments.ts'
import type { DelayMode } from '../broker/topology/topology.ts'
import type { Logger } from '../logger.ts'
import { type Given, given, requireObject } from '../sdk/async/options.ts'
import { MAX_DELAY_MS } from '../sdk/async/sleep.ts'
import { silent, toConsole, type WorkerLogger, whole } from '../sdk/worker/worker-options.ts'
import type { MetricRegistry } from '../telemetry/gauges.ts'

/** RabbitMQ options of native workers and native producers. `undefined` counts as absent. */
export interface AmqpOptions {
  /**
   * `amqp://user:password@host:port/vhost`. A list: hosts of one cluster, which are tried in order, all with
   * the same scheme and vhost.
   */
  url: string | readonly string[]
  /** Must be the gateway's `OJS_PREFIX`. */
  prefix?: string | undefined
  /** Should be the gateway's `OJS_QUEUE_TYPE`; an existing queue is used as it is. Default `classic`. */
  queueType?: QueueProfile | undefined
  /** `never`: a user without the right to configure; everything was declared before. Default `lazy`. */
  declare?: 'lazy' | 'never' | undefined
  /**
   * Must be the gateway's `OJS_DELAY_MODE`. `plugin`: jobs that are due later go to RabbitMQ's plugin,
   * through an exchange that the gateway has declared. Default `ttl`.
   */
  delayMode?: DelayMode | undefined
  /** Path of a topology file. Null or absent: the topology that the package ships. */
  topologyPath?: string | null | undefined
  /** Execution timeout in milliseconds of jobs that name none, as `OJS_TIMEOUT_MS`; 0: none. Default 30 s. */
  timeoutMs?: number | undefined
  /** The longest wait for a confirm, in milliseconds. Default 10 s. */
  publishTimeoutMs?: number | undefined
  /** How many retry delay queues this process may declare, as `OJS_MAX_RUNGS`. Default 1,000. */
  maxRetryQueues?: number | undefined
  /**
   * For how many milliseconds a new retry queue gets no job message; see
   * `src/broker/topology/retry-queues.ts`. Default 2 s.
   */
  retryQueueSettleMs?: number | undefined
  /** Milliseconds that a gateway may take to answer before a worker goes on without it. Default 1 s. */
  answerTimeoutMs?: number | undefined
  /** Name of the connections in RabbitMQ's management, followed by their purpose. */
  connectionName?: string | undefined
  /** Default: warnings and errors go to the console. `false`: no logging. */
  logger?: WorkerLogger | false | undefined
  /** A prom-client registry of the program, which gets the metrics of seed 002 §12.1. */
  registry?: MetricRegistry | undefined
}

export const AMQP_OPTIONS: Readonly<Record<keyof AmqpOptions, true>> = {
  url: true,
  prefix: true,
  queueType: true,
  declare: true,
  delayMode: true,
  topologyPath: true,
  timeoutMs: true,
  publishTimeoutMs: true,
  maxRetryQueues: true,
  retryQueueSettleMs: true,
  answerTimeoutMs: true,
  connectionName: true,
  logger: true,
  registry: true,
}

export type LinkOptions = Given<
  Required<Omit<AmqpOptions, 'registry' | 'url' | 'logger' | 'retryQueueSettleMs'>>
> & {
  retryQueueSettleMs?: number
  urls: readonly string[]
  logger: Logger
  registry: MetricRegistry | null
}

const QUEUE_DEFAULTS = {
  prefix: '',
  queueType: 'classic',
  declare: 'lazy',
  delayMode: 'ttl',
} as const
const LIMITS = {
  timeoutMs: 30_000,
  publishTimeoutMs: 10_000,
  maxRetryQueues: 1_000,
  answerTimeoutMs: 1_000,
}

/** The options with defaults. Throws `TypeError` for a missing or non-AMQP URL and other invalid options. */
export function withDefaults(options: AmqpOptions, connectionName: string): LinkOptions {
  requireObject(options, 'The options must be an object, such as { url }.')
  const { url, registry = null, logger, ...others } = options
  const urls = urlsOf(url)
  const defaults = { ...QUEUE_DEFAULTS, ...LIMITS, topologyPath: null, connectionName }
  const settings = { ...defaults, ...given(others) }
  requireUsable(settings)
  return { ...settings, urls, registry, logger: loggerOf(logger) }
}

type Settings = Omit<LinkOptions, 'urls' | 'registry' | 'logger'>

/**
 * Throws `TypeError` for invalid options. A job with a `timeout_ms` that is no number, for example, would be
 * confirmed and then dead-lettered as malformed.
 */
function requireUsable({ queueType, declare, delayMode, prefix, ...numbers }: Settings): void {
  whole('timeoutMs', numbers.timeoutMs, 0)
  whole('maxRetryQueues', numbers.maxRetryQueues, 0)
  whole('retryQueueSettleMs', numbers.retryQueueSettleMs ?? 0, 0)
  delayMs('publishTimeoutMs', numbers.publishTimeoutMs)
  delayMs('answerTimeoutMs', numbers.answerTimeoutMs)
  oneOf('queueType', queueType, ['classic', 'quorum'])
  oneOf('declare', declare, ['lazy', 'never'])
  oneOf('delayMode', delayMode, ['ttl', 'plugin'])
  // The gateway's own rule: a worker with a prefix that no gateway can have would never meet one.
  if (prefix !== '' && !PREFIX.test(prefix)) throw new TypeError(`prefix ${PREFIX_RULE}.`)
}

/** `value` if a timer supports it as a delay: a longer one would fire at once. */
export function delayMs(name: string, value: number): number {
  if (whole(name, value, 1) <= MAX_DELAY_MS) return value
  throw new TypeError(`${name} must be a number of milliseconds, at most ${MAX_DELAY_MS}.`)
}

/**
 * Refuses any other version (`TypeError`): a gateway would refuse the heartbeats and take the worker for
 * dead.
 */
export function requireVersion(version: unknown): void {
  if (version === undefined || (typeof version === 'string' && version.length <= 255)) return
  throw new TypeError('version must be a string of at most 255 characters.')
}

function oneOf(name: string, value: string, allowed: readonly string[]): void {
  if (!allowed.includes(value)) throw new TypeError(`${name} must be ${allowed.join(' or ')}.`)
}

function urlsOf(url: AmqpOptions['url'] | undefined): string[] {
  const urls = typeof url === 'string' ? [url] : (url ?? [])
  if (!Array.isArray(urls)) throw new TypeError('url must be amqp://…, or a list of such URLs.')
  if (urls.length === 0) throw new TypeError('url is missing: amqp://user:password@host/vhost')
  for (const one of urls) requireAmqp(one)
  const differ = notOneCluster(urls.map((one) => new URL(one)))
  if (differ !== null) throw new TypeError(`url ${differ}`)
  return [...urls]
}

/** Adapts the logger to the broker layer, which passes the fields first. */
function loggerOf(given: AmqpOptions['logger']): Logger {
  const logger = given === false ? silent : (given ?? toConsole)
  const tell = (level: keyof WorkerLogger) => (fields: object, message: string) => {
    try {
      logger[level](message, { ...fields })
    } catch {
      // A logger that throws must not end a connection.
    }
  }
  return { debug() {}, info: tell('info'), warn: tell('warn'), error: tell('error') }
}

/** Throws `TypeError` for a URL that is not AMQP. The message leaves out the URL: it may hold a password. */
function requireAmqp(url: string): void {
  if (!isAmqpUrl(url)) {
    throw new TypeError(
      'url must be amqp://… or amqps://… (percent-encode / @ % # in the password)',
    )
  }
  const [mistake] = parameterMistakes(new URL(url), OF_CLIENT)
  if (mistake !== undefined) throw new TypeError(`url: ${mistake}`)
}
