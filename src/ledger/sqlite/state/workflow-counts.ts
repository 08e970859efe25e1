/** How many workflows are in each state, and the news of the current group. */
import type { JobRow } from '../../../job/job.ts'
import type { WorkflowState } from '../../../job/workflow/workflow.ts'
import type { WorkflowNews } from '../../workflows.ts'
import type { CommittedState } from '../commit/committed-state.ts'
import { Notes } from '../commit/committed-state.ts'
import type { WorkflowStatements } from '../sql/workflow.ts'

/**
 * A step that begins may replace a job of another workflow (`unique`); that job's end may begin another step,
 * and so on. Some 500 of these nested calls overflow the stack, and the write would fail each time.
 */
const MAX_NESTED = 100

/** Advances the workflow of a job that has ended, inside the write that ends it. */
type EndStep<S> = (store: S, job: JobRow) => void

/**
 * Keeps how many workflows are in each state, and the news of the current group. While no workflow is
 * running, which is the usual case, the end of a job costs one comparison here. `S`: what a write works with.
 */
export class WorkflowBook<S> implements CommittedState {
  readonly statements: WorkflowStatements
  readonly #endStep: EndStep<S>
  /** As committed. */
  readonly #counts = new Map<WorkflowState, number>()
  #running = 0
  #nested = 0
  readonly #changes = new Notes<[state: WorkflowState, by: number]>()
  readonly #news = new Notes<WorkflowNews>()
  #listener: (news: readonly WorkflowNews[]) => void = () => {}

  /** `endStep` is a parameter, because it calls back into this class: its jobs may end others. */
  constructor(statements: WorkflowStatements, endStep: EndStep<S>) {
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
    for (const [other, by] of this.#changes.all) if (isCounted(other)) count += by
    return count
  }

  /** Is this job a step, so that its end may change a workflow? Called for every job that ends. */
  owns(jobId: string): boolean {
    const isAnyRunning = this.#running > 0 || !this.#changes.isEmpty
    return isAnyRunning && this.statements.isStep.get(jobId) !== undefined
  }

  /** Advances the job's workflow, if it is a step. Inside the write that has ended the job. */
  ended(store: S, job: JobRow): void {
    if (!this.owns(job.id)) return
    this.#nested += 1
    try {
      this.#endStep(store, job)
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
    if (from !== null) this.#changes.add([from, -1])
    if (to !== null) this.#changes.add([to, 1])
  }

  /** Inside a write: adds news, which the listener gets after the commit. */
  tell(news: readonly WorkflowNews[]): void {
    for (const one of news) this.#news.add(one)
  }

  listen(listener: (news: readonly WorkflowNews[]) => void): void {
    this.#listener = listener
  }

  keep(): void {
    this.#changes.keep()
    this.#news.keep()
  }

  undo(): void {
    this.#changes.undo()
    this.#news.undo()
  }

  store(): void {}

  commit(): void {
    if (!this.#changes.isEmpty) this.#count()
    const news = this.#news.all
    this.discard()
    if (news.length > 0) this.#listener(news)
  }

  #count(): void {
    for (const [state, by] of this.#changes.all) {
      this.#counts.set(state, (this.#counts.get(state) ?? 0) + by)
    }
    this.#changes.discard()
    this.#running = this.count('running')
  }

  discard(): void {
    this.#changes.discard()
    this.#news.discard()
  }
}
