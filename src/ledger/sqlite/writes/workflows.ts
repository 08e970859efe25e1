/** Workflows in the ledger's file: created, read, listed, cancelled. */

import { isStale } from '../../../job/stale.ts'
import { cut } from '../../../job/values/limits.ts'
import { ResultBudget } from '../../../job/workflow/results.ts'
import type { WorkflowHead, WorkflowRow } from '../../../job/workflow/row.ts'
import type { Cancelled } from '../../ended.ts'
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
  const jobs: Cancelled[] = []
  for (const { jobId } of steps) {
    const cancelled =
      jobId === null ? null : cancelJob(store, jobId, now, { reason: 'workflow_cancelled' })
    if (cancelled !== null && !isStale(cancelled)) jobs.push(cancelled)
  }
  // Callbacks that never began are not counted: nobody waits for them.
  const counted = steps.filter((step) => step.type !== null && !(step.isCallback && !step.jobId))
  return { workflow, stepsCancelled: counted.length, jobs }
}

function findWorkflow(store: Store, id: string): WorkflowRow | null {
  const { head, steps } = store.workflows.statements
  const row = head.get(id)
  if (row === undefined) return null
  const { seq, ...workflow } = row
  const columns = steps.all(seq)
  const starts = columns.map(({ startedAt }) => startedAt).filter((at) => at !== null)
  return {
    ...workflow,
    startedAt: starts.length === 0 ? null : Math.min(...starts),
    steps: withContents(store, seq, columns).map(({ bytes, text, node, errorBytes, ...step }) => ({
      ...step,
      isCallback: step.isCallback === 1,
      dependsOn: JSON.parse(step.dependsOn),
      // A step without a job waits for other steps. This is not the state of a staged job (OJS workflows).
      state: step.state ?? 'pending',
      result: text,
      resultBytes: bytes,
    })),
  }
}

/** Results and errors, in the order in which `workflowDocument` shows the steps: callbacks last. */
function withContents({ workflows }: Store, seq: number, columns: readonly StepRow[]) {
  const callbacks = columns.filter(({ isCallback }) => isCallback === 1)
  const others = columns.filter(({ isCallback }) => isCallback === 0)
  const { statements } = workflows
  return withErrors(statements, seq, withTexts(statements, [...others, ...callbacks]))
}

interface Sized {
  jobId: string | null
  /** The size of its result; 0: none. */
  bytes: number
}

/**
 * Adds its result to each step, given in the order in which they are shown; null where only the reference
 * is shown. A workflow may have a gigabyte of results, and an answer shows one megabyte of them.
 */
function withTexts<T extends Sized>(
  { result }: WorkflowStatements,
  steps: readonly T[],
): (T & { text: string | null })[] {
  const budget = new ResultBudget()
  return steps.map((step) => {
    const { jobId, bytes } = step
    const isShown = jobId !== null && bytes > 0 && budget.takes(bytes)
    const row = isShown ? result.get(jobId) : undefined
    return { ...step, text: row?.result ?? null }
  })
}

/** Bytes of the steps' errors that one answer shows whole. */
const MAX_ERROR_BYTES = 1_048_576
/** Characters of an error's message beyond that; the whole message is at `GET /jobs/:id`. */
const BRIEF_MESSAGE = 1_000

/**
 * Adds its error (JSON text) to each step, given in the order in which they are shown. Hundreds of steps may
 * have failed, each with an error of 85 kB: after the first megabyte, only `code` and the beginning of
 * `message` are read.
 */
function withErrors<T extends { node: number; errorBytes: number }>(
  { error, briefError }: WorkflowStatements,
  seq: number,
  steps: readonly T[],
): (T & { error: string | null })[] {
  let left = MAX_ERROR_BYTES
  return steps.map((step) => {
    const { node, errorBytes } = step
    if (errorBytes === 0) return { ...step, error: null }
    if (errorBytes <= left) {
      left -= errorBytes
      return { ...step, error: onlyRow(error.get(seq, node)).error }
    }
    const { said } = onlyRow(briefError.get(seq, node))
    const [code, message]: [code: string, message: string] = JSON.parse(said)
    return { ...step, error: JSON.stringify({ code, message: cut(message, BRIEF_MESSAGE) }) }
  })
}
