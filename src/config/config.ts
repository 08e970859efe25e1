/** The configuration: the environment, read, checked and frozen. */
import { DIALECTS, type Dialect } from '../dialect.ts'
import { type AccessConfig, isLoopback, readAccess } from '../http/access/access-config.ts'
import { LOG_LEVELS, type LogLevel } from '../logger.ts'
import {
  advertisedUrl,
  amqpUrls,
  type ConsoleLinks,
  consoleLinks,
  type LedgerLocation,
  ledgerLocation,
  managementUrl,
} from './addresses.ts'
import { checkNames } from './names.ts'
import { prefix, queueNames } from './queue-names.ts'
import { type Environment, readers, secretsInFiles } from './readers.ts'
import { MAY_BE_IN_FILES, VARIABLES } from './variables.ts'

/**
 * The gateway's whole configuration, as one frozen value. Members in milliseconds end in
 * `Ms`, those in bytes in `Bytes`. The meaning and the default of each stand with its variable, in
 * `variables.ts`.
 */
export interface Config {
  host: string
  port: number
  /** The nodes of one cluster; they are tried in turn. */
  amqpUrls: readonly string[]
  /** RabbitMQ's management API; may contain credentials. Null: unknown. */
  managementUrl: string | null
  ledger: LedgerLocation
  /** Of SQLite only. */
  ledgerSync: 'full' | 'normal'
  /** PostgreSQL's storage is replicated by other means than its standbys, as managed services do. */
  isLedgerReplicated: boolean
  /** Where other gateways' clients reach this one; null: at the address that it listens on. */
  advertisedUrl: string | null
  queueType: 'classic' | 'quorum'
  queues: readonly string[]
  declare: 'eager' | 'lazy' | 'never'
  /** Path of the topology file; null = the one that is shipped. */
  topologyPath: string | null
  prefix: string
  visibilityTimeoutMs: number
  timeoutMs: number
  deliveryTimeoutMs: number
  publishTimeoutMs: number
  /** Which jobs a control message may concern: those of its control queue's own queue, or of any. */
  controlScope: 'queue' | 'any'
  consumerPriority: number
  maxQueues: number
  /** 0: never. */
  queueIdleMs: number
  maxRetryQueues: number
  delayMode: 'ttl' | 'plugin'
  horizonMs: number
  maxBodyBytes: number
  maxBatchBytes: number
  /** How long jobs stay readable after they ended. */
  retention: {
    completedMs: number
    cancelledMs: number
    discardedMs: number
    deadLettersMs: number
    /** Of each queue, the newest; 0: all. */
    maxDeadLetters: number
  }
  /** Which answer to give where the public test suite contradicts the seeds. */
  dialect: Dialect
  /** Whether events are also published to `ojs.exchange.events`. */
  eventsExchange: boolean
  /** Whether a job that names an unregistered schema is refused. */
  schemaStrict: boolean
  /** API keys, origins, request limit, TLS. */
  access: AccessConfig
  /** Whether the console is served at `/console`. */
  hasConsole: boolean
  consoleLinks: ConsoleLinks
  logLevel: LogLevel
  /** Which variables the environment or a file sets; the others have their defaults. */
  sources: Readonly<Partial<Record<string, 'env' | 'file'>>>
}

/** Far below the plugin's limit of 2³² − 1 ms (seed 002 §9.1.2). */
const MAX_HORIZON_MS = 7 * 86_400_000

/** The environment cannot be used. The message is for the operator and has one line per mistake. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/**
 * Reads the environment and the secret files that it names. Throws `ConfigError` with one line per mistake.
 * An unknown `OJS_*` name is a mistake if it resembles one of ours, else a warning.
 */
