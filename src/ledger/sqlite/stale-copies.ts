import type { Companion } from './companion.ts'
import type { Statements } from './statements.ts'

interface Change {
  queue: string
  isStale: boolean
}

/**
 * Queues whose DLX queue holds copies that nobody needs any more. In memory and as one column that
 * is written when it changes, so that a thousand stale copies cost one write.
 */
export class StaleCopies implements Companion {
  readonly #statements: Statements
  /** As committed. */
  #queues: ReadonlySet<string>
  #changes: Change[] = []
  #keptChanges = 0
  #next: ReadonlySet<string>

  constructor(statements: Statements) {
    this.#statements = statements
    const rows = statements.staleCopies.all() as { name: string }[]
    this.#queues = new Set(rows.map((row) => row.name))
    this.#next = this.#queues
  }

  all(): readonly string[] {
    return [...this.#queues]
  }

  /** The running write leaves a copy behind that nobody needs. */
  add(queue: string): void {
    this.#changes.push({ queue, isStale: true })
  }

  /** The running write begins a sweep of all that was noted before it. */
  clear(queue: string): void {
    this.#changes.push({ queue, isStale: false })
  }

  keep(): void {
    this.#keptChanges = this.#changes.length
  }

  undo(): void {
    this.#changes.length = this.#keptChanges
  }

  store(): void {
    if (this.#changes.length === 0) return
    const next = new Set(this.#queues)
    for (const { queue, isStale } of this.#changes) {
      if (isStale) next.add(queue)
      else next.delete(queue)
    }
    for (const queue of new Set(this.#changes.map((change) => change.queue))) {
      if (next.has(queue) === this.#queues.has(queue)) continue
      this.#statements.keepStaleCopies.run(queue, next.has(queue) ? 1 : 0)
    }
    this.#next = next
  }

  commit(): void {
    this.#queues = this.#next
    this.discard()
  }

  discard(): void {
    this.#next = this.#queues
    if (this.#changes.length > 0) this.#changes = []
    this.#keptChanges = 0
  }
}
