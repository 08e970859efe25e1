/** The part of the ledger's contract for workflows (seed 001 §14). */
import type { PushRequest } from '../job/request.ts'
import type { WorkflowHead, WorkflowRow } from '../job/workflow/row.ts'
import type { WorkflowSettings } from '../job/workflow/step.ts'
import type { PlanNode, WorkflowState, WorkflowType } from '../job/workflow/workflow.ts'
import type { Cancelled, WithNews } from './ended.ts'
import type { AnsweredBefore, KeyedRequest } from './idempotency.ts'

/** The part of the ledger's contract that workflows need (seed 001 §14). */
export interface WorkflowLedger {
  /**
   * Stores the workflow as `running`, and the jobs of all steps that wait for nothing, in one transaction.
   *
   * From then on a step begins in the transaction that ends the last job it waits for, whichever ledger
   * method that is: its job is inserted `available` (or as its options say) with a fresh outbox nonce,
   * exactly once. Fence: the step still waits. The workflow itself ends in the same way. The outcome of that
   * method tells it (`WithNews`), as that of this one does of the first steps.
   *
   * Fence of the workflow: its id is free. Remembers `request`, or stores nothing if it was remembered.
   */
  create(workflow: NewWorkflow, now: number, request?: KeyedRequest): Promise<WorkflowCreated>

  /**
   * `running → cancelled`, and cancels every job of the workflow that is not over, as CANCEL does. No
   * callback job starts. Fence: `running`.
   */
  cancel(id: string, now: number): Promise<CancelledWorkflow | 'stale'>
}

export type WorkflowCreated =
  | ({ outcome: 'created'; workflow: WorkflowRow } & WithNews)
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
