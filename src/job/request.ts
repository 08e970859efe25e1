// The requests of the HTTP and the AMQP door, as typed values. Their JSON Schemas are in `schemas/`.

/** What a producer may send to PUSH (seed 001 §9.1, seed 003), before defaults. */
export interface PushRequest extends PushOptions {
  type: string
  args: unknown[]
  id?: string | null
  specversion?: string | null
  schema?: string | null
  options?: PushOptions | null
  [unknown: string]: unknown
}

/** Options of a job, accepted inside `options` and at the top level; `options` wins (ojs-choices C-2). */
export interface PushOptions {
  queue?: string | null
  priority?: number | 'HIGH' | 'NORMAL' | 'LOW' | null
  timeout_ms?: number | null
  /** Seconds (seed 003). */
  timeout?: number | null
  visibility_timeout_ms?: number | null
  /** Seconds, or an ISO 8601 duration (seed 003). */
  visibility_timeout?: number | string | null
  delay_until?: string | null
  scheduled_at?: string | null
  expires_at?: string | null
  retry?: RetryRequest | null
  /** Another name of `retry` (OJS core). */
  retry_policy?: RetryRequest | null
  /** Another place for `retry.max_attempts`, which wins. */
  max_attempts?: number | null
  unique?: UniqueRequest | null
  tags?: string[] | null
  pending?: boolean | null
  rate_limit?: Record<string, unknown> | null
  concurrency?: ConcurrencyRequest | null
  /** Seconds; -1: as long as the job (OJS results). */
  result_ttl?: number | null
  meta?: Record<string, unknown> | null
  metadata?: Record<string, unknown> | null
}

export interface RetryRequest {
  max_attempts?: number | null
  initial_interval?: string | number | null
  initial_interval_ms?: number | null
  initial_delay_ms?: number | null
  max_interval?: string | number | null
  max_interval_ms?: number | null
  max_delay_ms?: number | null
  backoff_coefficient?: number | null
  backoff_strategy?: string | null
  backoff_type?: string | null
  strategy?: string | null
  jitter?: boolean | null
  non_retryable_errors?: string[] | null
  on_exhaustion?: 'discard' | 'dead_letter' | null
}

export interface ConcurrencyRequest {
  /** Absent: the job's type and queue. */
  key?: string | null
  limit: number
}

export interface UniqueRequest {
  key?: string[] | null
  keys?: string[] | null
  args_keys?: string[] | null
  meta_keys?: string[] | null
  period?: string | number | null
  /** Another name of `period`. */
  within?: string | number | null
  period_ms?: number | null
  on_conflict?: string | null
  states?: string[] | null
}

/** Names of the backoff strategies in OJS's documents; `constant` is an alias of `none` (OJS retry). */
export const BACKOFF_STRATEGIES = [
  'exponential',
  'linear',
  'polynomial',
  'none',
  'constant',
] as const

/** FETCH (seed 001 §10.1). `wait_ms` is an addition: long poll, at most 30 s. */
export interface FetchRequest {
  queues: string[]
  /** Clamped to 0…100. */
  count?: number | null
  /** Another name of `count`. */
  batch_size?: number | null
  worker_id?: string | null
  visibility_timeout_ms?: number | null
  visibility_timeout?: number | string | null
  wait_ms?: number | null
}

/** ACK (seed 001 §10.2). `worker_id`, `attempt` and `generation` are part of the fence if given. */
export interface AckRequest {
  job_id: string
  result?: unknown
  worker_id?: string | null
  attempt?: number | null
  generation?: number | null
}

/** FAIL (seed 001 §10.3). `requeue` hands the job back without a failure (OJS's public suite). */
export interface NackRequest {
  job_id: string
  error: NackError
  worker_id?: string | null
  attempt?: number | null
  generation?: number | null
  requeue?: boolean | null
  /** Another place for that of the error, which wins. */
  retryable?: boolean | null
}

/** ACKs and NACKs of many jobs in one request (an addition). */
export interface SettleRequest {
  /** For items that name none. */
  worker_id?: string | null
  /** At most 1,000, which are checked one by one. */
  items: unknown[]
}

/** The members of an ACK or a NACK, which are checked item by item. */
export interface SettleItem {
  action: 'ack' | 'nack'
  /** W3C trace context of this report; absent: that of the request. */
  traceparent?: string | null
  tracestate?: string | null
  [member: string]: unknown
}

/** At least one of `code` and `type` is there; `details.error_class` may name the class of the error. */
export interface NackError {
  message: string
  code?: string | null
  type?: string | null
  retryable?: boolean | null
  details?: Record<string, unknown> | null
  backtrace?: unknown
}

/** BEAT (seed 001 §10.4), and the other dialect's form of it (OJS workers, ojs-choices C-12). */
export interface HeartbeatRequest {
  worker_id: string
  /** The ids, or only their number; then the ids are in `active_job_ids`. */
  active_jobs?: string[] | number | null
  active_job_ids?: string[] | null
  job_id?: string | null
  attempt?: number | null
  generation?: number | null
  visibility_timeout_ms?: number | null
  visibility_timeout?: number | string | null
  /** The state that the worker reports: `running`, `quiet`, `terminate`, or any word of its own. */
  state?: string | null
  queues?: string[] | null
  hostname?: string | null
  pid?: number | null
  concurrency?: number | null
  labels?: string[] | null
  version?: string | null
}

/** PUSH batch (seed 001 §9.2): 1 to 1,000 bodies of PUSH. */
export interface BatchRequest {
  jobs: unknown[]
}

/** The body of a manual run of a cron entry. */
export interface TriggerRequest {
  args?: unknown[] | null
  meta?: Record<string, unknown> | null
}

