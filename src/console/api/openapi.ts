// The types of the gateway's API, made of its OpenAPI document by test/console/openapi-types.test.mjs.
// Do not edit: `npx vitest run --project unit test/console/openapi-types.test.mjs -u` writes it anew.

export type RetryPolicy = {
  max_attempts?: number | null
  initial_interval?: string | number | null
  initial_interval_ms?: number | null
  initial_delay_ms?: number | null
  max_interval?: string | number | null
  max_interval_ms?: number | null
  max_delay_ms?: number | null
  backoff_coefficient?: number | null
  backoff_strategy?: 'exponential' | 'linear' | 'polynomial' | 'none' | 'constant' | null
  backoff_type?: 'exponential' | 'linear' | 'polynomial' | 'none' | 'constant' | null
  strategy?: 'exponential' | 'linear' | 'polynomial' | 'none' | 'constant' | null
  jitter?: boolean | null
  non_retryable_errors?: string[] | null
  on_exhaustion?: 'discard' | 'dead_letter' | null
} | null
export type UniquePolicy = {
  key?: string[] | null
  keys?: string[] | null
  args_keys?: string[] | null
  meta_keys?: string[] | null
  period?: string | number | null
  within?: string | number | null
  period_ms?: number | null
  on_conflict?:
    'reject' | 'replace' | 'ignore' | 'replace_except_schedule' | 'use_existing' | 'drop' | null
  states?: string[] | null
} | null
export type ConcurrencyPolicy = {
  key?: string | null
  limit: number
} | null
export type JobOptions = {
  queue?: string | null
  priority?: (number | null) | ('HIGH' | 'NORMAL' | 'LOW')
  timeout_ms?: number | null
  timeout?: number | null
  visibility_timeout_ms?: number | null
  visibility_timeout?: number | string | null
  delay_until?: string | null
  scheduled_at?: string | null
  expires_at?: string | null
  retry?: RetryPolicy
  retry_policy?: RetryPolicy
  max_attempts?: number | null
  unique?: UniquePolicy
  /**
   * @maxItems 1000
   */
  tags?: string[] | null
  pending?: boolean | null
  rate_limit?: {
    max_per_second?: number | null
    concurrency?: number | null
  } | null
  concurrency?: ConcurrencyPolicy
  result_ttl?: number | null
  meta?: {} | null
  metadata?: {} | null
} | null
export type JobState =
  | 'available'
  | 'scheduled'
  | 'pending'
  | 'active'
  | 'retryable'
  | 'completed'
  | 'cancelled'
  | 'discarded'
export type ReportedError = ReportedError1 & ReportedError2
export type ReportedError1 =
  | {
      code: string
    }
  | {
      type: string
    }
export type WorkflowState = 'running' | 'completed' | 'failed' | 'cancelled'

