/** What every operation is given: contracts, settings, and the context of the request. */
import type { Broker } from '../broker/broker.ts'
import type { Clock } from '../clock.ts'
import type { Dialect } from '../dialect.ts'
import type { QueueScope } from '../job/queue-scope.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Logger } from '../logger.ts'
import type { MemoryShare } from '../memory.ts'
import type { ArgsSchemas } from '../schemas/args/args-schemas.ts'
import type { JobEvents } from '../telemetry/events.ts'
import type { EndWaiters } from './end-waiters.ts'
import type { StartLimits } from './fetch/rate-limiter.ts'
import type { Transient } from './in-flight.ts'
import type { JobMessages } from './job-messages/tracker.ts'
import type { PruneHold } from './prune-hold.ts'
import type { BulkSignals } from './steer/signals.ts'
import type { WorkerRegistry } from './workers/worker-registry.ts'

/** The first argument of every operation. Contracts only; `gateway.ts` fills in the implementations. */
export interface Deps {
  readonly ledger: Ledger
  readonly broker: Broker
  readonly clock: Clock
  readonly logger: Logger
  readonly events: JobEvents
  readonly settings: OperationSettings
  readonly jobMessages: JobMessages
  readonly transient: Transient
  /** The compiled forms of the registered JSON Schemas for `args`. */
  readonly argsSchemas: ArgsSchemas
  /** The workers that FETCH or send heartbeats, and the directives that operators gave them. */
  readonly workers: WorkerRegistry
  /** Recent starts of jobs that have a `rate_limit`; FETCH holds back a job whose limit is used up. */
  readonly startLimits: StartLimits
  readonly pruneHold: PruneHold
  /** Requests that wait for a job to end. */
  readonly ends: EndWaiters
  /** Operations on many jobs: their begin and end. */
  readonly bulk: BulkSignals
  /** Returns a uniform random number in [0, 1); for jitter. */
  random(): number
  /**
   * Asks the relay to read the outbox soon; `all`: also the job messages that it failed to publish before.
   */
  wakeRelay(what?: 'all'): void
  /** Returns a new UUIDv7 in lower case. */
  newId(): string
}

interface OperationSettings {
  /** Length of a lease when neither FETCH nor the job names one. */
  visibilityTimeoutMs: number
  /** Execution timeout of a job that names none. */
  timeoutMs: number
  retention: { readonly completedMs: number }
  /**
   * RabbitMQ's delivery timeout. When a lease would last nearly as long, the gateway acknowledges its
   * delivery early (docs/architecture.md §4.4).
   */
  deliveryTimeoutMs: number
  /** Longest wait for a publisher confirm. */
  publishTimeoutMs: number
  /**
   * When the job message of a scheduled job is published. `plugin`: to `ojs.exchange.delayed`, `horizonMs`
   * before the job is due; `ttl`: when the job is due.
   */
  delayMode: 'ttl' | 'plugin'
  horizonMs: number
  dialect: Dialect
  /** Prefix of exchange and queue names in RabbitMQ; `{prefix}.ojs.` may not start an OJS queue name. */
  prefix: string
  /** How many queues there may be; no client request makes the gateway declare more (422). */
  maxQueues: number
  /** Which jobs a control message may concern: those of its control queue's own queue, or of any. */
  controlScope: 'queue' | 'any'
  /** True: a job that names an unregistered schema is refused. */
  schemaStrict: boolean
  /** Largest body of an HTTP request, and so of a job that was enqueued over HTTP. */
  maxBodyBytes: number
  /** Largest body of `POST /jobs/batch`. */
  maxBatchBytes: number
}

/**
 * What the HTTP route or AMQP consumer knows about a request beside its body. It goes into log lines
 * and, as trace context, into the job message.
 */
export interface RequestContext {
  requestId: string
  /** W3C `traceparent`, when valid. */
  traceparent?: string
  tracestate?: string
  idempotencyKey?: string
  /** The name of the API key that authenticated the request, when the gateway requires keys. */
  principal?: string
  /** The queues that its API key is for; absent: all (`scope.ts`). */
  queues?: QueueScope
  /** What the request costs under a request limit; absent without one, and for requests that always cost. */
  toll?: Toll
  /** The request's share of the heap. Only FETCH takes more of it than the request body needed. */
  memory?: MemoryShare
}

/** Decides whether a request of a worker counts against its caller's request limit. */
export interface Toll {
  /** Takes the request out of the count. False: the lease has used up its free requests. */
  isFree(lease: RunningLease): boolean
  /** Throws 429 if the caller has used up its limit; the request has been counted already otherwise. */
  charge(): void
}

export interface RunningLease {
  id: string
  attempt: number
  lengthMs: number
}