export function readConfig(given: Environment): { config: Config; warnings: string[] } {
  const mistakes: string[] = []
  const warnings = checkNames(given, mistakes)
  const env = { ...given, ...secretsInFiles(given, mistakes) }
  const { read, int, oneOf, duration, retention } = readers(env, mistakes)
  const config: Config = {
    host: read('OJS_HOST'),
    port: int('OJS_PORT', 0, 65_535),
    amqpUrls: amqpUrls(env['OJS_AMQP_URL'] || env['AMQP_URL'] || read('OJS_AMQP_URL'), mistakes),
    managementUrl: managementUrl(read('OJS_MANAGEMENT_URL'), mistakes),
    ledger: ledgerLocation(read('OJS_LEDGER'), mistakes),
    ledgerSync: oneOf('OJS_LEDGER_SYNC', ['full', 'normal']),
    isLedgerReplicated: oneOf('OJS_LEDGER_REPLICATED', ['0', '1']) === '1',
    advertisedUrl: advertisedUrl(read('OJS_ADVERTISED_URL'), mistakes),
    queueType: oneOf('OJS_QUEUE_TYPE', ['classic', 'quorum']),
    queues: queueNames(read('OJS_QUEUES'), read('OJS_PREFIX'), mistakes),
    declare: oneOf('OJS_DECLARE', ['eager', 'lazy', 'never']),
    topologyPath: read('OJS_TOPOLOGY') || null,
    prefix: prefix(read('OJS_PREFIX'), mistakes),
    visibilityTimeoutMs: int('OJS_VISIBILITY_TIMEOUT_MS', 1),
    timeoutMs: int('OJS_TIMEOUT_MS', 0),
    deliveryTimeoutMs: int('OJS_DELIVERY_TIMEOUT_MS', 60_000),
    publishTimeoutMs: int('OJS_PUBLISH_TIMEOUT_MS', 100),
    controlScope: oneOf('OJS_CONTROL_SCOPE', ['queue', 'any']),
    consumerPriority: int('OJS_CONSUMER_PRIORITY', -(2 ** 31)),
    maxQueues: int('OJS_MAX_QUEUES', 1),
    queueIdleMs: duration('OJS_QUEUE_IDLE'),
    maxRetryQueues: int('OJS_MAX_RUNGS', 0),
    delayMode: oneOf('OJS_DELAY_MODE', ['ttl', 'plugin']),
    horizonMs: int('OJS_HORIZON_MS', 0, MAX_HORIZON_MS),
    maxBodyBytes: int('OJS_MAX_BODY_BYTES', 1024, 2 ** 30),
    maxBatchBytes: int('OJS_MAX_BATCH_BYTES', 1024, 2 ** 30),
    retention: {
      completedMs: retention('OJS_RETENTION_COMPLETED'),
      cancelledMs: retention('OJS_RETENTION_CANCELLED'),
      discardedMs: retention('OJS_RETENTION_DISCARDED'),
      deadLettersMs: retention('OJS_RETENTION_DEAD_LETTERS'),
      maxDeadLetters: int('OJS_MAX_DEAD_LETTERS', 0),
    },
    dialect: oneOf('OJS_DIALECT', DIALECTS),
    eventsExchange: oneOf('OJS_EVENTS_EXCHANGE', ['0', '1']) === '1',
    schemaStrict: oneOf('OJS_SCHEMA_STRICT', ['0', '1']) === '1',
    access: readAccess(read, mistakes),
    hasConsole: hasConsole(oneOf('OJS_CONSOLE', ['auto', '0', '1']), read('OJS_HOST')),
    consoleLinks: consoleLinks(read, mistakes),
    logLevel: oneOf('OJS_LOG_LEVEL', LOG_LEVELS),
    sources: sourcesIn(given),
  }
  if (mistakes.length > 0) throw new ConfigError(mistakes.join('\n'))
  return { config: Object.freeze(config), warnings }
}

function hasConsole(value: 'auto' | '0' | '1', host: string): boolean {
  return value === 'auto' ? isLoopback(host) : value === '1'
}

function sourcesIn(given: Environment): Config['sources'] {
  const names = Object.keys(VARIABLES).filter((name) => given[name])
  const files = MAY_BE_IN_FILES.filter((name) => given[`${name}_FILE`])
  return Object.fromEntries([
    ...names.map((name) => [name, 'env']),
    ...files.map((name) => [name, 'file']),
  ])
}
