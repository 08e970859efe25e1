import type { Job } from './job.ts'
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

export interface Queue {
  name: string
  status: 'active' | 'paused'
  created_at?: string
  [member: string]: unknown
}

/** Seed 001 §11.2. */
export interface QueueStats {
  queue: string
  status: 'active' | 'paused'
  stats: Record<string, number>
  computed_at?: string
  [member: string]: unknown
}

export interface CronJob {
  name: string
  cron: string
  timezone?: string
  type: string
  args: unknown[]
  meta?: Record<string, unknown>
  options?: WireJobOptions
  status?: string
  enabled?: boolean
  overlap_policy?: string
  run_count?: number
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

export interface Workflow {
  id: string
  name?: string
  state: string
  steps?: WorkflowStepState[]
  created_at?: string
  cancelled_at?: string
  [member: string]: unknown
}

export interface WorkflowStepState {
  id: string
  type: string
  state: string
  job_id: string | null
  depends_on?: string[]
  result?: unknown
  [member: string]: unknown
}

/** Of the admin API; not part of the seeds (ojs-digest §11). */
export interface WorkerInfo {
  id: string
  state: string
  directive?: string
  queues: string[]
  active_jobs: number
  last_heartbeat_at?: string
  [member: string]: unknown
}

/** Seed 001 §8.1. */
export interface Health {
  status: string
  version?: string
  uptime_seconds?: number
  backend?: Record<string, unknown>
  [member: string]: unknown
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
