import type { QueueProfile } from '../broker/arguments.ts'
import type { Logger } from '../logger.ts'
import { type Given, given } from '../sdk/given.ts'
import { silent, toConsole, type WorkerLogger } from '../sdk/worker-options.ts'
import type { MetricRegistry } from '../telemetry/amqp-metrics.ts'

/**
 * What a native worker and a native producer need to know of RabbitMQ. `undefined` counts as
 * absent.
 */
export interface AmqpOptions {
  /** `amqp://user:password@host:port/vhost`; several: hosts of one cluster, tried in order. */
  url: string | readonly string[]
  /** As the gateway's `OJS_PREFIX`. */
  prefix?: string | undefined
  /** As the gateway's `OJS_QUEUE_TYPE`; a queue that exists is used as it is. */
  queueType?: QueueProfile | undefined
  /** `never`: a user without the right to configure; an administrator has declared everything. */
  declare?: 'lazy' | 'never' | undefined
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

const QUEUE_DEFAULTS = { prefix: '', queueType: 'classic', declare: 'lazy' } as const
const LIMITS = {
  timeoutMs: 30_000,
  publishTimeoutMs: 10_000,
  maxRungs: 1_000,
  answerTimeoutMs: 1_000,
}

/** Throws `TypeError` for a URL that is missing or none of AMQP's. */
export function withDefaults(options: AmqpOptions, connectionName: string): LinkOptions {
  const { url, registry = null, logger, ...others } = options
  const urls = urlsOf(url)
  const defaults = { ...QUEUE_DEFAULTS, ...LIMITS, topologyPath: null, connectionName }
  return { ...defaults, ...given(others), urls, registry, logger: loggerOf(logger) }
}

function urlsOf(url: AmqpOptions['url'] | undefined): string[] {
  const urls = typeof url === 'string' ? [url] : [...(url ?? [])]
  if (urls.length === 0) throw new TypeError('url is missing: amqp://user:password@host/vhost')
  for (const one of urls) requireAmqp(one)
  return urls
}

/** The broker layer's form: the fields first. */
function loggerOf(given: AmqpOptions['logger']): Logger {
  const logger = given === false ? silent : (given ?? toConsole)
  return {
    debug() {},
    info: (fields, message) => logger.info(message, { ...fields }),
    warn: (fields, message) => logger.warn(message, { ...fields }),
    error: (fields, message) => logger.error(message, { ...fields }),
  }
}

/** Without the URL in the text: it may hold a password. */
function requireAmqp(url: string): void {
  const isAmqp = URL.canParse(url) && /^amqps?:$/.test(new URL(url).protocol)
  if (!isAmqp) throw new TypeError('url must be amqp://… or amqps://…')
}
