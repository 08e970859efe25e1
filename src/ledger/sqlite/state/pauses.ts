/** Which queues are paused, and since when: in memory, as committed. */
import { NotedState } from '../commit/committed-state.ts'
import type { Statements } from '../sql/statements.ts'

interface State {
  queue: string
  pausedAt: number | null
  isOwed: boolean
}

/** Pauses in memory, as committed. Usually there are few or none, so asking is cheap. */
export class PauseStates extends NotedState<State> {
  readonly #paused = new Map<string, number>()
  readonly #owed = new Set<string>()

  constructor({ pauses }: Statements) {
    super()
    for (const row of pauses.all()) this.#set({ ...row, isOwed: true })
  }

  since(queue: string): number | null {
    return this.#paused.get(queue) ?? null
  }

  get owed(): ReadonlySet<string> {
    return this.#owed
  }

  /** Inside a write: whether the queue is paused, as the earlier writes of the group have left it. */
  isPaused(queue: string): boolean {
    if (this.notes.isEmpty) return this.#paused.has(queue)
    const change = this.notes.all.findLast((noted) => noted.queue === queue)
    return change === undefined ? this.#paused.has(queue) : change.pausedAt !== null
  }

  /** Inside a write: the queue's state after it. */
  note(state: State): void {
    this.notes.add(state)
  }

  protected override apply(states: readonly State[]): void {
    for (const state of states) this.#set(state)
  }

  #set({ queue, pausedAt, isOwed }: State): void {
    if (pausedAt === null) this.#paused.delete(queue)
    else this.#paused.set(queue, pausedAt)
    if (isOwed) this.#owed.add(queue)
    else this.#owed.delete(queue)
  }
}
