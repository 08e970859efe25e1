import type { Companion } from './companion.ts'
import { Notes } from './notes.ts'
import type { Statements } from './statements.ts'

/** `sweptTo`: what a sweep has taken out; null: a copy more that nobody needs. */
interface Change {
  queue: string
  sweptTo: number | null
}

/**
 * Queues whose DLX queue holds copies that nobody needs any more, each with the number of its newest
 * mark, so that a sweep clears what it saw and nothing newer. In memory and as one column that is
 * written when it changes, so that a thousand stale copies cost one write. The numbers are not
 * stored: no sweep outlives its process, and a queue that is stale in the file is stale at start.
 */
export class StaleCopies implements Companion {
  readonly #statements: Statements
  /** As committed. */
  #marks: ReadonlyMap<string, number>
  #lastMark = 0
  readonly #changes = new Notes<Change>()
  #next: ReadonlyMap<string, number>

  constructor(statements: Statements) {
    this.#statements = statements
    const rows = statements.staleCopies.all()
    this.#marks = new Map(rows.map((row) => [row.name, this.#lastMark]))
    this.#next = this.#marks
  }

  all(): ReadonlyMap<string, number> {
    return this.#marks
  }

  /** The running write leaves a copy behind that nobody needs. */
  add(queue: string): void {
    this.#changes.add({ queue, sweptTo: null })
  }

  /** The running write tells of a sweep that began when `mark` was the newest. */
  clear(queue: string, mark: number): void {
    this.#changes.add({ queue, sweptTo: mark })
  }

  keep(): void {
    this.#changes.keep()
  }

  undo(): void {
    this.#changes.undo()
  }

  store(): void {
    if (this.#changes.isEmpty) return
    const next = new Map(this.#marks)
    for (const { queue, sweptTo } of this.#changes.all) {
      if (sweptTo === null) next.set(queue, ++this.#lastMark)
      else if (next.get(queue) === sweptTo) next.delete(queue)
    }
    for (const queue of new Set(this.#changes.all.map((change) => change.queue))) {
      if (next.has(queue) === this.#marks.has(queue)) continue
      this.#statements.keepStaleCopies.run(queue, next.has(queue) ? 1 : 0)
    }
    this.#next = next
  }

  commit(): void {
    this.#marks = this.#next
    this.discard()
  }

  discard(): void {
    this.#next = this.#marks
    this.#changes.discard()
  }
}
