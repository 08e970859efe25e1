import type { RateLimit, WireRetryPolicy, WireUniquePolicy } from './job-options.ts'

/** Seed 001 §5. */
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
 * The job envelope as the server answers it (seed 003). Members that this list does not know come
 * through unchanged. Times are RFC 3339, UTC.
 */
export interface Job {
  /** UUIDv7. */
  id: string
  type: string
  queue: string
  args: unknown[]
  state: JobState
  /** 0 until it runs for the first time; to a handler: which execution this is, from 1. */
  attempt: number
  meta?: Record<string, unknown>
  priority?: number
  max_attempts?: number
  /** How long one execution may take. */
  timeout_ms?: number
  /** How long its worker may be silent. */
  visibility_timeout_ms?: number
  tags?: string[]
  /** As it was asked for; what the envelope has no room for is in `retry_extra`. */
  retry?: WireRetryPolicy
  retry_extra?: Pick<WireRetryPolicy, 'backoff_strategy'>
  /** As it was asked for; what the envelope has no room for is in `unique_extra`. */
  unique?: WireUniquePolicy
  unique_extra?: WireUniquePolicy
  rate_limit?: RateLimit
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
  /** Who runs it, while it is active. */
  worker_id?: string
  /** Of a step of a workflow. */
  workflow_id?: string
  workflow_step?: string
  /** The results of the steps before: by their ids in a graph, a list in a chain, group or batch. */
  parent_results?: unknown[] | Record<string, unknown>
  result?: unknown
  /** Of the last failure. */
  error?: Record<string, unknown>
  errors?: Record<string, unknown>[]
  /**
   * Of an answer to `enqueue` and `enqueueBatch`: nothing was stored, this is the job that its `unique`
   * policy is content with.
   */
  deduplicated?: true
  [member: string]: unknown
}
