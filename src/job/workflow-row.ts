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
  /**
   * JSON texts. `result`: null where there is none, or it is only named (`ResultBudget`). `error`: of a
   * step that has not succeeded; only `code` and `message` where the answer has no room for all of it.
   */
  result: string | null
  resultBytes: number
  error: string | null
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
