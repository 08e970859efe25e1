/** How many workflows are in each state, and whether the end of a job may be that of a step. */
import type { JobRow } from '../../../job/job.ts'
import type { WorkflowState } from '../../../job/workflow/workflow.ts'
import type { WorkflowNews } from '../../ended.ts'
import { NotedState } from '../commit/committed-state.ts'
import type { WorkflowStatements } from '../sql/workflow.ts'

/**
 * A step that begins may replace a job of another workflow (`unique`); that job's end may begin another step,
 * and so on. Some 500 of these nested calls overflow the stack, and the write would fail each time.
 */
const MAX_NESTED = 100

/** How many workflows more are in a state. */
interface Change {
  state: WorkflowState
  by: 1 | -1
}

/** Advances the workflow of a job that has ended, inside the write that ends it. Returns the news. */
type EndStep<S> = (store: S, job: JobRow) => readonly WorkflowNews[] | undefined

/**
 * Keeps how many workflows are in each state. While no workflow is running, which is the usual case, the end of
 * a job costs one comparison here. `S`: what a write works with.
 */
export class WorkflowCounts<S> extends NotedState<Change> {
  readonly statements: WorkflowStatements
  readonly #endStep: EndStep<S>
  /** As committed. */
  readonly #counts = new Map<WorkflowState, number>()
  #running = 0
  #nested = 0

  /** `endStep` is a parameter, because it calls back into this class: its jobs may end others. */
  constructor(statements: WorkflowStatements, endStep: EndStep<S>) {
    super()
    this.statements = statements
    this.#endStep = endStep
    for (const { state, count } of statements.counts.all()) this.#counts.set(state, count)
    this.#running = this.count('running')
  }

  /** As committed; inside a write, with the changes of its group so far. Null: of all states. */
  count(state: WorkflowState | null): number {
    const isCounted = (other: WorkflowState) => state === null || other === state
    let count = 0
    for (const [other, number] of this.#counts) if (isCounted(other)) count += number
    for (const note of this.notes.all) {
      if (isCounted(note.state)) count += note.by
    }
    return count
  }

  /** As committed. */
  get isAnyRunning(): boolean {
    return this.#running > 0
  }

  /** Is this job a step, so that its end may change a workflow? Called for every job that ends. */
  owns(jobId: string): boolean {
    const isAnyRunning = this.#running > 0 || !this.notes.isEmpty
    return isAnyRunning && this.statements.isStep.get(jobId) !== undefined
  }

  /** Advances the job's workflow, if it is a step. Inside the write that has ended the job. Returns the news. */
  ended(store: S, job: JobRow): readonly WorkflowNews[] | undefined {
    if (!this.owns(job.id)) return undefined
    this.#nested += 1
    try {
      return this.#endStep(store, job)
    } finally {
      this.#nested -= 1
    }
  }

  /** May a step that begins replace other jobs? False when too many of these calls are nested. */
  get mayReplace(): boolean {
    return this.#nested < MAX_NESTED
  }

  /** Inside a write: a workflow changes its state. Null `from`: it is new; null `to`: it is deleted. */
  moved(from: WorkflowState | null, to: WorkflowState | null): void {
    if (from !== null) this.notes.add({ state: from, by: -1 })
    if (to !== null) this.notes.add({ state: to, by: 1 })
  }

  protected override apply(notes: readonly Change[]): void {
    for (const { state, by } of notes) this.#counts.set(state, (this.#counts.get(state) ?? 0) + by)
    this.#running = this.#counts.get('running') ?? 0
  }
}
