import type { Broker } from '../broker/broker.ts'
import type { Clock } from '../clock.ts'
import type { Dialect } from '../dialect.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Logger } from '../logger.ts'
import type { MemoryShare } from '../memory.ts'
import type { ArgsSchemas } from '../schemas/args-schemas.ts'
import type { JobEvents } from '../telemetry/events.ts'
import type { StartLimits } from './fetch/start-limits.ts'
import type { Tokens } from './token/tokens.ts'
import type { Transient } from './transient.ts'
import type { WorkerRegistry } from './worker-registry.ts'

/** What every operation is given. Contracts only; the composition root fills it in. */
export interface Deps {
  readonly ledger: Ledger
  readonly broker: Broker
  readonly clock: Clock
  readonly logger: Logger
  readonly events: JobEvents
  readonly settings: OperationSettings
  readonly tokens: Tokens
  readonly transient: Transient
  /** Registered schemas, compiled. */
  readonly argsSchemas: ArgsSchemas
  /** Who fetches and beats, and what operators want of them. */
  readonly workers: WorkerRegistry
  /** Of jobs with a `rate_limit`: what FETCH has started of late. */
  readonly startLimits: StartLimits
  /** Uniform in [0, 1); for jitter. */
  random(): number
  /** Asks the relay to look at the outbox soon; `all`: also at what it has failed to publish. */
  wakeRelay(what?: 'all'): void
  /** A new UUIDv7, lower case. */
  newId(): string
}

interface OperationSettings {
  /** Reservation length when neither FETCH nor the job names one. */
  visibilityTimeoutMs: number
  /** Execution timeout of a job that names none. */
  timeoutMs: number
  /** A lease that reaches beyond this makes the gateway ack early (architecture §4.4). */
  deliveryTimeoutMs: number
  /** Longest wait for a confirm. */
  publishTimeoutMs: number
  /**
   * `plugin`: the token of a schedule goes to `ojs.exchange.delayed` so many milliseconds before it
   * is due; else when it is.
   */
  delayMode: 'ttl' | 'plugin'
  horizonMs: number
  dialect: Dialect
  /** Prefix of broker entities; reserved as the start of queue names. */
  prefix: string
  /** Queues that clients can bring into being. */
  maxQueues: number
  /** A job that names a schema which is not registered is refused. */
  schemaStrict: boolean
  /** Of a request over HTTP: a job that came that way is no larger. */
  maxBodyBytes: number
  /** The same of `POST /jobs/batch`. */
  maxBatchBytes: number
}

/** What a door knows about the request beside its body; goes into log lines and the token. */
export interface RequestContext {
  requestId: string
  /** W3C `traceparent`, when valid. */
  traceparent?: string
  tracestate?: string
  idempotencyKey?: string
  /** The name of the API key that it came with, where keys are asked for. */
  principal?: string
  /** What it may have of the heap. Only a FETCH asks for more than its body took. */
  memory?: MemoryShare
}
