/** The part of the ledger's contract for workflows (seed 001 §14). */
import type { JobRow } from '../job/job.ts'
import type { PushRequest } from '../job/request.ts'
import type { EndedStep, FailedStep, WorkflowHead, WorkflowRow } from '../job/workflow/row.ts'
import type { WorkflowSettings } from '../job/workflow/step.ts'
import type { PlanNode, WorkflowState, WorkflowType } from '../job/workflow/workflow.ts'
import type { AnsweredBefore, KeyedRequest } from './idempotency.ts'
import type { Cancelled } from './leases.ts'

/** The part of the ledger's contract that workflows need (seed 001 §14). */
export interface WorkflowLedger {
  /**
   * Stores the workflow as `running`, and the jobs of all steps that wait for nothing, in one transaction.
   *
   * From then on a step begins in the transaction that ends the last job it waits for, whichever ledger
   * method that is: its job is inserted `available` (or as its options say) with a fresh outbox nonce,
   * exactly once. Fence: the step still waits. The workflow itself ends in the same way.
   *
   * Fence of the workflow: its id is free. Remembers `request`, or stores nothing if it was remembered.
   */
  create(workflow: NewWorkflow, now: number, request?: KeyedRequest): Promise<WorkflowCreated>

  /**
   * `running → cancelled`, and cancels every job of the workflow that is not over, as CANCEL does. No
   * callback job starts. Fence: `running`.
   */
  cancel(id: string, now: number): Promise<CancelledWorkflow | 'stale'>

  /**
   * Sets the `listener`, which is called after every commit that moved a workflow, with what happened, in
   * order. A listener is needed because the caller that ends a job does not learn which steps that starts.
   * It must not throw.
   */
  onNews(listener: (news: readonly WorkflowNews[]) => void): void
}

export type WorkflowCreated =
  | { outcome: 'created'; workflow: WorkflowRow }
  | { outcome: 'duplicate' }
  | AnsweredBefore

export interface NewWorkflow {
  id: string
  name: string | null
  type: WorkflowType
  settings: WorkflowSettings
  /** The nodes of the plan; each job with its checked request. */
  nodes: readonly CheckedNode[]
}

export type CheckedNode = PlanNode & ({ kind: 'join' } | { kind: 'job'; push: PushRequest })

export interface WorkflowQuery {
  state: WorkflowState | null
  limit: number
  offset: number
}

export interface CancelledWorkflow {
  workflow: WorkflowHead
  /** How many steps had not ended, started or not; without callbacks that had not started. */
  stepsCancelled: number
  jobs: Cancelled[]
}

export type WorkflowNews =
  /** A step has begun: its job owes a job message, unless it is scheduled for later. */
  | { what: 'born'; workflow: WorkflowHead; job: JobRow }
  /** The job of a step that has begun replaced this job (`unique`). */
  | { what: 'replaced'; workflow: WorkflowHead; cancelled: Cancelled }
  | { what: 'step'; workflow: WorkflowHead; step: EndedStep }
  /** `failed`: if the workflow has failed, the last step that failed. */
  | { what: 'ended'; workflow: WorkflowHead; failed: FailedStep | null }
