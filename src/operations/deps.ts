import type { Broker, Delivery } from '../broker/broker.ts'
import type { Clock } from '../clock.ts'
import type { Dialect } from '../dialect.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Logger } from '../logger.ts'
import type { MemoryShare } from '../memory.ts'
import type { ArgsSchemas } from '../schemas/args-schemas.ts'
import type { JobEvents } from '../telemetry/events.ts'
import type { StartLimits } from './fetch/start-limits.ts'
import { InHand } from './token/in-hand.ts'
import { UnsureTokens } from './token/unsure-tokens.ts'
import type { WorkerRegistry } from './worker-registry.ts'

/** What every operation is given. Contracts only; the composition root fills it in. */
export interface Deps {
  readonly ledger: Ledger
  readonly broker: Broker
  readonly clock: Clock
  readonly logger: Logger
  readonly events: JobEvents
  readonly settings: OperationSettings
  /** The deliveries behind the leases whose holder is `gateway`, by job id. */
  readonly held: Map<string, Delivery>
  /** Ids whose token this process will publish or awaits the confirm of; the relay skips them. */
  readonly sending: InHand
  /** Ids whose token may be in RabbitMQ although it was never confirmed. */
  readonly unsure: UnsureTokens
  /** Queues that an operator has told us to recover (`recover.ts`). */
  readonly recovering: Set<string>
  /**
   * Queues that are gone and whose jobs may have run: only an operator brings them back. The ledger
   * knows them, too (`queue-missing.ts`): a sample of a queue that is gone says nothing any more.
   */
  readonly lost: Set<string>
  /** Queues in the place of others of their names, whose workers have to consume anew (`pause.ts`). */
  readonly renewed: Set<string>
  /**
   * Ids of a batch whose confirms are not all in: their tokens wait, so that the batch becomes
   * claimable in one step (architecture §2). In memory: after a crash the rows stand as they are.
   */
  readonly staging: Set<string>
  /** Unknown ids whose `cancel` comes again because no worker could be told (`native/cancel.ts`). */
  readonly untold: Set<string>
  /** Registered schemas, compiled. */
  readonly argsSchemas: ArgsSchemas
  /**
   * Unique jobs whose confirm is not in, by id: they may yet be withdrawn. Each settles, and is
   * gone, when that is decided (`admission.ts`).
   */
  readonly unconfirmed: Map<string, Promise<unknown>>
  /** Requests with an `Idempotency-Key` that are not answered yet, by scope and key. */
  readonly keyed: Map<string, Promise<unknown>>
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

/** What a process remembers by itself: nothing yet. */
export function freshMemory() {
  return {
    held: new Map<string, Delivery>(),
    sending: new InHand(),
    unsure: new UnsureTokens(),
    recovering: new Set<string>(),
    lost: new Set<string>(),
    renewed: new Set<string>(),
    staging: new Set<string>(),
    untold: new Set<string>(),
    unconfirmed: new Map<string, Promise<unknown>>(),
    keyed: new Map<string, Promise<unknown>>(),
  } satisfies Partial<Deps>
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
