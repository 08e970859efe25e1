/** The job envelope as a client sees it. */
import { v7 } from 'uuid'

/** The states of a job (seed 001 §5). */
export type JobState =
  | 'scheduled'
  | 'available'
  | 'pending'
  | 'active'
  | 'completed'
  | 'retryable'
  | 'cancelled'
  | 'discarded'

/**
 * The job envelope as the server answers it (seed 003). Unknown members are passed on unchanged. Times are
 * RFC 3339, UTC.
 */
export interface Job {
  /** UUIDv7. */
  id: string
  type: string
  queue: string
  args: unknown[]
  state: JobState
  /** 0 until the job runs for the first time. For a handler: the number of this execution, from 1. */
  attempt: number
  /** Which life of the job: absent (0), and one more each time it is retried as a dead letter. */
  generation?: number
  meta?: Record<string, unknown>
  priority?: number
  max_attempts?: number
  /** How long one execution may take, in milliseconds. */
  timeout_ms?: number
  /** How long the job's worker may be silent, in milliseconds. */
  visibility_timeout_ms?: number
  tags?: string[]
  /** As the producer gave it; members that the envelope does not allow are in `retry_extra`. */
  retry?: WireRetryPolicy
  retry_extra?: Pick<WireRetryPolicy, 'backoff_strategy'>
  /** As the producer gave it; members that the envelope does not allow are in `unique_extra`. */
  unique?: WireUniquePolicy
  unique_extra?: WireUniquePolicy
  rate_limit?: RateLimit
  /** At most `limit` jobs of the key are active at once. */
  concurrency?: ConcurrencyPolicy
  /** Why the job is not handed out although it is available: its concurrency key. */
  held_by?: { concurrency: string }
  /** Members of `options` that the server does not know. */
  options?: Record<string, unknown>
  /** URI of the schema that `args` match. */
  schema?: string
  created_at?: string
  enqueued_at?: string
  scheduled_at?: string
  started_at?: string
  completed_at?: string
  cancelled_at?: string
  discarded_at?: string
  expires_at?: string
  next_attempt_at?: string
  retry_delay_ms?: number
  /** The worker that runs the job, while it is active. */
  worker_id?: string
  /** The workflow, if the job is a step of one. */
  workflow_id?: string
  workflow_step?: string
  /** The results of earlier steps: by step id in a graph, as a list in a chain, group or batch. */
  parent_results?: unknown[] | Record<string, unknown>
  result?: unknown
  /** How far the running attempt is, 0…1, as it says itself; in the answer to `getJob`. */
  progress?: number
  progress_data?: Record<string, unknown>
  progress_message?: string
  /** What an earlier attempt has saved; in a job that a worker gets. */
  checkpoint?: { state: unknown; sequence: number; created_at: string }
  /** The error of the last failure. */
  error?: Record<string, unknown>
  errors?: Record<string, unknown>[]
  /**
   * Set in the answer to `enqueue` and `enqueueBatch` if nothing was stored: this is the existing job, which
   * the `unique` policy accepts instead.
   */
  deduplicated?: true
  [member: string]: unknown
}

/** A UUIDv7 in lower case, as a server would mint it (seed 001 §6.4). */
export function newJobId(): string {
  return v7()
}

export interface WireRetryPolicy {
  max_attempts?: number | undefined
  initial_interval_ms?: number | undefined
  initial_interval?: string | number | undefined
  max_interval_ms?: number | undefined
  max_interval?: string | number | undefined
  backoff_coefficient?: number | undefined
  backoff_strategy?: 'exponential' | 'linear' | 'polynomial' | 'none' | 'constant' | undefined
  /** Randomises each delay to 0.5 to 1.5 times its length. */
  jitter?: boolean | undefined
  non_retryable_errors?: readonly string[] | undefined
  on_exhaustion?: 'discard' | 'dead_letter' | undefined
}

export interface WireUniquePolicy {
  /** What is compared beside the job's type: any of `type`, `queue`, `args` and `meta`. */
  keys?: readonly string[] | undefined
  /** Another name for `args_keys` (seed 003). */
  key?: readonly string[] | undefined
  args_keys?: readonly string[] | undefined
  meta_keys?: readonly string[] | undefined
  /** ISO 8601, or seconds. Jobs that were enqueued longer ago are not compared. Default: no limit. */
  period?: string | number | undefined
  /** The same, in milliseconds. */
  period_ms?: number | undefined
  /** Only jobs in these states are compared. Default: all but the terminal states. */
  states?: readonly JobState[] | undefined
  /** What happens to a duplicate. `use_existing` and `drop` are other names for `ignore`. */
  on_conflict?:
    | 'reject'
    | 'replace'
    | 'replace_except_schedule'
    | 'ignore'
    | 'use_existing'
    | 'drop'
    | undefined
}

/** How many jobs of a key are active at once. */
export interface ConcurrencyPolicy {
  /** Up to 255 characters. Absent: jobs of the same type and queue share the limit. */
  key?: string | undefined
  /** 1 to 10,000: so many jobs of the key may be active at once. */
  limit: number
}

/** Limits how often jobs of this queue that have a limit are started. Other servers know further members. */
export interface RateLimit {
  maxPerSecond?: number | undefined
  max_per_second?: number | undefined
  [member: string]: unknown
}