export interface Operations {
  'POST /ojs/v1/jobs': {
    query: {}
    body: PushRequest
    answer: {
      job: Job
      deduplicated: true
    }
  }
  'GET /ojs/v1/jobs': {
    query: {
      state?: string
      queue?: string
      id?: string
      type?: string
      since?: string
      until?: string
      error_code?: string
      error_type?: string
      error_pattern?: string
      cron?: string
      workflow_id?: string
      priority?: number
      held?: boolean
      worker_id?: string
      enqueued_since?: string
      enqueued_until?: string
      ended_since?: string
      ended_until?: string
      tag?: string
      args?: string
      sort?: 'created_at' | 'scheduled_at' | 'priority' | 'updated_at'
      order?: 'asc' | 'desc'
      limit?: number
      offset?: number
      page?: number
      per_page?: number
      cursor?: string
    }
    body: null
    answer: {
      jobs: Job[]
      total: number
      pagination: Pagination
    }
  }
  'POST /ojs/v1/jobs/batch': {
    query: {}
    body: BatchRequest
    answer: {
      jobs: Job[]
      count: number
      /**
       * The places of jobs that existed before.
       */
      deduplicated?: number[]
    }
  }
  'POST /ojs/v1/jobs/{id}/activate': {
    query: {}
    body: {
      [k: string]: unknown
    }
    answer: {
      job: Job & {
        previous_state: JobState
      }
    }
  }
  'GET /ojs/v1/jobs/{id}': {
    query: {}
    body: null
    answer: {
      job: Job & {
        /**
         * From 0 to 1.
         */
        progress?: number
        progress_data?: {
          [k: string]: unknown
        }
        progress_message?: string
      }
      state: JobState
    }
  }
  'DELETE /ojs/v1/jobs/{id}': {
    query: {}
    body: null
    answer: {
      job: Job & {
        previous_state: JobState
      }
    }
  }
  'PATCH /ojs/v1/jobs/{id}': {
    query: {}
    body: PriorityRequest
    answer: {
      job: Job
    }
  }
  'GET /ojs/v1/admin/jobs': {
    query: {
      state?: string
      queue?: string
      id?: string
      type?: string
      since?: string
      until?: string
      error_code?: string
      error_type?: string
      error_pattern?: string
      cron?: string
      workflow_id?: string
      priority?: number
      held?: boolean
      worker_id?: string
      enqueued_since?: string
      enqueued_until?: string
      ended_since?: string
      ended_until?: string
      tag?: string
      args?: string
      sort?: 'created_at' | 'scheduled_at' | 'priority' | 'updated_at'
      order?: 'asc' | 'desc'
      include?: string
      limit?: number
      offset?: number
      page?: number
      per_page?: number
      cursor?: string
    }
    body: null
    answer: {
      items: JobItem[]
      pagination: Pagination
    }
  }
  'GET /ojs/v1/admin/jobs/{id}': {
    query: {}
    body: null
    answer: Job & {
      /**
       * The same as `retry`.
       */
      retry_policy?: {
        [k: string]: unknown
      }
      options?: {
        [k: string]: unknown
      }
      /**
       * Of the trace that it belongs to.
       */
      trace_id?: string
      metadata: {
        created_at: string
        enqueued_at: string
        started_at: string | null
        scheduled_at: string | null
        completed_at: string | null
        cancelled_at: string | null
        discarded_at: string | null
      }
    }
  }
  'PATCH /ojs/v1/admin/jobs/{id}': {
    query: {}
    body: PriorityRequest
    answer: {
      job: Job
    }
  }
  'DELETE /ojs/v1/admin/jobs/{id}': {
    query: {}
    body: null
    answer: null
  }
  'POST /ojs/v1/workers/fetch': {
    query: {}
    body: FetchRequest
    answer: {
      jobs: (Job & {
        checkpoint?: {
          sequence: number
          created_at: string
          state: unknown
        }
        /**
         * The state alone.
         */
        last_checkpoint?: {
          [k: string]: unknown
        }
      })[]
      directive?: 'quiet' | 'terminate'
    }
  }
  'POST /ojs/v1/workers/ack': {
    query: {}
    body: AckRequest
    answer: Ack
  }
  'POST /ojs/v1/jobs/{id}/ack': {
    query: {}
    body: {
      job_id?: string
      result?: unknown
      worker_id?: string | null
      attempt?: number | null
      generation?: number | null
    }
    answer: Ack
  }
  'POST /ojs/v1/workers/nack': {
    query: {}
    body: NackRequest
    answer: Nack
  }
  'POST /ojs/v1/workers/settle': {
    query: {}
    body: SettleRequest
    answer: {
      /**
       * In the order of the request.
       */
      items: {
        /**
         * That of its own request.
         */
        status: number
        job_id?: string
        /**
         * A UUIDv7, in lower case.
         */
        id?: string
        acknowledged?: true
        state?: JobState
        attempt?: number
        max_attempts?: number
        next_attempt_at?: string
        retry_delay_ms?: number
        completed_at?: string
        discarded_at?: string
        /**
         * With 429 and 503.
         */
        retry_after_seconds?: number
        error?: {
          code:
            | 'invalid_request'
            | 'invalid_payload'
            | 'schema_validation'
            | 'not_found'
            | 'conflict'
            | 'duplicate'
            | 'queue_paused'
            | 'unsupported'
            | 'x_unauthenticated'
            | 'x_forbidden'
            | 'rate_limited'
            | 'backend_error'
          /**
           * Human-readable error description.
           */
          message: string
          /**
           * Whether the client should retry.
           */
          retryable: boolean
          /**
           * Correlation ID for the failed request.
           */
          request_id: string
          /**
           * Additional structured error information.
           */
          details?: {
            [k: string]: unknown
          }
          type?: string
          hint?: string
          docs_url?: string
        }
      }[]
    }
  }
  'POST /ojs/v1/jobs/{id}/nack': {
    query: {}
    body: {
      job_id?: string
      error: ReportedError
      worker_id?: string | null
      attempt?: number | null
      generation?: number | null
      requeue?: boolean | null
      retryable?: boolean | null
    }
    answer: {
      /**
       * A UUIDv7, in lower case.
       */
      job_id: string
      /**
       * A UUIDv7, in lower case.
       */
      id: string
      state: JobState
      attempt: number
      max_attempts: number
      next_attempt_at?: string
      retry_delay_ms?: number
      discarded_at?: string
      completed_at?: string
      job: Job
    }
  }
  'POST /ojs/v1/workers/heartbeat': {
    query: {}
    body: HeartbeatRequest
    answer: Heartbeat
  }
  'POST /ojs/v1/workers/beat': {
    query: {}
    body: HeartbeatRequest
    answer: {
      acknowledged: true
      state: 'running' | 'quiet' | 'terminate'
      /**
       * The same as `state`.
       */
      directive: 'running' | 'quiet' | 'terminate'
      /**
       * Jobs whose leases were extended.
       */
      jobs_extended: string[]
      /**
       * Jobs to stop.
       */
      cancelled_jobs: string[]
      server_time: string
      /**
       * How often to send heartbeats while jobs run.
       */
      heartbeat_interval_ms: number
    }
  }
  'GET /ojs/v1/workers/{id}/health': {
    query: {}
    body: null
    answer: WorkerHealth
  }
  'PUT /ojs/v1/jobs/{id}/progress': {
    query: {}
    body: {
      job_id?: string
      worker_id?: string | null
      attempt?: number | null
      generation?: number | null
      progress?: number | null
      percentage?: number | null
      message?: string | null
      data?: {} | null
      checkpoint?: unknown
    }
    answer: Progress
  }
  'GET /ojs/v1/jobs/{id}/progress': {
    query: {}
    body: null
    answer: Progress
  }
  'POST /ojs/v1/workers/progress': {
    query: {}
    body: ProgressRequest
    answer: Progress
  }
  'PUT /ojs/v1/jobs/{id}/checkpoint': {
    query: {}
    body: {
      job_id?: string
      worker_id?: string | null
      attempt?: number | null
      generation?: number | null
      state: unknown
    }
    answer: {
      /**
       * A UUIDv7, in lower case.
       */
      job_id: string
      sequence: number
      created_at: string
      checkpoint: {
        /**
         * A UUIDv7, in lower case.
         */
        job_id: string
        sequence: number
        created_at: string
      }
    }
  }
  'POST /ojs/v1/jobs/{id}/checkpoint': {
    query: {}
    body: {
      job_id?: string
      worker_id?: string | null
      attempt?: number | null
      generation?: number | null
      state: unknown
    }
    answer: {
      /**
       * A UUIDv7, in lower case.
       */
      job_id: string
      sequence: number
      created_at: string
      checkpoint: {
        /**
         * A UUIDv7, in lower case.
         */
        job_id: string
        sequence: number
        created_at: string
      }
    }
  }
  'GET /ojs/v1/jobs/{id}/checkpoint': {
    query: {}
    body: null
    answer: {
      /**
       * A UUIDv7, in lower case.
       */
      job_id: string
      sequence: number
      created_at: string
      state: unknown
      checkpoint: {
        /**
         * A UUIDv7, in lower case.
         */
        job_id: string
        sequence: number
        created_at: string
        state: unknown
      }
    }
  }
  'DELETE /ojs/v1/jobs/{id}/checkpoint': {
    query: {}
    body: null
    answer: {
      deleted: boolean
      /**
       * A UUIDv7, in lower case.
       */
      job_id: string
    }
  }
  'GET /ojs/v1/jobs/{id}/result': {
    query: {
      wait?: boolean
      timeout?: number
    }
    body: null
    answer: {
      /**
       * A UUIDv7, in lower case.
       */
      job_id: string
      state: JobState
      completed_at?: string
      /**
       * With `result_ttl`; else the result goes with the job.
       */
      result_expires_at?: string
      result?: unknown
      error?: Failure
      payload_withheld?: true
    }
  }
  'POST /ojs/v1/jobs/results': {
    query: {}
    body: ResultsRequest
    answer: {
      /**
       * By id: `{state, result}`, null where there is no such job, or its result is not kept.
       */
      results: {
        [k: string]: unknown
      }
    }
  }
  'GET /ojs/v1/dead-letter': {
    query: {
      state?: string
      queue?: string
      id?: string
      type?: string
      since?: string
      until?: string
      error_code?: string
      error_type?: string
      error_pattern?: string
      cron?: string
      workflow_id?: string
      priority?: number
      held?: boolean
      worker_id?: string
      enqueued_since?: string
      enqueued_until?: string
      ended_since?: string
      ended_until?: string
      tag?: string
      args?: string
      limit?: number
      offset?: number
      page?: number
      per_page?: number
      cursor?: string
    }
    body: null
    answer: {
      jobs: Job[]
      pagination: Pagination
    }
  }
  'DELETE /ojs/v1/dead-letter': {
    query: {
      older_than?: string
      queue?: string
      type?: string
      error_type?: string
      confirm?: boolean
      dry_run?: boolean
      async?: boolean
      limit?: number
    }
    body: {
      older_than?: string
      queue?: string
      type?: string
      error_type?: string
      /**
       * Must be `true`, except with `dry_run`.
       */
      confirm?: boolean
      /**
       * Change nothing, and say how many jobs match, with a sample.
       */
      dry_run?: boolean
      /**
       * Default: 10,000; with `async`: none.
       */
      limit?: number
      /**
       * Answer 202 at once with the operation.
       */
      async?: boolean
    }
    answer:
      | {
          action: 'retry' | 'cancel' | 'delete'
          /**
           * Jobs that it met.
           */
          matched: number
          succeeded: number
          /**
           * Jobs that it left alone.
           */
          failed: number
          retried?: number
          cancelled?: number
          deleted?: number
          errors: {
            /**
             * A UUIDv7, in lower case.
             */
            job_id: string
            error: string
            reason: string
          }[]
          errors_truncated?: true
          /**
           * It ended at its limit, and more jobs match.
           */
          has_more: boolean
          /**
           * A UUIDv7, in lower case.
           */
          operation_id?: string
          state?: 'running' | 'completed' | 'stopped'
        }
      | {
          action: 'retry' | 'cancel' | 'delete'
          dry_run: true
          matched: number
          matched_is_lower_bound?: true
          states: (
            | 'available'
            | 'scheduled'
            | 'pending'
            | 'active'
            | 'retryable'
            | 'completed'
            | 'cancelled'
            | 'discarded'
          )[]
          /**
           * Items: A UUIDv7, in lower case.
           */
          sample: string[]
        }
  }
  'GET /ojs/v1/admin/dead-letter': {
    query: {
      state?: string
      queue?: string
      id?: string
      type?: string
      since?: string
      until?: string
      error_code?: string
      error_type?: string
      error_pattern?: string
      cron?: string
      workflow_id?: string
      priority?: number
      held?: boolean
      worker_id?: string
      enqueued_since?: string
      enqueued_until?: string
      ended_since?: string
      ended_until?: string
      tag?: string
      args?: string
      limit?: number
      offset?: number
      page?: number
      per_page?: number
      cursor?: string
    }
    body: null
    answer: {
      items: JobItem[]
      pagination: Pagination
    }
  }
  'DELETE /ojs/v1/admin/dead-letter': {
    query: {
      older_than?: string
      queue?: string
      type?: string
      error_type?: string
      confirm?: boolean
      dry_run?: boolean
      async?: boolean
      limit?: number
    }
    body: {
      older_than?: string
      queue?: string
      type?: string
      error_type?: string
      /**
       * Must be `true`, except with `dry_run`.
       */
      confirm?: boolean
      /**
       * Change nothing, and say how many jobs match, with a sample.
       */
      dry_run?: boolean
      /**
       * Default: 10,000; with `async`: none.
       */
      limit?: number
      /**
       * Answer 202 at once with the operation.
       */
      async?: boolean
    }
    answer:
      | {
          action: 'retry' | 'cancel' | 'delete'
          /**
           * Jobs that it met.
           */
          matched: number
          succeeded: number
          /**
           * Jobs that it left alone.
           */
          failed: number
          retried?: number
          cancelled?: number
          deleted?: number
          errors: {
            /**
             * A UUIDv7, in lower case.
             */
            job_id: string
            error: string
            reason: string
          }[]
          errors_truncated?: true
          /**
           * It ended at its limit, and more jobs match.
           */
          has_more: boolean
          /**
           * A UUIDv7, in lower case.
           */
          operation_id?: string
          state?: 'running' | 'completed' | 'stopped'
        }
      | {
          action: 'retry' | 'cancel' | 'delete'
          dry_run: true
          matched: number
          matched_is_lower_bound?: true
          states: (
            | 'available'
            | 'scheduled'
            | 'pending'
            | 'active'
            | 'retryable'
            | 'completed'
            | 'cancelled'
            | 'discarded'
          )[]
          /**
           * Items: A UUIDv7, in lower case.
           */
          sample: string[]
        }
  }
  'GET /ojs/v1/dead-letter/stats': {
    query: {
      queue?: string
    }
    body: null
    answer: {
      total: number
      by_queue: {
        [k: string]: number
      }
      by_type: {
        [k: string]: number
      }
      by_error_type: {
        [k: string]: number
      }
      oldest_at?: string
      newest_at?: string
      /**
       * Only the newest were looked at, for type and error.
       */
      stats_are_partial?: true
      searched?: number
    }
  }
  'POST /ojs/v1/dead-letter/retry': {
    query: {}
    body: {
      /**
       * The members of the filters of `GET /ojs/v1/admin/jobs`.
       */
      filter: {
        [k: string]: unknown
      }
      /**
       * Must be `true`, except with `dry_run`.
       */
      confirm?: boolean
      /**
       * Change nothing, and say how many jobs match, with a sample.
       */
      dry_run?: boolean
      /**
       * Default: 10,000; with `async`: none.
       */
      limit?: number
      /**
       * Answer 202 at once with the operation.
       */
      async?: boolean
    }
    answer:
      | {
          action: 'retry' | 'cancel' | 'delete'
          /**
           * Jobs that it met.
           */
          matched: number
          succeeded: number
          /**
           * Jobs that it left alone.
           */
          failed: number
          retried?: number
          cancelled?: number
          deleted?: number
          errors: {
            /**
             * A UUIDv7, in lower case.
             */
            job_id: string
            error: string
            reason: string
          }[]
          errors_truncated?: true
          /**
           * It ended at its limit, and more jobs match.
           */
          has_more: boolean
          /**
           * A UUIDv7, in lower case.
           */
          operation_id?: string
          state?: 'running' | 'completed' | 'stopped'
        }
      | {
          action: 'retry' | 'cancel' | 'delete'
          dry_run: true
          matched: number
          matched_is_lower_bound?: true
          states: (
            | 'available'
            | 'scheduled'
            | 'pending'
            | 'active'
            | 'retryable'
            | 'completed'
            | 'cancelled'
            | 'discarded'
          )[]
          /**
           * Items: A UUIDv7, in lower case.
           */
          sample: string[]
        }
  }
  'POST /ojs/v1/dead-letter/purge': {
    query: {
      older_than?: string
      queue?: string
      type?: string
      error_type?: string
      confirm?: boolean
      dry_run?: boolean
      async?: boolean
      limit?: number
    }
    body: {
      older_than?: string
      queue?: string
      type?: string
      error_type?: string
      /**
       * Must be `true`, except with `dry_run`.
       */
      confirm?: boolean
      /**
       * Change nothing, and say how many jobs match, with a sample.
       */
      dry_run?: boolean
      /**
       * Default: 10,000; with `async`: none.
       */
      limit?: number
      /**
       * Answer 202 at once with the operation.
       */
      async?: boolean
    }
    answer:
      | {
          action: 'retry' | 'cancel' | 'delete'
          /**
           * Jobs that it met.
           */
          matched: number
          succeeded: number
          /**
           * Jobs that it left alone.
           */
          failed: number
          retried?: number
          cancelled?: number
          deleted?: number
          errors: {
            /**
             * A UUIDv7, in lower case.
             */
            job_id: string
            error: string
            reason: string
          }[]
          errors_truncated?: true
          /**
           * It ended at its limit, and more jobs match.
           */
          has_more: boolean
          /**
           * A UUIDv7, in lower case.
           */
          operation_id?: string
          state?: 'running' | 'completed' | 'stopped'
        }
      | {
          action: 'retry' | 'cancel' | 'delete'
          dry_run: true
          matched: number
          matched_is_lower_bound?: true
          states: (
            | 'available'
            | 'scheduled'
            | 'pending'
            | 'active'
            | 'retryable'
            | 'completed'
            | 'cancelled'
            | 'discarded'
          )[]
          /**
           * Items: A UUIDv7, in lower case.
           */
          sample: string[]
        }
  }
  'POST /ojs/v1/dead-letter/{id}/retry': {
    query: {}
    body: {
      /**
       * Options of a job; `meta` is merged, anything else replaced.
       */
      override?: {
        [k: string]: unknown
      }
    }
    answer: {
      job: Job & {
        re_enqueued_at: string
      }
    }
  }
  'DELETE /ojs/v1/dead-letter/{id}': {
    query: {}
    body: null
    answer: {
      deleted: true
      /**
       * A UUIDv7, in lower case.
       */
      job_id: string
    }
  }
  'GET /ojs/v1/dead-letter/{id}': {
    query: {}
    body: null
    answer: {
      job: Job
    }
  }
  'GET /ojs/v1/admin/dead-letter/stats': {
    query: {
      queue?: string
    }
    body: null
    answer: {
      total: number
      by_queue: {
        [k: string]: number
      }
      by_type: {
        [k: string]: number
      }
      by_error_type: {
        [k: string]: number
      }
      oldest_at?: string
      newest_at?: string
      /**
       * Only the newest were looked at, for type and error.
       */
      stats_are_partial?: true
      searched?: number
    }
  }
  'POST /ojs/v1/admin/dead-letter/retry': {
    query: {}
    body: {
      /**
       * The members of the filters of `GET /ojs/v1/admin/jobs`.
       */
      filter: {
        [k: string]: unknown
      }
      /**
       * Must be `true`, except with `dry_run`.
       */
      confirm?: boolean
      /**
       * Change nothing, and say how many jobs match, with a sample.
       */
      dry_run?: boolean
      /**
       * Default: 10,000; with `async`: none.
       */
      limit?: number
      /**
       * Answer 202 at once with the operation.
       */
      async?: boolean
    }
    answer:
      | {
          action: 'retry' | 'cancel' | 'delete'
          /**
           * Jobs that it met.
           */
          matched: number
          succeeded: number
          /**
           * Jobs that it left alone.
           */
          failed: number
          retried?: number
          cancelled?: number
          deleted?: number
          errors: {
            /**
             * A UUIDv7, in lower case.
             */
            job_id: string
            error: string
            reason: string
          }[]
          errors_truncated?: true
          /**
           * It ended at its limit, and more jobs match.
           */
          has_more: boolean
          /**
           * A UUIDv7, in lower case.
           */
          operation_id?: string
          state?: 'running' | 'completed' | 'stopped'
        }
      | {
          action: 'retry' | 'cancel' | 'delete'
          dry_run: true
          matched: number
          matched_is_lower_bound?: true
          states: (
            | 'available'
            | 'scheduled'
            | 'pending'
            | 'active'
            | 'retryable'
            | 'completed'
            | 'cancelled'
            | 'discarded'
          )[]
          /**
           * Items: A UUIDv7, in lower case.
           */
          sample: string[]
        }
  }
  'POST /ojs/v1/admin/dead-letter/purge': {
    query: {
      older_than?: string
      queue?: string
      type?: string
      error_type?: string
      confirm?: boolean
      dry_run?: boolean
      async?: boolean
      limit?: number
    }
    body: {
      older_than?: string
      queue?: string
      type?: string
      error_type?: string
      /**
       * Must be `true`, except with `dry_run`.
       */
      confirm?: boolean
      /**
       * Change nothing, and say how many jobs match, with a sample.
       */
      dry_run?: boolean
      /**
       * Default: 10,000; with `async`: none.
       */
      limit?: number
      /**
       * Answer 202 at once with the operation.
       */
      async?: boolean
    }
    answer:
      | {
          action: 'retry' | 'cancel' | 'delete'
          /**
           * Jobs that it met.
           */
          matched: number
          succeeded: number
          /**
           * Jobs that it left alone.
           */
          failed: number
          retried?: number
          cancelled?: number
          deleted?: number
          errors: {
            /**
             * A UUIDv7, in lower case.
             */
            job_id: string
            error: string
            reason: string
          }[]
          errors_truncated?: true
          /**
           * It ended at its limit, and more jobs match.
           */
          has_more: boolean
          /**
           * A UUIDv7, in lower case.
           */
          operation_id?: string
          state?: 'running' | 'completed' | 'stopped'
        }
      | {
          action: 'retry' | 'cancel' | 'delete'
          dry_run: true
          matched: number
          matched_is_lower_bound?: true
          states: (
            | 'available'
            | 'scheduled'
            | 'pending'
            | 'active'
            | 'retryable'
            | 'completed'
            | 'cancelled'
            | 'discarded'
          )[]
          /**
           * Items: A UUIDv7, in lower case.
           */
          sample: string[]
        }
  }
  'POST /ojs/v1/admin/dead-letter/{id}/retry': {
    query: {}
    body: {
      /**
       * Options of a job; `meta` is merged, anything else replaced.
       */
      override?: {
        [k: string]: unknown
      }
    }
    answer: {
      job: Job & {
        re_enqueued_at: string
      }
    }
  }
  'DELETE /ojs/v1/admin/dead-letter/{id}': {
    query: {}
    body: null
    answer: null
  }
  'GET /ojs/v1/admin/failures': {
    query: {
      state?: string
      queue?: string
      id?: string
      type?: string
      since?: string
      until?: string
      error_code?: string
      error_type?: string
      error_pattern?: string
      cron?: string
      workflow_id?: string
      priority?: number
      held?: boolean
      worker_id?: string
      enqueued_since?: string
      enqueued_until?: string
      ended_since?: string
      ended_until?: string
      tag?: string
      args?: string
    }
    body: null
    answer: {
      /**
       * The hundred largest, the largest first.
       */
      groups: FailureGroup[]
      /**
       * How many groups there are.
       */
      total: number
      /**
       * How many jobs were looked at.
       */
      searched: number
      /**
       * There are more.
       */
      search_is_partial?: true
    }
  }
  'GET /ojs/v1/cron': {
    query: {
      limit?: number
      offset?: number
      page?: number
      per_page?: number
    }
    body: null
    answer: {
      cron_jobs: CronJob[]
      /**
       * The same as `cron_jobs`.
       */
      crons: CronJob[]
      pagination: Pagination
    }
  }
  'POST /ojs/v1/cron': {
    query: {
      replace?: boolean
    }
    body: CronRequest
    answer: {
      cron_job: CronJob
      /**
       * The same as `cron_job`.
       */
      cron: CronJob
      warnings?: {
        code: 'repeated_times' | 'skipped_times' | 'expired_jobs'
        message: string
        at: string
      }[]
    }
  }
  'GET /ojs/v1/cron/{name}': {
    query: {}
    body: null
    answer: {
      cron_job: CronJob
      /**
       * The same as `cron_job`.
       */
      cron: CronJob
    }
  }
  'DELETE /ojs/v1/cron/{name}': {
    query: {}
    body: null
    answer: {
      deleted: true
      name: string
      cron: {
        name: string
      }
    }
  }
  'PUT /ojs/v1/cron/{name}': {
    query: {}
    body: CronChange
    answer: {
      cron_job: CronJob
      /**
       * The same as `cron_job`.
       */
      cron: CronJob
      warnings?: {
        code: 'repeated_times' | 'skipped_times' | 'expired_jobs'
        message: string
        at: string
      }[]
    }
  }
  'PATCH /ojs/v1/cron/{name}': {
    query: {}
    body: CronChange
    answer: {
      cron_job: CronJob
      /**
       * The same as `cron_job`.
       */
      cron: CronJob
      warnings?: {
        code: 'repeated_times' | 'skipped_times' | 'expired_jobs'
        message: string
        at: string
      }[]
    }
  }
  'POST /ojs/v1/cron/{name}/pause': {
    query: {}
    body: {
      [k: string]: unknown
    }
    answer: {
      cron_job: CronJob
      /**
       * The same as `cron_job`.
       */
      cron: CronJob
      warnings?: {
        code: 'repeated_times' | 'skipped_times' | 'expired_jobs'
        message: string
        at: string
      }[]
    }
  }
  'POST /ojs/v1/cron/{name}/resume': {
    query: {}
    body: {
      [k: string]: unknown
    }
    answer: {
      cron_job: CronJob
      /**
       * The same as `cron_job`.
       */
      cron: CronJob
      warnings?: {
        code: 'repeated_times' | 'skipped_times' | 'expired_jobs'
        message: string
        at: string
      }[]
    }
  }
  'POST /ojs/v1/cron/{name}/trigger': {
    query: {}
    body: {
      args?: unknown[] | null
      meta?: {} | null
    }
    answer: {
      /**
       * A UUIDv7, in lower case.
       */
      job_id: string
      cron_name: string
      job: Job
    }
  }
  'GET /ojs/v1/cron/{name}/history': {
    query: {
      limit?: number
      offset?: number
      page?: number
      per_page?: number
    }
    body: null
    answer: {
      executions: CronRun[]
      pagination: Pagination
    }
  }
  'GET /ojs/v1/admin/cron/times': {
    query: {
      expression?: string
      timezone?: string
      limit?: number
    }
    body: null
    answer: {
      expression: string
      timezone: string
      times: string[]
    }
  }
  'GET /ojs/v1/queues': {
    query: {
      limit?: number
      offset?: number
      page?: number
      per_page?: number
    }
    body: null
    answer: {
      queues: Queue[]
      pagination: Pagination
    }
  }
  'POST /ojs/v1/queues': {
    query: {}
    body: {
      name: string
    }
    answer: {
      name: string
      state: 'active'
      config: {
        [k: string]: unknown
      }
      created_at: string
    }
  }
  'GET /ojs/v1/queues/{name}': {
    query: {}
    body: null
    answer: {
      name: string
      state: 'active' | 'paused' | 'draining'
      paused: boolean
      queue: {
        name: string
        paused: boolean
      }
      /**
       * Jobs still to run: available, scheduled and retryable.
       */
      depth: number
      running: number
      /**
       * What is set for this queue; see `PUT …/config`.
       */
      config: {
        [k: string]: unknown
      }
      stats: {
        depth: number
        available: number
        active: number
        retryable: number
        scheduled: number
        /**
         * Since midnight, UTC.
         */
        completed_today: number
        failed_today: number
      }
      /**
       * When the job that waits longest came into the queue.
       */
      oldest_available_at?: string
      oldest_available_age_seconds?: number
      oldest_overdue_retry_at?: string
      oldest_overdue_schedule_at?: string
      created_at: string
    }
  }
  'DELETE /ojs/v1/queues/{name}': {
    query: {
      strategy?: string
    }
    body: {
      strategy?: 'reject' | 'discard' | 'move' | null
      target_queue?: string | null
    }
    answer: {
      queue: string
      strategy: 'reject'
      jobs_affected: number
      state: 'deleted'
    }
  }
  'GET /ojs/v1/queues/{name}/stats': {
    query: {}
    body: null
    answer: {
      available: number
      active: number
      scheduled: number
      retryable: number
      discarded: number
      completed_last_hour: number
      failed_last_hour: number
      avg_duration_ms: number
      avg_wait_ms: number
      throughput_per_second: number
      pending: number
      completed: number
      cancelled: number
      /**
       * Jobs still to run: available, scheduled and retryable.
       */
      depth: number
      /**
       * Available jobs that their concurrency keys hold back.
       */
      held: number
      /**
       * The name of the queue; with `OJS_DIALECT=conformance` an object that has it.
       */
      queue: string | {}
      status: 'active' | 'paused'
      stats: QueueStats
      /**
       * When the job that waits longest came into the queue.
       */
      oldest_available_at?: string
      oldest_available_age_seconds?: number
      oldest_overdue_retry_at?: string
      oldest_overdue_schedule_at?: string
      computed_at: string
    }
  }
  'GET /ojs/v1/queues/{name}/priority-stats': {
    query: {}
    body: null
    answer: {
      queue: string
      /**
       * The highest priority first.
       */
      distribution: {
        priority: number
        count: number
      }[]
      /**
       * Only the oldest jobs were counted: `searched`.
       */
      stats_are_partial?: true
      searched?: number
    }
  }
  'POST /ojs/v1/queues/{name}/pause': {
    query: {}
    body: {
      [k: string]: unknown
    }
    answer: {
      /**
       * The name of the queue; with `OJS_DIALECT=conformance` an object that has it.
       */
      queue: string | {}
      status: 'active' | 'paused'
      paused_at: string
    }
  }
  'POST /ojs/v1/queues/{name}/resume': {
    query: {}
    body: {
      [k: string]: unknown
    }
    answer: {
      /**
       * The name of the queue; with `OJS_DIALECT=conformance` an object that has it.
       */
      queue: string | {}
      status: 'active' | 'paused'
      resumed_at: string
    }
  }
  'GET /ojs/v1/rate-limits': {
    query: {
      limit?: number
      offset?: number
      page?: number
      per_page?: number
      cursor?: string
    }
    body: null
    answer: {
      items: RateLimit[]
      pagination: Pagination
    }
  }
  'GET /ojs/v1/rate-limits/{key}': {
    query: {}
    body: null
    answer: RateLimit
  }
  'GET /ojs/v1/schemas': {
    query: {
      limit?: number
      offset?: number
      page?: number
      per_page?: number
    }
    body: null
    answer: {
      schemas: SchemaSummary[]
      pagination: Pagination
    }
  }
  'POST /ojs/v1/schemas': {
    query: {}
    body: RegisterSchemaRequest
    answer: {
      schema: SchemaSummary
    }
  }
  'GET /ojs/v1/schemas/{uri}': {
    query: {}
    body: null
    answer: {
      schema: {
        uri: string
        type: string
        version: number | string
        created_at: string
        schema: {
          [k: string]: unknown
        }
      }
    }
  }
  'DELETE /ojs/v1/schemas/{uri}': {
    query: {}
    body: null
    answer: {
      deleted: true
      uri: string
    }
  }
  'POST /ojs/v1/workflows': {
    query: {}
    body: WorkflowRequest
    answer: {
      workflow: Workflow
      /**
       * A UUIDv7, in lower case.
       */
      id: string
      name?: string
      type: 'dag' | 'chain' | 'group' | 'batch'
      state: WorkflowState
    }
  }
  'GET /ojs/v1/workflows': {
    query: {
      limit?: number
      offset?: number
      page?: number
      per_page?: number
      state?: 'running' | 'completed' | 'failed' | 'cancelled'
    }
    body: null
    answer: {
      workflows: WorkflowSummary[]
      pagination: Pagination
    }
  }
  'GET /ojs/v1/workflows/{id}': {
    query: {}
    body: null
    answer: {
      workflow: Workflow
      /**
       * A UUIDv7, in lower case.
       */
      id: string
      name?: string
      type: 'dag' | 'chain' | 'group' | 'batch'
      state: WorkflowState
    }
  }
  'DELETE /ojs/v1/workflows/{id}': {
    query: {}
    body: null
    answer: {
      workflow: {
        /**
         * A UUIDv7, in lower case.
         */
        id: string
        name?: string
        state: WorkflowState
        cancelled_at: string
        steps_cancelled: number
        steps_already_completed: number
      }
      /**
       * A UUIDv7, in lower case.
       */
      id: string
      name?: string
      type: 'dag' | 'chain' | 'group' | 'batch'
      state: WorkflowState
    }
  }
  'GET /ojs/v1/workflows/{id}/progress': {
    query: {}
    body: null
    answer: {
      /**
       * A UUIDv7, in lower case.
       */
      workflow_id: string
      /**
       * A UUIDv7, in lower case.
       */
      id: string
      type: 'dag' | 'chain' | 'group' | 'batch'
      /**
       * From 0 to 1: the mean of the steps; of a batch, the share of completed jobs.
       */
      progress: number
      updated_at: string
      steps: {
        id: string
        /**
         * Null until the job is made.
         */
        job_id: string | null
        type: string
        state: JobState
        /**
         * From 0 to 1; null without a report.
         */
        progress: number | null
        /**
         * Of the first megabyte of all of it.
         */
        data?: {
          [k: string]: unknown
        }
      }[]
    }
  }
  'GET /ojs/v1/jobs/{id}/history': {
    query: {
      limit?: number
      cursor?: string
      offset?: number
    }
    body: null
    answer: {
      events: HistoryRecord[]
      next_cursor: string | null
      total: number
      pagination: {
        total: number
        limit: number
        offset: number
        has_more: boolean
      }
      /**
       * Older records are gone.
       */
      truncated?: true
    }
  }
  'DELETE /ojs/v1/jobs/{id}/history': {
    query: {}
    body: null
    answer: {
      deleted: true
      events_deleted: number
      /**
       * A UUIDv7, in lower case.
       */
      job_id: string
    }
  }
  'GET /ojs/v1/jobs/{id}/retries': {
    query: {}
    body: null
    answer: {
      /**
       * A UUIDv7, in lower case.
       */
      job_id: string
      retries: {
        attempt: number
        state: JobState
        error: string
        started_at: string | null
        failed_at: string
        next_retry_at: string | null
      }[]
      policy: {
        max_attempts: number
      }
    }
  }
  'GET /ojs/v1/events': {
    query: {
      types?: string
      type?: string
      event_types?: string
      queues?: string
      queue?: string
      after?: string
      limit?: number
    }
    body: null
    answer: {
      events: Event[]
      /**
       * The `after` of the next request.
       */
      cursor: string | null
      has_more: boolean
      /**
       * Events after `after` have already been dropped.
       */
      gap: boolean
    }
  }
  'GET /ojs/v1/events/stream': {
    query: {
      types?: string
      type?: string
      event_types?: string
      queues?: string
      queue?: string
      channel?: string
    }
    body: null
    answer: string
  }
  'GET /ojs/v1/jobs/{id}/events': {
    query: {
      types?: string
      type?: string
      event_types?: string
    }
    body: null
    answer: string
  }
  'GET /ojs/v1/queues/{name}/events': {
    query: {
      types?: string
      type?: string
      event_types?: string
    }
    body: null
    answer: string
  }
  'GET /ojs/v1/jobs/{id}/progress/stream': {
    query: {}
    body: null
    answer: string
  }
  'GET /ojs/v1/admin/stats/stream': {
    query: {}
    body: null
    answer: string
  }
  'GET /ojs/manifest': {
    query: {}
    body: null
    answer: Manifest
  }
  'GET /ojs/v1/health': {
    query: {}
    body: null
    answer: Health
  }
  'GET /health': {
    query: {}
    body: null
    answer: Health
  }
  'GET /livez': {
    query: {}
    body: null
    answer: {
      status: 'ok' | 'degraded' | 'draining' | 'standby'
    }
  }
  'GET /healthz': {
    query: {}
    body: null
    answer: {
      status: 'ok' | 'degraded' | 'draining' | 'standby'
    }
  }
  'GET /readyz': {
    query: {}
    body: null
    answer: {
      status: 'ok' | 'degraded' | 'draining' | 'standby'
    }
  }
  'GET /ready': {
    query: {}
    body: null
    answer: {
      status: 'ok' | 'degraded' | 'draining' | 'standby'
    }
  }
  'GET /ojs/v1/openapi.json': {
    query: {}
    body: null
    answer: {
      [k: string]: unknown
    }
  }
  'GET /metrics': {
    query: {}
    body: null
    answer: string
  }
  'GET /ojs/v1/metrics': {
    query: {}
    body: null
    answer: string
  }
  'GET /ojs/v1/session': {
    query: {}
    body: null
    answer: Session
  }
  'POST /ojs/v1/session': {
    query: {}
    body: SessionRequest
    answer: Session
  }
  'DELETE /ojs/v1/session': {
    query: {}
    body: null
    answer: null
  }
  'GET /ojs/v1/session/login': {
    query: {
      page?: string
    }
    body: null
    answer: Login
  }
  'GET /ojs/v1/admin/system/maintenance': {
    query: {}
    body: null
    answer: Maintenance
  }
  'POST /ojs/v1/admin/system/maintenance': {
    query: {}
    body: {
      enabled: boolean
      reason?: string | null
      estimated_duration?: number | string | null
      duration?: number | string | null
    }
    answer: Maintenance
  }
  'GET /ojs/v1/admin/maintenance': {
    query: {}
    body: null
    answer: Maintenance
  }
  'POST /ojs/v1/admin/maintenance': {
    query: {}
    body: {
      enabled: boolean
      reason?: string | null
      estimated_duration?: number | string | null
      duration?: number | string | null
    }
    answer: Maintenance
  }
  'GET /ojs/v1/admin/system/config': {
    query: {}
    body: null
    answer: {
      [k: string]: {
        value: unknown
        source: 'default' | 'env' | 'file'
      }
    }
  }
  'GET /ojs/v1/admin/config': {
    query: {}
    body: null
    answer: {
      [k: string]: {
        value: unknown
        source: 'default' | 'env' | 'file'
      }
    }
  }
  'POST /ojs/v1/admin/queues/{name}/recover': {
    query: {}
    body: {
      /**
       * Only count and list.
       */
      dry_run?: boolean | null
    }
    answer:
      | {
          queue: string
          republished: number
        }
      | {
          queue: string
          dry_run: true
          jobs_without_message: number
          /**
           * The first hundred.
           */
          job_ids: string[]
        }
  }
  'POST /ojs/v1/admin/retention/resume': {
    query: {}
    body: null
    answer: {
      /**
       * False: nothing was held.
       */
      resumed: boolean
    }
  }
  'POST /ojs/v1/admin/queues/{name}/pause': {
    query: {}
    body: {
      [k: string]: unknown
    }
    answer: {
      name: string
      state: 'paused'
      paused: boolean
      paused_at: string
    }
  }
  'POST /ojs/v1/admin/queues/{name}/resume': {
    query: {}
    body: {
      [k: string]: unknown
    }
    answer: {
      name: string
      state: 'active'
      paused: boolean
      resumed_at: string
    }
  }
  'DELETE /ojs/v1/admin/queues/{name}/jobs': {
    query: {
      states?: string
      older_than?: string
      confirm?: boolean
      dry_run?: boolean
    }
    body: {
      /**
       * @minItems 1
       */
      states: [
        (
          | 'available'
          | 'scheduled'
          | 'pending'
          | 'retryable'
          | 'completed'
          | 'cancelled'
          | 'discarded'
        ),
        ...(
          | 'available'
          | 'scheduled'
          | 'pending'
          | 'retryable'
          | 'completed'
          | 'cancelled'
          | 'discarded'
        )[]
      ]
      older_than?: string | number | null
      confirm?: boolean | null
      dry_run?: boolean | null
    }
    answer:
      | {
          purged_count: number
          states: string[]
          /**
           * Steps that stay with their workflows; those that waited are cancelled.
           */
          kept_for_workflows?: number
          /**
           * Repeat the request.
           */
          has_more?: true
        }
      | {
          dry_run: true
          states: string[]
          matched: number
          matched_is_lower_bound?: true
        }
  }
  'GET /ojs/v1/admin/stats': {
    query: {
      queue?: string
    }
    body: null
    answer: {
      queues: number
      jobs: JobCounts
      throughput: {
        processed_per_minute: number
        failed_per_minute: number
        enqueued_per_min: number
        completed_per_min: number
        failed_per_min: number
        avg_latency_ms?: number
        avg_duration_ms?: number
      }
      /**
       * When the job that waits longest came into the queue.
       */
      oldest_available_at?: string
      oldest_available_age_seconds?: number
      oldest_overdue_retry_at?: string
      oldest_overdue_schedule_at?: string
      queue_summary: {
        total: number
        active: number
        paused: number
      }
      workers: number
      worker_summary: WorkerSummary
      uptime_seconds: number
    }
  }
  'GET /ojs/v1/admin/queues': {
    query: {
      limit?: number
      offset?: number
      page?: number
      per_page?: number
      cursor?: string
      include?: 'rabbitmq'
    }
    body: null
    answer: {
      items: AdminQueue[]
      pagination: Pagination
    }
  }
  'GET /ojs/v1/admin/queues/{name}': {
    query: {
      include?: 'rabbitmq'
    }
    body: null
    answer: AdminQueueDetail
  }
  'POST /ojs/v1/admin/queues/{name}/drain': {
    query: {}
    body: {
      [k: string]: unknown
    }
    answer: {
      name: string
      state: 'draining'
      draining_since: string
      /**
       * Jobs that are not over.
       */
      jobs_left: number
      /**
       * None is left.
       */
      drained: boolean
    }
  }
  'PUT /ojs/v1/admin/queues/{name}/config': {
    query: {}
    body: QueueConfigRequest
    answer: AdminQueueDetail
  }
  'PUT /ojs/v1/queues/{name}/config': {
    query: {}
    body: QueueConfigRequest
    answer: AdminQueueDetail
  }
  'POST /ojs/v1/admin/jobs/{id}/cancel': {
    query: {}
    body: {
      [k: string]: unknown
    }
    answer: {
      job: Job & {
        previous_state: JobState
      }
    }
  }
  'POST /ojs/v1/admin/jobs/{id}/retry': {
    query: {}
    body: {
      [k: string]: unknown
    }
    answer: {
      job: Job & {
        previous_state: JobState
        re_enqueued_at: string
      }
    }
  }
  'POST /ojs/v1/admin/jobs/{id}/copy': {
    query: {}
    body: {
      /**
       * Options of a job; `meta` is merged, anything else replaced.
       */
      override?: {
        [k: string]: unknown
      }
    }
    answer: {
      job: Job
    }
  }
  'POST /ojs/v1/admin/jobs/bulk/retry': {
    query: {}
    body: {
      /**
       * The members of the filters of `GET /ojs/v1/admin/jobs`.
       */
      filter?: {
        [k: string]: unknown
      }
      /**
       * 1 to 1,000 of them, in place of `filter`.
       *
       * Items: A UUIDv7, in lower case.
       */
      job_ids?: string[]
      /**
       * Must be `true`, except with `dry_run`.
       */
      confirm?: boolean
      /**
       * Change nothing, and say how many jobs match, with a sample.
       */
      dry_run?: boolean
      /**
       * Default: 10,000; with `async`: none.
       */
      limit?: number
      /**
       * Answer 202 at once with the operation.
       */
      async?: boolean
    }
    answer:
      | {
          action: 'retry' | 'cancel' | 'delete'
          /**
           * Jobs that it met.
           */
          matched: number
          succeeded: number
          /**
           * Jobs that it left alone.
           */
          failed: number
          retried?: number
          cancelled?: number
          deleted?: number
          errors: {
            /**
             * A UUIDv7, in lower case.
             */
            job_id: string
            error: string
            reason: string
          }[]
          errors_truncated?: true
          /**
           * It ended at its limit, and more jobs match.
           */
          has_more: boolean
          /**
           * A UUIDv7, in lower case.
           */
          operation_id?: string
          state?: 'running' | 'completed' | 'stopped'
        }
      | {
          action: 'retry' | 'cancel' | 'delete'
          dry_run: true
          matched: number
          matched_is_lower_bound?: true
          states: (
            | 'available'
            | 'scheduled'
            | 'pending'
            | 'active'
            | 'retryable'
            | 'completed'
            | 'cancelled'
            | 'discarded'
          )[]
          /**
           * Items: A UUIDv7, in lower case.
           */
          sample: string[]
        }
  }
  'POST /ojs/v1/jobs/bulk/retry': {
    query: {}
    body: {
      /**
       * The members of the filters of `GET /ojs/v1/admin/jobs`.
       */
      filter?: {
        [k: string]: unknown
      }
      /**
       * 1 to 1,000 of them, in place of `filter`.
       *
       * Items: A UUIDv7, in lower case.
       */
      job_ids?: string[]
      atomicity?: 'partial' | 'atomic'
      dry_run?: boolean
    }
    answer:
      | {
          total_matched: number
          retried?: number
          cancelled?: number
          deleted?: number
          skipped: number
          failed: number
          items?: {
            index: number
            /**
             * A UUIDv7, in lower case.
             */
            job_id: string
            status: string
            /**
             * Why it was skipped.
             */
            reason?: string
          }[]
          has_more: boolean
          /**
           * A UUIDv7, in lower case.
           */
          operation_id?: string
          state?: 'running' | 'completed' | 'stopped'
        }
      | {
          action: 'retry' | 'cancel' | 'delete'
          dry_run: true
          matched: number
          matched_is_lower_bound?: true
          states: (
            | 'available'
            | 'scheduled'
            | 'pending'
            | 'active'
            | 'retryable'
            | 'completed'
            | 'cancelled'
            | 'discarded'
          )[]
          /**
           * Items: A UUIDv7, in lower case.
           */
          sample: string[]
        }
  }
  'POST /ojs/v1/admin/jobs/bulk/cancel': {
    query: {}
    body: {
      /**
       * The members of the filters of `GET /ojs/v1/admin/jobs`.
       */
      filter?: {
        [k: string]: unknown
      }
      /**
       * 1 to 1,000 of them, in place of `filter`.
       *
       * Items: A UUIDv7, in lower case.
       */
      job_ids?: string[]
      /**
       * Must be `true`, except with `dry_run`.
       */
      confirm?: boolean
      /**
       * Change nothing, and say how many jobs match, with a sample.
       */
      dry_run?: boolean
      /**
       * Default: 10,000; with `async`: none.
       */
      limit?: number
      /**
       * Answer 202 at once with the operation.
       */
      async?: boolean
    }
    answer:
      | {
          action: 'retry' | 'cancel' | 'delete'
          /**
           * Jobs that it met.
           */
          matched: number
          succeeded: number
          /**
           * Jobs that it left alone.
           */
          failed: number
          retried?: number
          cancelled?: number
          deleted?: number
          errors: {
            /**
             * A UUIDv7, in lower case.
             */
            job_id: string
            error: string
            reason: string
          }[]
          errors_truncated?: true
          /**
           * It ended at its limit, and more jobs match.
           */
          has_more: boolean
          /**
           * A UUIDv7, in lower case.
           */
          operation_id?: string
          state?: 'running' | 'completed' | 'stopped'
        }
      | {
          action: 'retry' | 'cancel' | 'delete'
          dry_run: true
          matched: number
          matched_is_lower_bound?: true
          states: (
            | 'available'
            | 'scheduled'
            | 'pending'
            | 'active'
            | 'retryable'
            | 'completed'
            | 'cancelled'
            | 'discarded'
          )[]
          /**
           * Items: A UUIDv7, in lower case.
           */
          sample: string[]
        }
  }
  'POST /ojs/v1/jobs/bulk/cancel': {
    query: {}
    body: {
      /**
       * The members of the filters of `GET /ojs/v1/admin/jobs`.
       */
      filter?: {
        [k: string]: unknown
      }
      /**
       * 1 to 1,000 of them, in place of `filter`.
       *
       * Items: A UUIDv7, in lower case.
       */
      job_ids?: string[]
      atomicity?: 'partial' | 'atomic'
      dry_run?: boolean
    }
    answer:
      | {
          total_matched: number
          retried?: number
          cancelled?: number
          deleted?: number
          skipped: number
          failed: number
          items?: {
            index: number
            /**
             * A UUIDv7, in lower case.
             */
            job_id: string
            status: string
            /**
             * Why it was skipped.
             */
            reason?: string
          }[]
          has_more: boolean
          /**
           * A UUIDv7, in lower case.
           */
          operation_id?: string
          state?: 'running' | 'completed' | 'stopped'
        }
      | {
          action: 'retry' | 'cancel' | 'delete'
          dry_run: true
          matched: number
          matched_is_lower_bound?: true
          states: (
            | 'available'
            | 'scheduled'
            | 'pending'
            | 'active'
            | 'retryable'
            | 'completed'
            | 'cancelled'
            | 'discarded'
          )[]
          /**
           * Items: A UUIDv7, in lower case.
           */
          sample: string[]
        }
  }
  'POST /ojs/v1/admin/jobs/bulk/delete': {
    query: {}
    body: {
      /**
       * The members of the filters of `GET /ojs/v1/admin/jobs`.
       */
      filter?: {
        [k: string]: unknown
      }
      /**
       * 1 to 1,000 of them, in place of `filter`.
       *
       * Items: A UUIDv7, in lower case.
       */
      job_ids?: string[]
      /**
       * Must be `true`, except with `dry_run`.
       */
      confirm?: boolean
      /**
       * Change nothing, and say how many jobs match, with a sample.
       */
      dry_run?: boolean
      /**
       * Default: 10,000; with `async`: none.
       */
      limit?: number
      /**
       * Answer 202 at once with the operation.
       */
      async?: boolean
    }
    answer:
      | {
          action: 'retry' | 'cancel' | 'delete'
          /**
           * Jobs that it met.
           */
          matched: number
          succeeded: number
          /**
           * Jobs that it left alone.
           */
          failed: number
          retried?: number
          cancelled?: number
          deleted?: number
          errors: {
            /**
             * A UUIDv7, in lower case.
             */
            job_id: string
            error: string
            reason: string
          }[]
          errors_truncated?: true
          /**
           * It ended at its limit, and more jobs match.
           */
          has_more: boolean
          /**
           * A UUIDv7, in lower case.
           */
          operation_id?: string
          state?: 'running' | 'completed' | 'stopped'
        }
      | {
          action: 'retry' | 'cancel' | 'delete'
          dry_run: true
          matched: number
          matched_is_lower_bound?: true
          states: (
            | 'available'
            | 'scheduled'
            | 'pending'
            | 'active'
            | 'retryable'
            | 'completed'
            | 'cancelled'
            | 'discarded'
          )[]
          /**
           * Items: A UUIDv7, in lower case.
           */
          sample: string[]
        }
  }
  'POST /ojs/v1/jobs/bulk/delete': {
    query: {}
    body: {
      /**
       * The members of the filters of `GET /ojs/v1/admin/jobs`.
       */
      filter?: {
        [k: string]: unknown
      }
      /**
       * 1 to 1,000 of them, in place of `filter`.
       *
       * Items: A UUIDv7, in lower case.
       */
      job_ids?: string[]
      atomicity?: 'partial' | 'atomic'
      dry_run?: boolean
    }
    answer:
      | {
          total_matched: number
          retried?: number
          cancelled?: number
          deleted?: number
          skipped: number
          failed: number
          items?: {
            index: number
            /**
             * A UUIDv7, in lower case.
             */
            job_id: string
            status: string
            /**
             * Why it was skipped.
             */
            reason?: string
          }[]
          has_more: boolean
          /**
           * A UUIDv7, in lower case.
           */
          operation_id?: string
          state?: 'running' | 'completed' | 'stopped'
        }
      | {
          action: 'retry' | 'cancel' | 'delete'
          dry_run: true
          matched: number
          matched_is_lower_bound?: true
          states: (
            | 'available'
            | 'scheduled'
            | 'pending'
            | 'active'
            | 'retryable'
            | 'completed'
            | 'cancelled'
            | 'discarded'
          )[]
          /**
           * Items: A UUIDv7, in lower case.
           */
          sample: string[]
        }
  }
  'POST /ojs/v1/jobs/bulk': {
    query: {}
    body: {
      /**
       * @minItems 1
       * @maxItems 1000
       */
      jobs: [
        {
          [k: string]: unknown
        },
        ...{
          [k: string]: unknown
        }[]
      ]
      /**
       * Default: `partial`.
       */
      atomicity?: 'partial' | 'atomic'
      /**
       * The same as the header.
       */
      idempotency_key?: string
    }
    answer: {
      total: number
      succeeded: number
      failed: number
      atomicity: 'partial' | 'atomic'
      items: {
        index: number
        status: 'created' | 'duplicate' | 'failed'
        job?: Job
        error?: {
          [k: string]: unknown
        }
      }[]
    }
  }
  'GET /ojs/v1/admin/operations': {
    query: {
      limit?: number
      offset?: number
      page?: number
      per_page?: number
      cursor?: string
    }
    body: null
    answer: {
      items: Operation[]
      pagination: Pagination
    }
  }
  'GET /ojs/v1/admin/operations/{id}': {
    query: {}
    body: null
    answer: Operation
  }
  'POST /ojs/v1/admin/operations/{id}/stop': {
    query: {}
    body: {
      [k: string]: unknown
    }
    answer: Operation
  }
  'GET /ojs/v1/admin/workers': {
    query: {
      limit?: number
      offset?: number
      page?: number
      per_page?: number
      cursor?: string
    }
    body: null
    answer: {
      items: Worker[]
      summary: WorkerSummary
      pagination: Pagination
    }
  }
  'GET /ojs/v1/admin/workers/{id}': {
    query: {}
    body: null
    answer: WorkerDetail
  }
  'DELETE /ojs/v1/admin/workers/{id}': {
    query: {}
    body: null
    answer: {
      deregistered: true
      id: string
      jobs_requeued: number
      jobs_discarded: number
    }
  }
  'POST /ojs/v1/admin/workers/{id}/quiet': {
    query: {}
    body: {
      [k: string]: unknown
    }
    answer:
      | {
          worker: Worker
          id: string
          state: 'running' | 'quiet' | 'terminate' | 'stale'
          directive: 'running' | 'quiet' | 'terminate'
        }
      | {
          workers: number
        }
  }
  'POST /ojs/v1/admin/workers/{id}/terminate': {
    query: {}
    body: {
      [k: string]: unknown
    }
    answer:
      | {
          worker: Worker
          id: string
          state: 'running' | 'quiet' | 'terminate' | 'stale'
          directive: 'running' | 'quiet' | 'terminate'
        }
      | {
          workers: number
        }
  }
  'POST /ojs/v1/admin/workers/directive': {
    query: {}
    body: {
      directive: 'quiet' | 'resume' | 'terminate'
    }
    answer: {
      workers: number
    }
  }
  'GET /ojs/v1/admin/stats/history': {
    query: {
      period?: '1m' | '5m' | '1h' | '1d'
      since?: string
      until?: string
      queue?: string
    }
    body: null
    answer: {
      period: '1m' | '5m' | '1h' | '1d'
      data: StatsPoint[]
      /**
       * The same as `data`.
       */
      data_points: StatsPoint[]
    }
  }
  'GET /ojs/v1/admin/audit': {
    query: {
      limit?: number
      cursor?: string
      key?: string
    }
    body: null
    answer: {
      items: AuditRecord[]
      pagination: Pagination
    }
  }
  'GET /ojs/v1/admin/rabbitmq': {
    query: {}
    body: null
    answer: Rabbitmq
  }
  'GET /ojs/v1/admin/rabbitmq/queues': {
    query: {
      limit?: number
      offset?: number
    }
    body: null
    answer: {
      items: RabbitmqQueue[]
      pagination: Pagination
    }
  }
  'GET /ojs/v1/admin/jobs/{id}/message': {
    query: {}
    body: null
    answer: JobMessage
  }
  'GET /ojs/v1/admin/system/ledger': {
    query: {}
    body: null
    answer: LedgerSize
  }
}
export interface PushRequest {
  type: string
  args: unknown[]
  id?: string | null
  specversion?: '1.0' | '1.0.0' | '1' | '1.0.0-rc.1' | null
  schema?: string | null
  queue?: string | null
  priority?: (number | null) | ('HIGH' | 'NORMAL' | 'LOW')
  timeout_ms?: number | null
  timeout?: number | null
  visibility_timeout_ms?: number | null
  visibility_timeout?: number | string | null
  delay_until?: string | null
  scheduled_at?: string | null
  expires_at?: string | null
  retry?: RetryPolicy
  retry_policy?: RetryPolicy
  max_attempts?: number | null
  unique?: UniquePolicy
  /**
   * @maxItems 1000
   */
  tags?: string[] | null
  pending?: boolean | null
  rate_limit?: {
    max_per_second?: number | null
    concurrency?: number | null
  } | null
  concurrency?: ConcurrencyPolicy
  result_ttl?: number | null
  meta?: {} | null
  metadata?: {} | null
  options?: JobOptions
}
/**
 * A job. Further members that its producer sent are kept and returned.
 */
