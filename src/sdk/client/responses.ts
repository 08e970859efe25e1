/** The types of the server's answers. */
import type { Job, JobState } from '../job.ts'
import type { WireJobOptions } from './job-options.ts'

/** Answers of the server under their names on the wire (seed 001). Times are RFC 3339, UTC. */
export interface Pagination {
  total: number
  limit: number
  offset: number
  has_more: boolean
}

/** The part of a list to answer; the server's default is the first 50 items. */
export interface PageOptions {
  /** At most 100. */
  limit?: number | undefined
  offset?: number | undefined
}

export type QueueStatus = 'active' | 'paused'

export interface Queue {
  name: string
  status: QueueStatus
  created_at?: string
  [member: string]: unknown
}

/** Jobs by state, and the throughput of the last hour. A server may leave out what it does not keep. */
export interface QueueCounts {
  available?: number
  active?: number
  scheduled?: number
  retryable?: number
  discarded?: number
  completed_last_hour?: number
  failed_last_hour?: number
  avg_duration_ms?: number
  avg_wait_ms?: number
  throughput_per_second?: number
  pending?: number
  completed?: number
  cancelled?: number
  /** Jobs that have yet to run: `available`, `scheduled` and `retryable`. */
  depth?: number
  [member: string]: unknown
}

/** The statistics of a queue (seed 001 §11.2). */
export interface QueueStats {
  queue: string
  status: QueueStatus
  stats: QueueCounts
  computed_at?: string
  [member: string]: unknown
}

/** What happens at a tick while a job of an earlier tick has not ended. */
export type OverlapPolicy = 'skip' | 'allow' | 'cancel_previous' | 'enqueue'

export interface CronJob {
  name: string
  cron: string
  timezone?: string
  type: string
  args: unknown[]
  meta?: Record<string, unknown>
  options?: WireJobOptions
  description?: string
  status?: 'active' | 'disabled'
  enabled?: boolean
  overlap_policy?: OverlapPolicy
  run_count?: number
  last_job_id?: string
  last_run_at?: string
  next_run_at?: string
  created_at?: string
  [member: string]: unknown
}

export interface Schema {
  uri: string
  type: string
  /** As it was registered. */
  version: number | string
  /** Only in the answer for a single schema, not in a list. */
  schema?: Record<string, unknown>
  created_at?: string
  [member: string]: unknown
}

export type WorkflowState = 'running' | 'completed' | 'failed' | 'cancelled'

export interface Workflow {
  id: string
  name?: string
  /** `dag`: a graph of steps. */
  type?: 'dag' | 'chain' | 'group' | 'batch'
  state: WorkflowState
  /** Not in the answer to `list`. */
  steps?: WorkflowStepState[]
  /** The callbacks of a batch. */
  callbacks?: WorkflowStepState[]
  /** Does not count callbacks. */
  steps_total?: number
  steps_completed?: number
  /** The errors of the failed steps, the first failure first. */
  errors?: WorkflowError[]
  failed_step_id?: string
  failed_job_ids?: string[]
  created_at?: string
  started_at?: string
  completed_at?: string
  cancelled_at?: string
  /** This and the next member are only in the answer to `cancel`. */
  steps_cancelled?: number
  steps_already_completed?: number
  [member: string]: unknown
}

export interface WorkflowStepState {
  id: string
  type: string
  /** The state of the step's job; `pending` also before there is a job. */
  state: JobState
  job_id: string | null
  depends_on?: string[]
  started_at?: string
  completed_at?: string
  cancelled_at?: string
  result?: unknown
  /** The error of the step's job. */
  error?: Record<string, unknown>
  [member: string]: unknown
}

export interface WorkflowError {
  job_id: string | null
  code: string
  message: string
  attempt?: number
  [member: string]: unknown
}

/** A worker in the admin API; not part of the seeds (OJS admin API). */
export interface WorkerInfo {
  id: string
  /** `stale`: the server has not heard from the worker for a while. */
  state: 'running' | 'quiet' | 'terminate' | 'stale'
  /** The directive that the worker was given. */
  directive?: 'running' | 'quiet' | 'terminate'
  queues: string[]
  active_jobs: number
  active_job_ids?: string[]
  concurrency?: number
  hostname?: string
  pid?: number
  labels?: string[]
  version?: string
  started_at?: string
  last_heartbeat_at?: string
  last_seen_at?: string
  [member: string]: unknown
}

/** How a job has ended. */
export interface JobResult {
  job_id: string
  state: 'completed' | 'cancelled' | 'discarded'
  /** What its handler returned. */
  result?: unknown
  /** Its last failure. */
  error?: Record<string, unknown>
  completed_at?: string
}

/** The server's health (seed 001 §8.1). */
export interface Health {
  status: 'ok' | 'degraded'
  version?: string
  uptime_seconds?: number
  backend?: Record<string, unknown>
  /** Only from this gateway. */
  ledger?: Record<string, unknown>
  /** Only from this gateway, to clients that may see them (`docs/operate/operations.md` explains each code). */
  warnings?: HealthWarning[]
  [member: string]: unknown
}

export interface HealthWarning {
  code: string
  message: string
  details?: Record<string, unknown>
}

/** What the server is and can do (seed 001 §21). */
export interface Manifest {
  ojs_version: string
  implementation: { name: string; version: string; language: string; homepage?: string }
  conformance_level: number
  protocols: string[]
  backend: string
  capabilities: Record<string, unknown>
  extensions?: unknown
  endpoints?: Record<string, unknown>
  [member: string]: unknown
}

export interface JobPage {
  jobs: Job[]
  pagination: Pagination
}
