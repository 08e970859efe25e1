import type { JobRow } from '../../job/job.ts'
import type { WorkflowState } from '../../job/workflow.ts'
import { uuid7 } from '../../uuid.ts'
import type { WorkflowNews } from '../workflows.ts'
import type { Companion } from './companion.ts'
import { Notes } from './notes.ts'
import type { Store } from './store.ts'
import type { WorkflowStatements } from './workflow-statements.ts'

/** What a step that begins cannot reach for. */
export interface StepSources {
  /** Wall time, ms: a step may have a time of its own. */
  wall(): number
  newId(): string
}

/**
 * A step that begins may replace a job of another workflow, whose end is another step's beginning, and
 * so on. Some 500 of these on top of each other overflow the stack, and the write could never be made.
 */
const MAX_NESTED = 100

/** What a workflow makes of the end of a job, inside the write that ends it. */
type EndStep = (store: Store, job: JobRow) => void

export const OWN_SOURCES: StepSources = { wall: Date.now, newId: uuid7 }

/**
 * How many workflows there are in each state, and what has happened to them in the group at work.
 * While none is running, which is mostly so, the end of a job costs one comparison here.
 */
export class WorkflowBook implements Companion {
  readonly statements: WorkflowStatements
  readonly sources: StepSources
  readonly #endStep: EndStep
  /** As committed. */
  readonly #counts = new Map<WorkflowState, number>()
  #running = 0
  #nested = 0
  readonly #changes = new Notes<[state: WorkflowState, by: number]>()
  readonly #news = new Notes<WorkflowNews>()
  #listener: (news: readonly WorkflowNews[]) => void = () => {}

  /** `endStep` is given: jobs that it begins may end others, which leads back here. */
  constructor(statements: WorkflowStatements, sources: StepSources, endStep: EndStep) {
    this.statements = statements
    this.sources = sources
    this.#endStep = endStep
    for (const { state, count } of statements.counts.all()) this.#counts.set(state, count)
    this.#running = this.count('running')
  }

  /** Inside a write, what it has changed included; else as committed. Null: of all states. */
  count(state: WorkflowState | null): number {
    const isCounted = (other: WorkflowState) => state === null || other === state
    let count = 0
    for (const [other, number] of this.#counts) if (isCounted(other)) count += number
    for (const [other, by] of this.#changes.all) if (isCounted(other)) count += by
    return count
  }

  /** Is the end of this job perhaps more than the end of a job? Asked at every end there is. */
  owns(jobId: string): boolean {
    const isAnyRunning = this.#running > 0 || !this.#changes.isEmpty
    return isAnyRunning && this.statements.isStep.get(jobId) !== undefined
  }

  /** Inside the write that has ended this job. */
  ended(store: Store, job: JobRow): void {
    if (!this.owns(job.id)) return
    this.#nested += 1
    try {
      this.#endStep(store, job)
    } finally {
      this.#nested -= 1
    }
  }

  /** May a step that begins end other jobs? */
  get mayReplace(): boolean {
    return this.#nested < MAX_NESTED
  }

  /** Inside a write. Null: it was not there, or is gone. */
  moved(from: WorkflowState | null, to: WorkflowState | null): void {
    if (from !== null) this.#changes.add([from, -1])
    if (to !== null) this.#changes.add([to, 1])
  }

  /** Inside a write. */
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
