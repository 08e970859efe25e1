/** A workflow, and its steps, as the ledger keeps them. */
import type { JobRow } from '../job.ts'
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
  /** Numbers of jobs without callbacks: all, succeeded, failed. */
  total: number
  completed: number
  failed: number
  /** Jobs that have not ended yet. */
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
  /** The state of its job; after its end the one it ended in, even if the job is retried as a dead letter. */
  state: JobRow['state']
  jobId: string | null
  startedAt: number | null
  endedAt: number | null
  attempt: number
  /**
   * JSON texts. `result`: null if there is none or only a reference is shown (`ResultBudget`). `error`: of a
   * step that did not succeed; only `code` and `message` if the answer has no room for all of it.
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
  /** JSON text; null: there is no error beside the state. */
  error: string | null
}

/** A step whose job has ended, or could not be made. */
export interface EndedStep {
  id: string
  type: string
  outcome: 'completed' | 'failed'
  /** Null: the job could not be made. */
  job: JobRow | null
}