/** Cron registration (seed 001 §13.2), also in the other dialect's spelling (ojs-choices S25). */
export interface CronRequest {
  name: string
  /** `cron` or `expression` is required; `cron` wins. */
  cron?: string | null
  expression?: string | null
  timezone?: string | null
  overlap_policy?: string | null
  enabled?: boolean | null
  description?: string | null
  /** The body of a PUSH; null or absent: the members of that body stand at the top level. */
  job_template?: Record<string, unknown> | null
  [unknown: string]: unknown
}

/** `ojs.control.cancel` and `ojs.control.info` (seed 002 §5.6, §5.8). */
export interface NamedJob {
  job_id: string
}

/** `ojs.control.info`. `queue`: the job's; absent: that of the control queue which the question came by. */
export interface InfoRequest extends NamedJob {
  queue?: string | null
}

/**
 * `ojs.control.heartbeat`, parsed from either form: the seed's `{job_id, worker_id}` (002 §5.7), or one
 * message for all jobs of a worker. `job_ids` has every job once, in the order given.
 */
export interface NativeHeartbeat {
  worker_id: string
  job_ids: string[]
  /** Of the runs of these jobs, where it is not 0. */
  generations?: ReadonlyMap<string, number>
  /** The state that the worker reports; null or absent: none, as in the seed's form, or a word of its own. */
  state?: 'running' | 'quiet' | 'terminate' | null
  queues?: string[] | null
  hostname?: string | null
  pid?: number | null
  concurrency?: number | null
  version?: string | null
  visibility_timeout_ms?: number | null
}

/** `ojs.control.report`: 0 to 1,000 valid events about jobs that a native worker ran. */
export interface ReportRequest {
  worker_id: string
  events: ReportEvent[]
  /** The queue whose control queue the report came by; adopted jobs that name no queue belong to it. */
  queue?: string
}

export type ReportEvent =
  | StartedEvent
  | CompletedEvent
  | FailedEvent
  | DroppedEvent
  | ExpiredEvent
  | ReleasedEvent

interface ReportedAttempt {
  job_id: string
  /** Absent: the row's generation. */
  generation?: number | null
  /** The execution that the event is about: `x-ojs-attempt` of the job message, or the answer of a claim. */
  attempt: number
  /** RFC 3339. Used only for the run time: the difference between the start and the end. */
  at?: string | null
  /** The body of the job message, by which the ledger adopts a job that it does not know. */
  job?: Record<string, unknown> | null
  /** `x-ojs-max-attempts` of the job message, if it has one. */
  max_attempts?: number | null
  /** The job message's headers and properties; the next message of an adopted job has them again. */
  headers?: Record<string, unknown> | null
  properties?: ShownProperties | null
}

/** Message properties by their AMQP names. A property of the wrong type is ignored. */
export interface ShownProperties {
  priority?: unknown
  timestamp?: unknown
  correlation_id?: unknown
  reply_to?: unknown
  app_id?: unknown
}

interface StartedEvent extends ReportedAttempt {
  event: 'started'
}

/** The worker acknowledged the delivery without running the job, or after the run was cancelled. */
interface DroppedEvent extends ReportedAttempt {
  event: 'dropped'
}

/** The job's `expires_at` had passed at delivery; the worker acknowledged the delivery without running it. */
interface ExpiredEvent extends ReportedAttempt {
  event: 'expired'
}

/** The worker has begun the job and is about to requeue its delivery. */
interface ReleasedEvent extends ReportedAttempt {
  event: 'released'
  /** `x-ojs-attempt` of the delivery: below `attempt` if a claim had answered a later attempt. */
  token_attempt: number
}

interface CompletedEvent extends ReportedAttempt {
  event: 'completed'
  result?: unknown
  /** RFC 3339. The run time, by the worker's clock, is `at` minus this. */
  started_at?: unknown
}

interface FailedEvent extends ReportedAttempt {
  event: 'failed'
  error: NackError
  /** Null or absent: the gateway decides by the retry policy, and publishes the job message or the copy. */
  outcome?: ReportedOutcome | null
}

/**
 * What the worker itself decided about the failed job.
 *
 * - `retry`: the worker has published the next job message to the retry queue `rung_ms`, with confirm.
 *   Without `rung_ms` it has published none: the ledger holds the job and publishes the message when it
 *   is due.
 * - `discard`: the worker nacks its delivery, by which RabbitMQ makes the dead letter copy.
 */
export type ReportedOutcome =
  | { decision: 'retry'; delay_ms: number; rung_ms?: number | null }
  | { decision: 'discard' }

/** `ojs.control.claim`: a worker asks whether it may run this redelivered job message. */
export interface NativeClaim {
  job_id: string
  /** Absent: 0. */
  generation?: number | null
  attempt: number
  worker_id: string
  /** False: RabbitMQ had not delivered the message before. */
  redelivered?: boolean | null
  /** The worker starts no job with a concurrency key before the answer says that it has a place. */
  keyed?: boolean | null
  /** The worker has asked about this very delivery before, and got no answer. */
  again?: boolean | null
  /** The job of a message that no gateway has published, as in a report. */
  job?: Record<string, unknown> | null
  max_attempts?: number | null
  headers?: Record<string, unknown> | null
  properties?: Record<string, unknown> | null
}

/** `ojs.control.sync`: a native worker is about to consume these queues. */
export interface SyncRequest {
  /** Absent for a producer, which wants its queues declared and consumes none. */
  worker_id?: string | null
  queues: string[]
  /** The sender found the retry queue with this delay missing, and will declare it. */
  rung_ms?: number | null
}
