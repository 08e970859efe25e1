/** The requests of the doors, as typed values. Their JSON Schemas are in `schemas/`. */

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

/** Accepted inside `options` and at the top level alike; `options` wins (ojs-digest C-2). */
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
  /** The same (ojs-digest §2.1). */
  retry_policy?: RetryRequest | null
  unique?: UniqueRequest | null
  tags?: string[] | null
  pending?: boolean | null
  rate_limit?: Record<string, unknown> | null
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

export interface UniqueRequest {
  key?: string[] | null
  keys?: string[] | null
  args_keys?: string[] | null
  meta_keys?: string[] | null
  period?: string | number | null
  on_conflict?: string | null
  states?: string[] | null
}

/** Names that OJS's own texts use for the three strategies and their aliases (ojs-digest §3.1). */
export const BACKOFF_STRATEGIES = ['exponential', 'linear', 'polynomial', 'none', 'constant']

/** `unique.on_conflict`: seed 003's three, a fourth, and other words for `ignore` (ojs-digest §5.1). */
export const CONFLICT_NAMES = [
  ...['reject', 'replace', 'ignore', 'replace_except_schedule', 'use_existing', 'drop'],
]

/** FETCH (seed 001 §10.1). `wait_ms` is an addition: long poll, at most 30 s. */
export interface FetchRequest {
  queues: string[]
  /** Clamped to 0…100. */
  count?: number | null
  worker_id?: string | null
  visibility_timeout_ms?: number | null
  wait_ms?: number | null
}

/** ACK (seed 001 §10.2). `worker_id` and `attempt` are part of the fence where given. */
export interface AckRequest {
  job_id: string
  result?: unknown
  worker_id?: string | null
  attempt?: number | null
}

/** FAIL (seed 001 §10.3). `requeue` hands the job back without a failure (conformance.md §3.2). */
export interface NackRequest {
  job_id: string
  error: NackError
  worker_id?: string | null
  attempt?: number | null
  requeue?: boolean | null
}

/** At least one of `code` and `type` is a text; `details.error_class` may name the class. */
export interface NackError {
  message: string
  code?: string | null
  type?: string | null
  retryable?: boolean | null
  details?: Record<string, unknown> | null
  backtrace?: unknown
}

/** BEAT (seed 001 §10.4), and what the other dialect sends (ojs-digest §9, C-12). */
export interface HeartbeatRequest {
  worker_id: string
  /** Ids, or how many there are; then the ids are in `active_job_ids`. */
  active_jobs?: string[] | number | null
  active_job_ids?: string[] | null
  job_id?: string | null
  attempt?: number | null
  visibility_timeout_ms?: number | null
  /** What the worker says of itself: `running`, `quiet`, `terminate`, or a word of its own. */
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

/** Cron registration (seed 001 §13.2), and the spelling of the other dialect (conformance.md S25). */
export interface CronRequest {
  name: string
  /** One of the two; `cron` wins. */
  cron?: string | null
  expression?: string | null
  timezone?: string | null
  overlap_policy?: string | null
  enabled?: boolean | null
  description?: string | null
  /** The body of a PUSH; null or absent: its members stand beside the name. */
  job_template?: Record<string, unknown> | null
  [unknown: string]: unknown
}

/** `ojs.control.cancel` and `ojs.control.info` (seed 002 §5.6, §5.8). */
export interface NamedJob {
  job_id: string
}

/**
 * `ojs.control.heartbeat`: the seed's `{job_id, worker_id}` (002 §5.7), and one message for all
 * jobs of a worker. Both forms as one: `job_ids` names every job once, in the order given.
 */
export interface NativeHeartbeat {
  worker_id: string
  job_ids: string[]
  /** What it says of itself; null or absent: nothing, as in the seed's form. */
  state?: 'running' | 'quiet' | 'terminate' | null
  queues?: string[] | null
  hostname?: string | null
  pid?: number | null
  concurrency?: number | null
  version?: string | null
  visibility_timeout_ms?: number | null
}

/** `ojs.control.report`: what became of jobs that a native worker ran, 0 to 1,000 usable events. */
export interface ReportRequest {
  worker_id: string
  events: ReportEvent[]
  /** Whose control queue it came by: that of adopted jobs that name none. */
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
  /** Absent: that of the row. */
  generation?: number | null
  /** The execution that this is about: `x-ojs-attempt` of its token, or what a claim answered. */
  attempt: number
  /** RFC 3339; of a start and its end the difference is how long it took, else it decides nothing. */
  at?: string | null
  /** The body of the token: a job that the gateway has never heard of is adopted by it. */
  job?: Record<string, unknown> | null
  /** `x-ojs-max-attempts` of the token, where it came with one. */
  max_attempts?: number | null
  /** What came beside the body; the next token of an adopted job has it again. */
  headers?: Record<string, unknown> | null
  properties?: ShownProperties | null
}

/** Under the names of AMQP. What has another type than it should is left out. */
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

/** Its delivery was acknowledged without a run, or after one that was cancelled. */
interface DroppedEvent extends ReportedAttempt {
  event: 'dropped'
}

/** Its `expires_at` had passed when its delivery came, which was acknowledged without a run. */
interface ExpiredEvent extends ReportedAttempt {
  event: 'expired'
}

/** It was begun, and its delivery is about to be requeued. */
interface ReleasedEvent extends ReportedAttempt {
  event: 'released'
  /** `x-ojs-attempt` of the delivery: below `attempt` where a claim had answered a later one. */
  token_attempt: number
}

interface CompletedEvent extends ReportedAttempt {
  event: 'completed'
  result?: unknown
  /** RFC 3339: with `at` it says how long the execution took, by the worker's clock. */
  started_at?: unknown
}

interface FailedEvent extends ReportedAttempt {
  event: 'failed'
  error: NackError
  /** Null or absent: the gateway decides, and publishes what is needed. */
  outcome?: ReportedOutcome | null
}

/**
 * - `retry`: the worker has published the next token to the rung `rung_ms`, confirmed. No
 *   `rung_ms`: it has not; the ledger holds the job and publishes when it is due.
 * - `discard`: the worker nacks its delivery; the broker makes the copy.
 */
export type ReportedOutcome =
  | { decision: 'retry'; delay_ms: number; rung_ms?: number | null }
  | { decision: 'discard' }

/** `ojs.control.claim`: may this redelivered token be run? */
export interface NativeClaim {
  job_id: string
  /** Absent: 0. */
  generation?: number | null
  attempt: number
  worker_id: string
}

/** `ojs.control.sync`: a native worker begins to consume these queues. */
export interface SyncRequest {
  /** Absent: a producer, which wants its queues declared and consumes none. */
  worker_id?: string | null
  queues: string[]
  /** Of their retry queue with this delay: the asker has found it missing, and will declare it. */
  rung_ms?: number | null
}
