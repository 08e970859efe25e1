/** Workflows in the ledger's file: created, read, listed, cancelled. */

import type { WorkflowHead, WorkflowRow, WorkflowStep } from '../../../job/workflow/row.ts'
import type { KeyedRequest } from '../../idempotency.ts'
import type { KnownWorkflows } from '../../known.ts'
import type { WorkflowReads } from '../../reads.ts'
import type {
  CancelledWorkflow,
  NewWorkflow,
  WorkflowCreated,
  WorkflowLedger,
  WorkflowQuery,
} from '../../workflows.ts'
import { unlessRemembered } from '../../writes/remembered.ts'
import { briefError, firstStart, type Shown, shownSteps } from '../../writes/workflow-shown.ts'
import { cancelSteps } from '../../writes/workflow-walk.ts'
import type { Access } from '../commit/access.ts'
import { onlyRow } from '../sql/driver.ts'
import type { StepRow, WorkflowStatements } from '../sql/workflow.ts'
import type { Store } from '../state/store.ts'
import { cancelJob } from './cancel.ts'
import { keysOf } from './idempotency.ts'
import { createWorkflow } from './workflow-run.ts'

/** Workflows in the file of the ledger. */
export class SqliteWorkflows implements WorkflowLedger, WorkflowReads, KnownWorkflows {
  readonly #store: Store
  readonly #access: Access

  constructor(store: Store, access: Access) {
    this.#store = store
    this.#access = access
  }

  create(workflow: NewWorkflow, now: number, request?: KeyedRequest): Promise<WorkflowCreated> {
    const { id, nodes } = workflow
    const { statements, workflows } = this.#store
    const store = (): WorkflowCreated => {
      if (workflows.statements.head.get(id) !== undefined) return { outcome: 'duplicate' }
      const news = createWorkflow(this.#store, workflow, now)
      const created = findWorkflow(this.#store, id)
      if (created === null) throw new Error('the workflow was stored')
      return { outcome: 'created', workflow: created, news }
    }
    const answerOf = ({ outcome }: WorkflowCreated) =>
      outcome === 'created' ? { ids: [id], existing: [] } : null
    return this.#access.writeMany(nodes.length, () =>
      unlessRemembered(keysOf(statements), { request, now }, store, answerOf),
    )
  }

  find(id: string): Promise<WorkflowRow | null> {
    return this.#access.ask(() => findWorkflow(this.#store, id))
  }

  list({
    state,
    limit,
    offset,
  }: WorkflowQuery): Promise<{ workflows: WorkflowHead[]; total: number }> {
    const { all, ofState } = this.#store.workflows.statements
    return this.#access.ask(() => {
      const page = state === null ? all.all(limit, offset) : ofState.all(limit, offset, state)
      return { workflows: page, total: this.#store.workflows.count(state) }
    })
  }

  cancel(id: string, now: number): Promise<CancelledWorkflow | 'stale'> {
    const known = this.#access.read(() => this.#store.workflows.statements.head.get(id))
    const weight = known?.open ?? 1
    return this.#access.writeMany(weight, () => cancelWorkflow(this.#store, id, now))
  }

  isAnyRunning(): boolean {
    return this.#store.workflows.isAnyRunning
  }
}

/** Cancels the workflow first, so that the cancel of one job begins no other step, and then its jobs. */
function cancelWorkflow(store: Store, id: string, now: number): CancelledWorkflow | 'stale' {
  const { statements } = store.workflows
  const row = statements.cancel.get(id, now)
  if (row === undefined) return 'stale'
  const { seq, ...workflow } = row
  store.workflows.moved('running', 'cancelled')
  const steps = statements.cancelSteps.all(seq, now)
  return cancelSteps(workflow, steps, (jobId, cause) => cancelJob(store, jobId, now, cause))
}

function findWorkflow(store: Store, id: string): WorkflowRow | null {
  const { head, steps } = store.workflows.statements
  const row = head.get(id)
  if (row === undefined) return null
  const { seq, ...workflow } = row
  const columns = steps.all(seq)
  return {
    ...workflow,
    startedAt: firstStart(columns),
    steps: shownSteps(columns).map((step) => shownStep(store.workflows.statements, seq, step)),
  }
}

function shownStep(
  statements: WorkflowStatements,
  seq: number,
  { node, bytes, errorBytes: _, isShown, error, ...step }: Shown<StepRow>,
): WorkflowStep {
  return {
    ...step,
    isCallback: step.isCallback === 1,
    dependsOn: JSON.parse(step.dependsOn),
    // A step without a job waits for other steps. This is not the state of a staged job (OJS workflows).
    state: step.state ?? 'pending',
    result: isShown ? (statements.result.get(step.jobId ?? '')?.result ?? null) : null,
    resultBytes: bytes,
    error: error && errorOf(statements, seq, node, error),
  }
}

function errorOf(
  statements: WorkflowStatements,
  seq: number,
  node: number,
  how: 'whole' | 'brief',
): string {
  if (how === 'whole') return onlyRow(statements.error.get(seq, node)).error
  const { said } = onlyRow(statements.briefError.get(seq, node))
  const [code, message]: [code: string, message: string] = JSON.parse(said)
  return briefError(code, message)
}
