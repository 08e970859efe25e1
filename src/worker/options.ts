import type { QueueProfile } from '../broker/arguments.ts'
import { isAmqpUrl, notOneCluster } from '../broker/cluster-urls.ts'
import { PREFIX, PREFIX_RULE } from '../broker/names.ts'
import type { DelayMode } from '../broker/topology.ts'
import { OF_CLIENT, parameterMistakes } from '../broker/url-parameters.ts'
import type { Logger } from '../logger.ts'
import { type Given, given, requireObject } from '../sdk/given.ts'
import { MAX_DELAY_MS } from '../sdk/pause.ts'
import { silent, toConsole, type WorkerLogger, whole } from '../sdk/worker-options.ts'
import type { MetricRegistry } from '../telemetry/amqp-metrics.ts'

/**
 * What a native worker and a native producer need to know of RabbitMQ. `undefined` counts as
 * absent.
 */
export interface AmqpOptions {
  /**
   * `amqp://user:password@host:port/vhost`; several: hosts of one cluster, tried in order, all with the
   * same scheme and vhost.
   */
  url: string | readonly string[]
  /** As the gateway's `OJS_PREFIX`. */
  prefix?: string | undefined
  /** As the gateway's `OJS_QUEUE_TYPE`; a queue that exists is used as it is. */
  queueType?: QueueProfile | undefined
  /** `never`: a user without the right to configure; an administrator has declared everything. */
  declare?: 'lazy' | 'never' | undefined
  /**
   * As the gateway's `OJS_DELAY_MODE`. `plugin`: jobs that are due later go to RabbitMQ's plugin, and
   * the gateway has declared its exchange. Default `ttl`.
   */
  delayMode?: DelayMode | undefined
  /** Null or absent: the topology that the package ships. */
  topologyPath?: string | null | undefined
  /** Execution timeout of jobs that name none, as `OJS_TIMEOUT_MS`; 0: none. Default 30 s. */
  timeoutMs?: number | undefined
  /** The longest wait for a confirm. Default 10 s. */
  publishTimeoutMs?: number | undefined
  /** Retry delay queues that this process declares, as `OJS_MAX_RUNGS`. Default 1,000. */
  maxRungs?: number | undefined
  /** A new retry queue gets no token for so long; see `src/broker/rungs.ts`. Default 2 s. */
  rungSettleMs?: number | undefined
  /** How long a gateway may take to answer before a worker goes on without it. Default 1 s. */
  answerTimeoutMs?: number | undefined
  /** Shown by RabbitMQ's management, with the connection's purpose behind it. */
  connectionName?: string | undefined
  /** Default: warnings and errors to the console. `false`: nothing. */
  logger?: WorkerLogger | false | undefined
  /** A prom-client registry of the caller's own, which gets the metrics of seed 002 §12.1. */
  registry?: MetricRegistry | undefined
}

export type LinkOptions = Given<
  Required<Omit<AmqpOptions, 'registry' | 'url' | 'logger' | 'rungSettleMs'>>
> & {
  rungSettleMs?: number
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
  maxRungs: 1_000,
  answerTimeoutMs: 1_000,
}

/** Throws `TypeError` for a URL that is missing or none of AMQP's, and for what cannot work. */
export function withDefaults(options: AmqpOptions, connectionName: string): LinkOptions {
  requireObject(options, 'Options are an object, such as { url }.')
  const { url, registry = null, logger, ...others } = options
  const urls = urlsOf(url)
  const defaults = { ...QUEUE_DEFAULTS, ...LIMITS, topologyPath: null, connectionName }
  const settings = { ...defaults, ...given(others) }
  requireUsable(settings)
  return { ...settings, urls, registry, logger: loggerOf(logger) }
}

type Settings = Omit<LinkOptions, 'urls' | 'registry' | 'logger'>

/** A job with a `timeout_ms` that is no number would be confirmed, and then dead as malformed. */
function requireUsable({ queueType, declare, delayMode, prefix, ...numbers }: Settings): void {
  whole('timeoutMs', numbers.timeoutMs, 0)
  whole('maxRungs', numbers.maxRungs, 0)
  whole('rungSettleMs', numbers.rungSettleMs ?? 0, 0)
  delayMs('publishTimeoutMs', numbers.publishTimeoutMs)
  delayMs('answerTimeoutMs', numbers.answerTimeoutMs)
  oneOf('queueType', queueType, ['classic', 'quorum'])
  oneOf('declare', declare, ['lazy', 'never'])
  oneOf('delayMode', delayMode, ['ttl', 'plugin'])
  // As the gateway says it: with another one they would never meet.
  if (prefix !== '' && !PREFIX.test(prefix)) throw new TypeError(`prefix ${PREFIX_RULE}.`)
}

/** Beyond what a timer takes it would fire at once. */
export function delayMs(name: string, value: number): number {
  if (whole(name, value, 1) <= MAX_DELAY_MS) return value
  throw new TypeError(`${name} must be milliseconds, at most ${MAX_DELAY_MS}.`)
}

/** A gateway refuses heartbeats with any other one, and takes the worker for dead. */
export function labelOf(name: string, value: string | undefined): string | undefined {
  if (value === undefined || (typeof value === 'string' && value.length <= 255)) return value
  throw new TypeError(`${name} must be a text of at most 255 characters.`)
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

/** The broker layer's form: the fields first. */
function loggerOf(given: AmqpOptions['logger']): Logger {
  const logger = given === false ? silent : (given ?? toConsole)
  const tell = (level: keyof WorkerLogger) => (fields: object, message: string) => {
    try {
      logger[level](message, { ...fields })
    } catch {
      // A logger that throws ends no connection.
    }
  }
  return { debug() {}, info: tell('info'), warn: tell('warn'), error: tell('error') }
}

/** Without the URL in the text: it may hold a password. */
function requireAmqp(url: string): void {
  if (!isAmqpUrl(url)) {
    throw new TypeError(
      'url must be amqp://… or amqps://… (percent-encode / @ % # in the password)',
    )
  }
  const [mistake] = parameterMistakes(new URL(url), OF_CLIENT)
  if (mistake !== undefined) throw new TypeError(`url: ${mistake}`)
}
