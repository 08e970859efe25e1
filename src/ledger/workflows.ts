import type { JobRow } from '../job/job.ts'
import type { PushRequest } from '../job/request.ts'
import type { PlanNode, WorkflowState, WorkflowType } from '../job/workflow.ts'
import type { EndedStep, FailedStep, WorkflowHead, WorkflowRow } from '../job/workflow-row.ts'
import type { WorkflowSettings } from '../job/workflow-step.ts'
import type { Cancelled } from './ledger.ts'

/** The part of the ledger's contract that workflows need (seed 001 §14, ojs-digest §8). */
export interface WorkflowLedger {
  /**
   * Stores the workflow, `running`, and the jobs of all steps that wait for nothing, in one
   * transaction.
   *
   * From then on a step begins in the transaction that ends the last job it waits for, whoever
   * writes that end: its job is inserted `available` (or as its options say) with a fresh outbox
   * nonce, exactly once. Fence: the step waits. So does the workflow's own end.
   */
  create(workflow: NewWorkflow, now: number): Promise<void>

  /** By primary key. Null: unknown. */
  find(id: string): WorkflowRow | null

  /** Newest first, all or those of one state; by index. `total` is kept, not counted. */
  list(query: WorkflowQuery): { workflows: WorkflowHead[]; total: number }

  /**
   * `running → cancelled`, and every job of it that is not over with it, as CANCEL does it; no
   * callback fires. Fence: `running`.
   */
  cancel(id: string, now: number): Promise<CancelledWorkflow | 'stale'>

  /** Those of these jobs whose end may begin others. Asks nothing while no workflow is running. */
  stepsAmong(jobIds: readonly string[]): ReadonlySet<string>

  /**
   * `listener` is called once after every commit that moved a workflow, with what happened, in
   * order. A listener is needed because whoever ends a job does not learn which steps that starts.
   * It must not throw.
   */
  onNews(listener: (news: readonly WorkflowNews[]) => void): void
}

export interface NewWorkflow {
  id: string
  name: string | null
  type: WorkflowType
  settings: WorkflowSettings
  /** Of the plan, with the checked request of each job. */
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
  /** Steps that had not ended, started or not. */
  stepsCancelled: number
  jobs: Cancelled[]
}

export type WorkflowNews =
  /** A step has begun: its job owes a token unless it waits for a time. */
  | { what: 'born'; workflow: WorkflowHead; job: JobRow }
  /** A step that has begun took the place of this job. */
  | { what: 'replaced'; workflow: WorkflowHead; cancelled: Cancelled }
  | { what: 'step'; workflow: WorkflowHead; step: EndedStep }
  /** `failed`: the last step that has, where the workflow has. */
  | { what: 'ended'; workflow: WorkflowHead; failed: FailedStep | null }