export interface Job {
  specversion: string
  /**
   * A UUIDv7, in lower case.
   */
  id: string
  type: string
  queue: string
  args: unknown[]
  meta: {
    [k: string]: unknown
  }
  /**
   * -100 to 100, the highest first.
   */
  priority: number
  /**
   * How long an attempt may take; 0: no limit.
   */
  timeout_ms: number
  /**
   * In seconds; only if the request had it.
   */
  timeout?: number
  /**
   * Its lease: how long its worker may be silent.
   */
  visibility_timeout_ms?: number
  /**
   * In seconds, or as a duration; only if the request had it.
   */
  visibility_timeout?: number | string
  /**
   * Not before this time.
   */
  scheduled_at?: string
  /**
   * Not after this time.
   */
  expires_at?: string
  /**
   * Executions in all, including the first.
   */
  max_attempts: number
  /**
   * As it was given.
   */
  retry?: {
    [k: string]: unknown
  }
  retry_extra?: {
    [k: string]: unknown
  }
  /**
   * As it was given.
   */
  unique?: {
    [k: string]: unknown
  }
  unique_extra?: {
    [k: string]: unknown
  }
  tags: string[]
  /**
   * The URI of the schema that `args` match.
   */
  schema?: string
  rate_limit?: {
    [k: string]: unknown
  }
  /**
   * For how many seconds its result is kept; -1: as long as the job.
   */
  result_ttl?: number
  /**
   * At most `limit` jobs of the key are active at once.
   */
  concurrency?: {
    key?: string
    limit: number
  }
  /**
   * Options that this gateway does not know.
   */
  options?: {
    [k: string]: unknown
  }
  created_at: string
  /**
   * A UUIDv7, in lower case.
   */
  workflow_id?: string
  workflow_step?: string
  /**
   * The results of the steps before: a list, or an object by step.
   */
  parent_results?:
    | unknown[]
    | {
        [k: string]: unknown
      }
  state: JobState
  /**
   * How often it was started.
   */
  attempt: number
  /**
   * 1 more each time an operator retries it; absent: 0.
   */
  generation?: number
  enqueued_at: string
  /**
   * Why it is not handed out although it is available.
   */
  held_by?: {
    /**
     * The key of which as many jobs are active as it allows.
     */
    concurrency: string
  }
  activated_at?: string
  started_at?: string
  /**
   * The worker that runs it.
   */
  worker_id?: string
  next_attempt_at?: string
  retry_delay_ms?: number
  completed_at?: string
  cancelled_at?: string
  discarded_at?: string
  /**
   * Any JSON: the result of its ACK.
   */
  result?: {
    [k: string]: unknown
  }
  error?: Failure
  errors?: AttemptFailure[]
  /**
   * The job that it is a copy of.
   */
  copy_of?: string
  /**
   * The copy by which it was retried, with changes.
   */
  retried_as?: string
  /**
   * The key may not read args, results and messages.
   */
  payload_withheld?: true
}
export interface Failure {
  /**
   * Of attempts that ended without a report, like the times.
   */
  attempt?: number
  occurred_at?: string
  timestamp?: string
  code?: string
  type?: string
  message: string
  retryable?: boolean
  details?: {
    [k: string]: unknown
  }
  /**
   * A text, or a list of frames.
   */
  backtrace?: string | unknown[]
}
export interface AttemptFailure {
  attempt: number
  code?: string
  type?: string
  message: string
  retryable?: boolean
  occurred_at: string
  /**
   * The same as `occurred_at`.
   */
  timestamp: string
  details?: {
    [k: string]: unknown
  }
  /**
   * A text, or a list of frames.
   */
  backtrace?: string | unknown[]
}
export interface Pagination {
  total: number
  limit: number
  /**
   * Absent if the page was asked for by a cursor.
   */
  offset?: number
  page?: number
  per_page?: number
  has_more: boolean
  /**
   * There exactly if there is more, in lists that have cursors.
   */
  next_cursor?: string
  /**
   * There are more than `total`.
   */
  total_is_lower_bound?: true
  /**
   * Not all jobs that may match were looked at; `next_cursor`, if there, goes on.
   */
  search_is_partial?: true
  /**
   * How many were.
   */
  searched?: number
}
export interface BatchRequest {
  /**
   * @minItems 1
   * @maxItems 1000
   */
  jobs: [PushRequest, ...PushRequest[]]
  atomicity?: 'atomic' | null
}
export interface PriorityRequest {
  priority: number
}
export interface JobItem {
  /**
   * A UUIDv7, in lower case.
   */
  id: string
  type: string
  queue: string
  state: JobState
  priority: number
  attempt: number
  max_attempts: number
  tags: string[]
  created_at: string
  enqueued_at: string
  scheduled_at?: string
  started_at?: string
  completed_at?: string
  cancelled_at?: string
  discarded_at?: string
  next_attempt_at?: string
  expires_at?: string
  worker_id?: string
  /**
   * A UUIDv7, in lower case.
   */
  workflow_id?: string
  error?: Failure
  /**
   * Only with `include=args`.
   */
  args?: unknown[]
  /**
   * Only with `include=meta`.
   */
  meta?: {
    [k: string]: unknown
  }
}
export interface FetchRequest {
  /**
   * @minItems 1
   * @maxItems 100
   */
  queues: [string, ...string[]]
  count?: number | null
  batch_size?: number | null
  worker_id?: string | null
  visibility_timeout_ms?: number | null
  visibility_timeout?: number | string | null
  wait_ms?: number | null
}
export interface AckRequest {
  job_id: string
  result?: unknown
  worker_id?: string | null
  attempt?: number | null
  generation?: number | null
}
export interface Ack {
  acknowledged: true
  /**
   * A UUIDv7, in lower case.
   */
  id: string
  /**
   * A UUIDv7, in lower case.
   */
  job_id: string
  state: JobState
  completed_at: string
  job: Job
}
export interface NackRequest {
  job_id: string
  error: ReportedError
  worker_id?: string | null
  attempt?: number | null
  generation?: number | null
  requeue?: boolean | null
  retryable?: boolean | null
}
export interface ReportedError2 {
  message: string
  code?: string | null
  type?: string | null
  retryable?: boolean | null
  details?: {} | null
  backtrace?: unknown
}
export interface Nack {
  /**
   * A UUIDv7, in lower case.
   */
  job_id: string
  /**
   * A UUIDv7, in lower case.
   */
  id: string
  state: JobState
  attempt: number
  max_attempts: number
  next_attempt_at?: string
  retry_delay_ms?: number
  discarded_at?: string
  completed_at?: string
}
export interface SettleRequest {
  worker_id?: string | null
  /**
   * @minItems 1
   * @maxItems 1000
   */
  items: [
    {
      job_id?: string
      error?: ReportedError
      worker_id?: string | null
      attempt?: number | null
      generation?: number | null
      requeue?: boolean | null
      retryable?: boolean | null
      result?: unknown
      action: 'ack' | 'nack'
      traceparent?: string | null
      tracestate?: string | null
    },
    ...{
      job_id?: string
      error?: ReportedError
      worker_id?: string | null
      attempt?: number | null
      generation?: number | null
      requeue?: boolean | null
      retryable?: boolean | null
      result?: unknown
      action: 'ack' | 'nack'
      traceparent?: string | null
      tracestate?: string | null
    }[]
  ]
}
export interface HeartbeatRequest {
  worker_id: string
  /**
   * @maxItems 1000
   */
  active_jobs?: string[] | number | null
  /**
   * @maxItems 1000
   */
  active_job_ids?: string[] | null
  job_id?: string | null
  attempt?: number | null
  generation?: number | null
  visibility_timeout_ms?: number | null
  visibility_timeout?: number | string | null
  state?: string | null
  /**
   * @maxItems 100
   */
  queues?: string[] | null
  hostname?: string | null
  pid?: number | null
  concurrency?: number | null
  /**
   * @maxItems 64
   */
  labels?: string[] | null
  version?: string | null
}
export interface Heartbeat {
  state: 'running' | 'quiet' | 'terminate'
  /**
   * The same as `state`.
   */
  directive: 'running' | 'quiet' | 'terminate'
  /**
   * Jobs whose leases were extended.
   */
  jobs_extended: string[]
  /**
   * Jobs to stop.
   */
  cancelled_jobs: string[]
  server_time: string
  /**
   * How often to send heartbeats while jobs run.
   */
  heartbeat_interval_ms: number
}
export interface WorkerHealth {
  worker_id: string
  state: 'running' | 'draining' | 'shutting_down' | 'stale'
  active_jobs: number
  /**
   * Of a worker that sends none: its last FETCH.
   */
  last_heartbeat_at: string
}
export interface Progress {
  /**
   * A UUIDv7, in lower case.
   */
  job_id: string
  state: JobState
  attempt: number
  /**
   * From 0 to 1; null without a report.
   */
  progress: number | null
  message?: string
  updated_at?: string
  data: {
    [k: string]: unknown
  } | null
}
export interface ProgressRequest {
  job_id: string
  worker_id?: string | null
  attempt?: number | null
  generation?: number | null
  progress?: number | null
  percentage?: number | null
  message?: string | null
  data?: {} | null
  checkpoint?: unknown
}
export interface ResultsRequest {
  /**
   * @minItems 1
   * @maxItems 100
   */
  ids: [string, ...string[]]
}
export interface FailureGroup {
  /**
   * Of the errors.
   */
  code?: string
  /**
   * Of the newest error.
   */
  type?: string
  /**
   * What their messages have in common: numbers, ids and quoted texts replaced.
   */
  pattern: string
  /**
   * Of the newest error.
   */
  message: string
  count: number
  by_type: {
    [k: string]: number
  }
  by_queue: {
    [k: string]: number
  }
  by_state: {
    [k: string]: number
  }
  /**
   * When the first of its jobs failed; of a retry, when the failed attempt began.
   */
  first_at: string
  last_at: string
  /**
   * How many failed in each of the last 24 hours, the current one last.
   */
  trend: number[]
  /**
   * Its newest job.
   */
  job_id: string
  /**
   * Finds the jobs of the group, here and in actions on many jobs; with the filters of the request.
   */
  filter: {
    [k: string]: string | string[]
  }
}
export interface CronJob {
  name: string
  cron: string
  /**
   * The same as `cron`.
   */
  expression: string
  timezone: string
  description?: string
  type: string
  args: unknown[]
  schema?: string
  meta?: {
    [k: string]: unknown
  }
  options?: {
    [k: string]: unknown
  }
  overlap_policy: 'skip' | 'allow' | 'cancel_previous' | 'enqueue'
  status: 'active' | 'disabled'
  enabled: boolean
  last_run_at?: string
  /**
   * Null while it is disabled.
   */
  next_run_at?: string | null
  run_count: number
  last_job_id?: string
  /**
   * Times that wait for the end of an earlier job.
   */
  queued_ticks?: number
  created_at: string
}
export interface CronRequest {
  type?: string
  args?: unknown[]
  schema?: string | null
  queue?: string | null
  priority?: (number | null) | ('HIGH' | 'NORMAL' | 'LOW')
  timeout_ms?: number | null
  timeout?: number | null
  visibility_timeout_ms?: number | null
  visibility_timeout?: number | string | null
  delay_until?: string | null
  scheduled_at?: string | null
  expires_at?: string | null
  retry?: RetryPolicy
  retry_policy?: RetryPolicy
  max_attempts?: number | null
  unique?: UniquePolicy
  /**
   * @maxItems 1000
   */
  tags?: string[] | null
  pending?: boolean | null
  rate_limit?: {
    max_per_second?: number | null
    concurrency?: number | null
  } | null
  concurrency?: ConcurrencyPolicy
  result_ttl?: number | null
  meta?: {} | null
  metadata?: {} | null
  options?: JobOptions
  name: string
  cron?: string | null
  expression?: string | null
  timezone?: string | null
  overlap_policy?:
    'skip' | 'allow' | 'cancel_previous' | 'cancel' | 'replace' | 'enqueue' | 'queue' | null
  enabled?: boolean | null
  description?: string | null
  job_template?: {} | null
}
export interface CronChange {
  type?: string
  args?: unknown[]
  schema?: string | null
  queue?: string | null
  priority?: (number | null) | ('HIGH' | 'NORMAL' | 'LOW')
  timeout_ms?: number | null
  timeout?: number | null
  visibility_timeout_ms?: number | null
  visibility_timeout?: number | string | null
  delay_until?: string | null
  scheduled_at?: string | null
  expires_at?: string | null
  retry?: RetryPolicy
  retry_policy?: RetryPolicy
  max_attempts?: number | null
  unique?: UniquePolicy
  /**
   * @maxItems 1000
   */
  tags?: string[] | null
  pending?: boolean | null
  rate_limit?: {
    max_per_second?: number | null
    concurrency?: number | null
  } | null
  concurrency?: ConcurrencyPolicy
  result_ttl?: number | null
  meta?: {} | null
  metadata?: {} | null
  options?: JobOptions
  name?: string
  cron?: string | null
  expression?: string | null
  timezone?: string | null
  overlap_policy?:
    'skip' | 'allow' | 'cancel_previous' | 'cancel' | 'replace' | 'enqueue' | 'queue' | null
  enabled?: boolean | null
  description?: string | null
  job_template?: {} | null
}
export interface CronRun {
  /**
   * A UUIDv7, in lower case.
   */
  job_id?: string
  /**
   * Of the job; null: unknown.
   */
  state?: string | null
  scheduled_at: string
  started_at?: string
  completed_at?: string
  /**
   * Somebody asked for it.
   */
  manual?: true
  /**
   * The time made no job.
   */
  skipped?: true
  /**
   * Why it made none.
   */
  reason?: string
}
export interface Queue {
  name: string
  status: 'active' | 'paused'
  created_at: string
  /**
   * Jobs that wait to run.
   */
  pending: number
  active: number
  /**
   * When the job that waits longest came into the queue.
   */
  oldest_available_at?: string
  oldest_available_age_seconds?: number
  oldest_overdue_retry_at?: string
  oldest_overdue_schedule_at?: string
}
export interface QueueStats {
  available: number
  active: number
  scheduled: number
  retryable: number
  discarded: number
  completed_last_hour: number
  failed_last_hour: number
  avg_duration_ms: number
  avg_wait_ms: number
  throughput_per_second: number
  pending: number
  completed: number
  cancelled: number
  /**
   * Jobs still to run: available, scheduled and retryable.
   */
  depth: number
  /**
   * Available jobs that their concurrency keys hold back.
   */
  held: number
}
export interface RateLimit {
  /**
   * A concurrency key, or `queue:<name>` for the rate of a queue.
   */
  key: string
  concurrency?: {
    /**
     * Of the next job; absent if it could not be found.
     */
    limit?: number
    active: number
    available?: number
  }
  rate?: {
    /**
     * Of the job that asked last.
     */
    limit: number
    period: string
    current_count: number
    window_resets_at?: string
  }
  /**
   * Counted up to 1,000 for each of both.
   */
  waiting_count: number
  waiting_is_lower_bound?: true
  /**
   * Of `rate`, else of `concurrency`.
   */
  limit?: number
  period?: string
  active: number
  /**
   * The same as `waiting_count`.
   */
  waiting: number
}
export interface SchemaSummary {
  uri: string
  type: string
  version: number | string
  created_at: string
}
export interface RegisterSchemaRequest {
  uri: string
  type: string
  version: number | string
  schema: {}
}
export interface WorkflowRequest {
  id?: string | null
  name?: string | null
  options?: JobOptions
  type?: 'chain' | 'group' | 'batch'
  /**
   * @minItems 1
   * @maxItems 1000
   */
  steps?: [WorkflowStepRequest, ...WorkflowStepRequest[]]
  jobs?: WorkflowStepRequest[]
  callbacks?: {
    on_complete?: WorkflowStepRequest
    on_success?: WorkflowStepRequest
    on_failure?: WorkflowStepRequest
  }
}
export interface WorkflowStepRequest {
  type?: string
  args?: unknown[]
  id?: string
  specversion?: '1.0' | '1.0.0' | '1' | '1.0.0-rc.1' | null
  schema?: string | null
  queue?: string | null
  priority?: (number | null) | ('HIGH' | 'NORMAL' | 'LOW')
  timeout_ms?: number | null
  timeout?: number | null
  visibility_timeout_ms?: number | null
  visibility_timeout?: number | string | null
  delay_until?: string | null
  scheduled_at?: string | null
  expires_at?: string | null
  retry?: RetryPolicy
  retry_policy?: RetryPolicy
  max_attempts?: number | null
  unique?: UniquePolicy
  /**
   * @maxItems 1000
   */
  tags?: string[] | null
  pending?: boolean | null
  rate_limit?: {
    max_per_second?: number | null
    concurrency?: number | null
  } | null
  concurrency?: ConcurrencyPolicy
  result_ttl?: number | null
  meta?: {} | null
  metadata?: {} | null
  options?: JobOptions
  depends_on?: string[] | null
}
export interface Workflow {
  /**
   * A UUIDv7, in lower case.
   */
  id: string
  name?: string
  type: 'dag' | 'chain' | 'group' | 'batch'
  state: WorkflowState
  steps_total: number
  steps_completed: number
  /**
   * The same as `steps_total`.
   */
  jobs_total: number
  /**
   * The same as `steps_completed`.
   */
  jobs_completed: number
  created_at: string
  started_at?: string
  /**
   * Also of a failure.
   */
  completed_at?: string
  cancelled_at?: string
  steps: WorkflowStep[]
  callbacks?: WorkflowStep[]
  failed_step_id?: string
  failed_step_index?: number
  failed_job_ids?: string[]
  errors?: {
    job_id: string | null
    code: string
    message: string
    attempt: number
  }[]
  metadata: {
    created_at: string
    started_at?: string
    /**
     * Also of a failure.
     */
    completed_at?: string
    cancelled_at?: string
    job_count: number
    completed_count: number
    failed_count: number
  }
}
export interface WorkflowStep {
  id: string
  type: string
  state: JobState
  /**
   * Null until the job is made.
   */
  job_id: string | null
  started_at?: string
  completed_at?: string
  cancelled_at?: string
  depends_on: string[]
  result?: unknown
  error?: Failure
  /**
   * The key may not read results and messages.
   */
  payload_withheld?: true
}
export interface WorkflowSummary {
  /**
   * A UUIDv7, in lower case.
   */
  id: string
  name?: string
  type: 'dag' | 'chain' | 'group' | 'batch'
  state: WorkflowState
  steps_total: number
  steps_completed: number
  /**
   * The same as `steps_total`.
   */
  jobs_total: number
  /**
   * The same as `steps_completed`.
   */
  jobs_completed: number
  created_at: string
  started_at?: string
  /**
   * Also of a failure.
   */
  completed_at?: string
  cancelled_at?: string
}
export interface HistoryRecord {
  id: string
  /**
   * A UUIDv7, in lower case.
   */
  job_id: string
  event_type: string
  timestamp: string
  actor: {
    type: 'worker' | 'client' | 'system'
    id: string
  }
  data: {
    [k: string]: unknown
  }
  metadata?: {
    request_id: string
  }
}
export interface Event {
  /**
   * OJS specification version.
   */
  specversion: '1.0'
  /**
   * Event identifier: evt_ and a UUIDv7.
   */
  id: string
  /**
   * Event type, e.g. job.completed.
   */
  type: string
  /**
   * Emitter of the event: ojs://{service}/{component}/{instance}.
   */
  source: string
  /**
   * Time of the event (RFC 3339).
   */
  time: string
  /**
   * Id or name of the job, queue, worker, workflow or cron job concerned.
   */
  subject: string
  /**
   * Facts about the event; the members depend on its type.
   */
  data: {
    [k: string]: unknown
  }
}
export interface Manifest {
  ojs_version: string
  specversion: string
  implementation: {
    name: string
    version: string
    language: string
  }
  conformance_level: number
  conformance_tier: string
  protocols: string[]
  backend: string
  capabilities: {
    [k: string]: boolean
  }
  unique_job_strength: string
  extensions: string[]
  extension_details: {
    [k: string]: unknown
  }
  endpoints: {
    base_url: string
    manifest: string
    health: string
    openapi: string
  }
}
export interface Health {
  status: 'ok' | 'degraded' | 'standby'
  version: string
  uptime_seconds: number
  backend: {
    type: string
    status: 'connected' | 'disconnected' | 'blocked' | 'refused'
    latency_ms?: number
    error?: string
  }
  ledger: {
    type: 'sqlite' | 'postgres'
    status: 'writable' | 'failing'
    /**
     * With PostgreSQL: how many gateways wait to take over.
     */
    standbys?: number
    error?: string
  }
  /**
   * Of a standby, for operators: where the active gateway is.
   */
  active_url?: string
  draining: boolean
  maintenance: boolean
  /**
   * Only for operators.
   */
  warnings?: {
    code: string
    message: string
    [k: string]: unknown
  }[]
}
export interface Session {
  /**
   * Whether this gateway asks for API keys.
   */
  needs_key: boolean
  /**
   * Whether this request has a key or a session. Always without API keys.
   */
  signed_in: boolean
  /**
   * Of the key; of a person, after `oidc:`.
   */
  name?: string
  role?: 'producer' | 'worker' | 'reader' | 'operator' | 'admin'
  /**
   * The key is for these only.
   */
  queues?: string[]
  /**
   * Of the session.
   */
  expires_at?: string
  /**
   * The OpenID Connect provider that people can sign in with.
   */
  provider?: string
  /**
   * Where to find a trace: with `{trace_id}` in it (`OJS_TRACE_URL`).
   */
  trace_url?: string
  /**
   * What decodes encrypted args (`OJS_CODEC_URL`).
   */
  codec_url?: string
  /**
   * Every endpoint that the caller may use, as `GET /ojs/v1/jobs/{id}`.
   */
  operations: string[]
  version: string
}
export interface SessionRequest {
  key?: string
  /**
   * The query that the OpenID Connect provider added to the address of the console.
   */
  callback?: string
}
export interface Login {
  url: string
}
export interface Maintenance {
  enabled: boolean
  /**
   * The same as `enabled`.
   */
  maintenance: boolean
  reason?: string
  started_at?: string
  /**
   * The same as `started_at`.
   */
  enabled_at?: string
  ends_at?: string
  /**
   * The same as `ends_at`.
   */
  estimated_end?: string
}
export interface JobCounts {
  available: number
  scheduled: number
  pending: number
  active: number
  retryable: number
  completed: number
  cancelled: number
  discarded: number
}
export interface WorkerSummary {
  total: number
  running: number
  quiet: number
  terminate: number
  stale: number
}
export interface AdminQueue {
  name: string
  state: 'active' | 'paused' | 'draining'
  paused: boolean
  paused_at?: string
  counts: JobCounts
  draining_since?: string
  /**
   * Jobs that are not over.
   */
  jobs_left?: number
  /**
   * None is left.
   */
  drained?: boolean
  /**
   * Means of the last five whole minutes.
   */
  throughput: {
    processed_per_minute: number
    failed_per_minute: number
  }
  /**
   * How long jobs waited within the last hour; off by 9 % at most.
   */
  latency_ms?: {
    p50: number
    p95: number
    p99: number
  }
  /**
   * When the job that waits longest came into the queue.
   */
  oldest_available_at?: string
  oldest_available_age_seconds?: number
  oldest_overdue_retry_at?: string
  oldest_overdue_schedule_at?: string
  created_at: string
  /**
   * If asked for, and RabbitMQ answers.
   */
  rabbitmq?: QueueMessages
}
export interface QueueMessages {
  ready: number
  consumers: number
  /**
   * Deliveries that this gateway holds: buffered, or with workers over HTTP.
   */
  held: number
  /**
   * Of all consumers, some seconds old. With `OJS_MANAGEMENT_URL`.
   */
  unacknowledged?: number
  /**
   * Available jobs that concurrency keys hold back, without a message.
   */
  held_back: number
  /**
   * Available jobs that have lost their messages; 0 if they are few.
   */
  missing: number
}
export interface AdminQueueDetail {
  name: string
  state: 'active' | 'paused' | 'draining'
  paused: boolean
  paused_at?: string
  counts: JobCounts
  draining_since?: string
  /**
   * Jobs that are not over.
   */
  jobs_left?: number
  /**
   * None is left.
   */
  drained?: boolean
  /**
   * Means of the last five whole minutes.
   */
  throughput: {
    processed_per_minute: number
    failed_per_minute: number
  }
  /**
   * How long jobs waited within the last hour; off by 9 % at most.
   */
  latency_ms?: {
    p50: number
    p95: number
    p99: number
  }
  /**
   * When the job that waits longest came into the queue.
   */
  oldest_available_at?: string
  oldest_available_age_seconds?: number
  oldest_overdue_retry_at?: string
  oldest_overdue_schedule_at?: string
  created_at: string
  /**
   * If asked for, and RabbitMQ answers.
   */
  rabbitmq?: QueueMessages
  /**
   * What is set for this queue; see `PUT …/config`.
   */
  configuration: {
    [k: string]: unknown
  }
}
export interface QueueConfigRequest {
  default_retry?: RetryPolicy
  max_size?: number | null
  max_size_bytes?: number | null
  overflow_policy?: string | null
  backpressure?: {
    max_depth?: number | null
    max_size_bytes?: number | null
    strategy?: string | null
  } | null
  concurrency?: unknown
  rate_limit?: unknown
  retention?: unknown
  visibility_timeout?: unknown
  default_timeout?: unknown
  dead_letter_max_size?: unknown
  dead_letter_ttl?: unknown
  dead_letter_queue?: unknown
  allowed_job_types?: unknown
  producers?: unknown
}
export interface Operation {
  /**
   * A UUIDv7, in lower case.
   */
  id: string
  action: 'retry' | 'cancel' | 'delete'
  state: 'running' | 'completed' | 'stopped'
  filter: {
    [k: string]: unknown
  }
  /**
   * The states in which it touches jobs.
   */
  states: (
    | 'available'
    | 'scheduled'
    | 'pending'
    | 'active'
    | 'retryable'
    | 'completed'
    | 'cancelled'
    | 'discarded'
  )[]
  limit?: number
  /**
   * How many jobs matched when it began.
   */
  expected: number
  expected_is_lower_bound?: true
  /**
   * Jobs that it met.
   */
  matched: number
  succeeded: number
  /**
   * Jobs that it left alone.
   */
  failed: number
  retried?: number
  cancelled?: number
  deleted?: number
  errors: {
    /**
     * A UUIDv7, in lower case.
     */
    job_id: string
    error: string
    reason: string
  }[]
  errors_truncated?: true
  /**
   * It ended at its limit, and more jobs match.
   */
  has_more: boolean
  /**
   * The name of the key.
   */
  started_by?: string
  request_id?: string
  created_at: string
  updated_at: string
  ended_at?: string
}
export interface Worker {
  id: string
  /**
   * The same as `id`.
   */
  worker_id: string
  state: 'running' | 'quiet' | 'terminate' | 'stale'
  directive: 'running' | 'quiet' | 'terminate'
  hostname?: string
  pid?: number
  queues: string[]
  concurrency?: number
  labels: string[]
  version?: string
  active_jobs: number
  /**
   * The first hundred.
   */
  active_job_ids: string[]
  started_at: string
  last_heartbeat_at: string
  /**
   * The same as `last_heartbeat_at`.
   */
  last_heartbeat: string
  last_seen_at: string
  metadata: {
    [k: string]: unknown
  }
}
export interface WorkerDetail {
  id: string
  /**
   * The same as `id`.
   */
  worker_id: string
  state: 'running' | 'quiet' | 'terminate' | 'stale'
  directive: 'running' | 'quiet' | 'terminate'
  hostname?: string
  pid?: number
  queues: string[]
  concurrency?: number
  labels: string[]
  version?: string
  active_jobs: number
  /**
   * The first hundred.
   */
  active_job_ids: string[]
  started_at: string
  last_heartbeat_at: string
  /**
   * The same as `last_heartbeat_at`.
   */
  last_heartbeat: string
  last_seen_at: string
  metadata: {
    [k: string]: unknown
  }
  jobs: {
    /**
     * A UUIDv7, in lower case.
     */
    id: string
    type: string
    queue: string
    attempt: number
    started_at?: string
    timeout_ms: number
  }[]
}
export interface StatsPoint {
  timestamp: string
  processed: number
  completed: number
  failed: number
  retried: number
  enqueued: number
  latency_p50_ms?: number
  latency_p95_ms?: number
  latency_p99_ms?: number
  duration_p50_ms?: number
  duration_p95_ms?: number
  duration_p99_ms?: number
  avg_latency_ms?: number
}
export interface AuditRecord {
  id: string
  timestamp: string
  /**
   * The name of the API key; absent: it had none.
   */
  key?: string
  /**
   * Of the key.
   */
  role?: string
  /**
   * Of the client.
   */
  address?: string
  method: string
  /**
   * As `POST /ojs/v1/admin/queues/{name}/pause`.
   */
  endpoint: string
  /**
   * What was asked for, with its query; its first 512 characters.
   */
  path: string
  /**
   * Of the answer; 0: the client left before it.
   */
  status: number
  /**
   * The log lines of the request have it, too.
   */
  request_id: string
}
export interface Rabbitmq {
  status: 'up' | 'down' | 'blocked' | 'foreign'
  reason?: string
  virtual_host: string
  /**
   * Empty while there is no connection.
   */
  version: string
  gateway_connections: {
    name: string
    up: boolean
    channels: number
    /**
     * Why it is down or blocked.
     */
    reason?: string
  }[]
  management: 'connected' | 'not_configured' | 'denied' | 'unavailable'
  management_error?: string
  cluster_name?: string
  erlang_version?: string
  /**
   * Absent: RabbitMQ does not tell.
   */
  nodes?: {
    items: RabbitmqNode[]
    total: number
  }
  /**
   * Absent: RabbitMQ does not tell.
   */
  connections?: {
    items: RabbitmqConnection[]
    total: number
  }
  /**
   * Absent: RabbitMQ does not tell.
   */
  channels?: {
    items: RabbitmqChannel[]
    total: number
  }
  /**
   * Absent: RabbitMQ does not tell.
   */
  policies?: {
    items: RabbitmqPolicy[]
    total: number
  }
  warnings: {
    code: string
    message: string
    details?: {
      [k: string]: unknown
    }
  }[]
}
export interface RabbitmqNode {
  name: string
  running: boolean
  memory_used?: number
  memory_limit?: number
  memory_alarm: boolean
  disk_free?: number
  disk_limit?: number
  disk_alarm: boolean
  uptime_ms?: number
}
export interface RabbitmqConnection {
  name: string
  user?: string
  peer?: string
  state?: string
  channels?: number
  /**
   * Of its client library.
   */
  product?: string
  connected_at?: string
}
export interface RabbitmqChannel {
  name: string
  user?: string
  state?: string
  consumers?: number
  unacknowledged?: number
  unconfirmed?: number
  prefetch?: number
}
export interface RabbitmqPolicy {
  name: string
  pattern: string
  applies_to: string
  definition: {
    [k: string]: unknown
  }
  priority: number
}
export interface RabbitmqQueue {
  name: string
  use: 'job' | 'dead_letters' | 'control' | 'retry' | 'system' | 'other'
  /**
   * The OJS queue that it belongs to.
   */
  queue?: string
  type?: string
  ready?: number
  unacknowledged?: number
  consumers?: number
  policy?: string
  node?: string
  state?: string
  /**
   * False: the gateway would declare it, and it is not there.
   */
  exists: boolean
  /**
   * As RabbitMQ has them.
   */
  arguments?: {
    [k: string]: unknown
  }
  /**
   * As the gateway would declare them; absent: it would not.
   */
  expected?: {
    [k: string]: unknown
  }
  /**
   * The names of the arguments that differ.
   */
  differing: string[]
}
export interface JobMessage {
  exchange: string
  routing_key: string
  properties: {
    [k: string]: unknown
  }
  /**
   * Without payload, those of OJS only.
   */
  headers: {
    [k: string]: unknown
  }
  /**
   * Size of the body.
   */
  bytes: number
  /**
   * Its text.
   */
  body?: string
  /**
   * The key may not read payloads.
   */
  payload_withheld?: true
}
export interface LedgerSize {
  bytes: number
  /**
   * Of it free: rows that went have left it for others.
   */
  free_bytes: number
  /**
   * When this gateway started.
   */
  bytes_at_start: number
  started_at: string
  /**
   * In all states.
   */
  jobs: number
  dead_letters: number
  queues: number
  /**
   * Without a confirm; counted up to 10,000.
   */
  owed_messages: number
}
