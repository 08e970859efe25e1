/** The settings that operators may see: a list of those that are shown, so that a new secret never is. */
import type { Config } from './config.ts'
import type { Name } from './variables.ts'

export interface ShownSetting {
  value: unknown
  /** Where it comes from: our default, the environment, or a file that the environment names. */
  source: 'default' | 'env' | 'file'
}

/** Neither addresses and paths, nor what holds or guards a secret. */
const SHOWN: readonly [Name, (config: Config) => unknown][] = [
  ['OJS_LEDGER_SYNC', ({ ledgerSync }) => ledgerSync],
  ['OJS_LEDGER_REPLICATED', ({ isLedgerReplicated }) => isLedgerReplicated],
  ['OJS_QUEUE_TYPE', ({ queueType }) => queueType],
  ['OJS_QUEUES', ({ queues }) => queues],
  ['OJS_DECLARE', ({ declare }) => declare],
  ['OJS_PREFIX', ({ prefix }) => prefix],
  ['OJS_VISIBILITY_TIMEOUT_MS', ({ visibilityTimeoutMs }) => visibilityTimeoutMs],
  ['OJS_TIMEOUT_MS', ({ timeoutMs }) => timeoutMs],
  ['OJS_DELIVERY_TIMEOUT_MS', ({ deliveryTimeoutMs }) => deliveryTimeoutMs],
  ['OJS_PUBLISH_TIMEOUT_MS', ({ publishTimeoutMs }) => publishTimeoutMs],
  ['OJS_CONTROL_SCOPE', ({ controlScope }) => controlScope],
  ['OJS_CONSUMER_PRIORITY', ({ consumerPriority }) => consumerPriority],
  ['OJS_MAX_QUEUES', ({ maxQueues }) => maxQueues],
  ['OJS_QUEUE_IDLE', ({ queueIdleMs }) => inSeconds(queueIdleMs)],
  ['OJS_MAX_RUNGS', ({ maxRetryQueues }) => maxRetryQueues],
  ['OJS_DELAY_MODE', ({ delayMode }) => delayMode],
  ['OJS_HORIZON_MS', ({ horizonMs }) => horizonMs],
  ['OJS_MAX_BODY_BYTES', ({ maxBodyBytes }) => maxBodyBytes],
  ['OJS_MAX_BATCH_BYTES', ({ maxBatchBytes }) => maxBatchBytes],
  ['OJS_RETENTION_COMPLETED', ({ retention }) => inSeconds(retention.completedMs)],
  ['OJS_RETENTION_CANCELLED', ({ retention }) => inSeconds(retention.cancelledMs)],
  ['OJS_RETENTION_DISCARDED', ({ retention }) => inSeconds(retention.discardedMs)],
  ['OJS_RETENTION_DEAD_LETTERS', ({ retention }) => inSeconds(retention.deadLettersMs)],
  ['OJS_MAX_DEAD_LETTERS', ({ retention }) => retention.maxDeadLetters],
  ['OJS_DIALECT', ({ dialect }) => dialect],
  ['OJS_EVENTS_EXCHANGE', ({ eventsExchange }) => eventsExchange],
  ['OJS_SCHEMA_STRICT', ({ schemaStrict }) => schemaStrict],
  ['OJS_CONSOLE', ({ hasConsole }) => hasConsole],
  ['OJS_TRACE_URL', ({ consoleLinks }) => consoleLinks.traceUrl],
  ['OJS_CODEC_URL', ({ consoleLinks }) => consoleLinks.codecUrl],
  ['OJS_LOG_LEVEL', ({ logLevel }) => logLevel],
]

const inSeconds = (ms: number) => `PT${ms / 1000}S`

/** By the variable's name in lower case, without `OJS_`. */
export function shownConfig(config: Config): Readonly<Record<string, ShownSetting>> {
  const { sources } = config
  return Object.fromEntries(
    SHOWN.map(([name, valueIn]) => [
      name.slice('OJS_'.length).toLowerCase(),
      { value: valueIn(config), source: sources[name] ?? 'default' },
    ]),
  )
}
