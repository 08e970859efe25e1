import type { JobRow } from './job.ts'
import type { Outcome, WorkflowState, WorkflowType } from './workflow.ts'

/** A workflow without its steps, as the ledger keeps it. */
export interface WorkflowHead {
  id: string
  name: string | null
  type: WorkflowType
  state: WorkflowState
  createdAt: number
  /** When it completed, failed or was cancelled. */
  endedAt: number | null
  /** Jobs, callbacks not counted: all of them, those that succeeded, those that failed. */
  total: number
  completed: number
  failed: number
  /** Those that are not over yet. */
  open: number
}

export interface WorkflowRow extends WorkflowHead {
  /** When the first job began. */
  startedAt: number | null
  steps: WorkflowStep[]
}

export interface WorkflowStep {
  id: string
  type: string
  isCallback: boolean
  dependsOn: readonly string[]
  /** `waiting`, `started`, or how it ended. */
  progress: 'waiting' | 'started' | Outcome
  /** The state of its job, or the one it ended in: a dead letter may live on without the workflow. */
  state: JobRow['state']
  jobId: string | null
  startedAt: number | null
  endedAt: number | null
  attempt: number
  /** JSON texts. `result`: null where there is none, or it is only named (`ResultBudget`). */
  result: string | null
  resultBytes: number
  error: string | null
}

/** Of a job that nobody ran in time: such a one has no record of a failure. */
const EXPIRED = JSON.stringify({
  code: 'expired',
  message: "The job's time was over before it could run.",
})

/**
 * Why a step has failed, told of its job as that ends; JSON text. It outlives the job, which may be
 * retried as a dead letter, or deleted. Null: the state says it all.
 */
export function stepError({ state, error, completedAt }: JobRow): string | null {
  // Every other end of a discarded job has a `completed_at` (conformance.md S7).
  const isExpired = state === 'discarded' && completedAt === null
  return error ?? (isExpired ? EXPIRED : null)
}

/** A step that has failed. */
export interface FailedStep {
  id: string
  type: string
  /** How its job ended. */
  state: JobRow['state']
  /** JSON text; null: the state says it all. */
  error: string | null
}

/** A step whose job is over, or could not be made. */
export interface EndedStep {
  id: string
  type: string
  outcome: 'completed' | 'failed'
  /** Null: none was made. */
  job: JobRow | null
}
