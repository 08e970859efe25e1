import type { Job, JobState } from './job.ts'
import type { WireJobOptions } from './job-options.ts'

/** What the server answers, in its own names (seed 001). Times are RFC 3339, UTC. */
export interface Pagination {
  total: number
  limit: number
  offset: number
  has_more: boolean
}

/** Which part of a list; the server's default is the first 50. */
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

/** Jobs by their state, and the throughput of the last hour. A server may leave out what it does not keep. */
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
  /** Those that are to run yet: `available`, `scheduled` and `retryable`. */
  depth?: number
  [member: string]: unknown
}

/** Seed 001 §11.2. */
export interface QueueStats {
  queue: string
  status: QueueStatus
  stats: QueueCounts
  computed_at?: string
  [member: string]: unknown
}

/** What becomes of a tick while a job of an earlier one is not over. */
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
  version: number
  /** Only of a single one. */
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
  /** Not in a list. */
  steps?: WorkflowStepState[]
  /** Of a batch. */
  callbacks?: WorkflowStepState[]
  /** Callbacks are not counted. */
  steps_total?: number
  steps_completed?: number
  /** Of the steps that have failed, the first one first. */
  errors?: WorkflowError[]
  failed_step_id?: string
  failed_job_ids?: string[]
  created_at?: string
  started_at?: string
  completed_at?: string
  cancelled_at?: string
  /** Of an answer to `cancel`, as is the next. */
  steps_cancelled?: number
  steps_already_completed?: number
  [member: string]: unknown
}

export interface WorkflowStepState {
  id: string
  type: string
  /** Of its job; `pending` also before there is one. */
  state: JobState
  job_id: string | null
  depends_on?: string[]
  started_at?: string
  completed_at?: string
  cancelled_at?: string
  result?: unknown
  /** As a job's. */
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

/** Of the admin API; not part of the seeds (ojs-digest §11). */
export interface WorkerInfo {
  id: string
  /** `stale`: nothing was heard of it for a while. */
  state: 'running' | 'quiet' | 'terminate' | 'stale'
  /** What it has been told. */
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

/** Seed 001 §8.1. */
export interface Health {
  status: 'ok' | 'degraded'
  version?: string
  uptime_seconds?: number
  backend?: Record<string, unknown>
  /** Of this gateway. */
  ledger?: Record<string, unknown>
  /** Of this gateway, to those who may know (`docs/operations.md` explains each code). */
  warnings?: HealthWarning[]
  [member: string]: unknown
}

export interface HealthWarning {
  code: string
  message: string
  details?: Record<string, unknown>
}

/** Seed 001 §21. */
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
