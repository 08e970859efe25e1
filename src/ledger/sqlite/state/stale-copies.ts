/** Queues whose dead letter queue has copies that nobody needs any more. */
import { NotedState } from '../commit/committed-state.ts'
import type { Statements } from '../sql/statements.ts'

/** `sweptTo`: the mark up to which a sweep has removed copies; null: one more copy is stale. */
interface Change {
  queue: string
  sweptTo: number | null
}

/**
 * Queues whose DLX queue holds stale copies (copies that nobody needs any more). Each has a mark, a number
 * that grows with each stale copy, so that a sweep clears what it saw and nothing newer. Kept in memory, and
 * as one column that is written only when it changes, so that a thousand stale copies cost one write. The
 * marks are not stored, because no sweep outlives its process: at start, a queue is stale or not.
 */
export class StaleCopies extends NotedState<Change> {
  readonly #statements: Statements
  /** As committed. */
  #marks: ReadonlyMap<string, number>
  #lastMark = 0
  #next: ReadonlyMap<string, number>

  constructor(statements: Statements) {
    super()
    this.#statements = statements
    const rows = statements.staleCopies.all()
    this.#marks = new Map(rows.map((row) => [row.name, this.#lastMark]))
    this.#next = this.#marks
  }

  all(): ReadonlyMap<string, number> {
    return this.#marks
  }

  /** Inside a write: one more copy of this queue is stale. */
  add(queue: string): void {
    this.notes.add({ queue, sweptTo: null })
  }

  /** Inside a write: a sweep that began when `mark` was the newest mark has removed all stale copies. */
  clear(queue: string, mark: number): void {
    this.notes.add({ queue, sweptTo: mark })
  }

  override store(): void {
    if (this.notes.isEmpty) return
    const next = new Map(this.#marks)
    for (const { queue, sweptTo } of this.notes.all) {
      if (sweptTo === null) next.set(queue, ++this.#lastMark)
      else if (next.get(queue) === sweptTo) next.delete(queue)
    }
    for (const queue of new Set(this.notes.all.map((change) => change.queue))) {
      if (next.has(queue) === this.#marks.has(queue)) continue
      this.#statements.keepStaleCopies.run(queue, next.has(queue) ? 1 : 0)
    }
    this.#next = next
  }

  protected override apply(): void {
    this.#marks = this.#next
  }

  override discard(): void {
    super.discard()
    this.#next = this.#marks
  }
}
