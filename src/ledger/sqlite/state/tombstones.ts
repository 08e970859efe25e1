/** Ids whose message must be dropped when it comes. */
import type { CommittedState } from '../commit/committed-state.ts'
import { onlyRow } from '../sql/driver.ts'
import type { Statements } from '../sql/statements.ts'

const MAX_TOMBSTONES = 100_000

/**
 * Tombstones: cancelled ids that the ledger knew no job of, and jobs that have left a message behind. Their number
 * is kept in memory. It is mostly 0, and then no PUSH and no look-up pays for them.
 */
export class Tombstones implements CommittedState {
  readonly #statements: Statements
  readonly #capacity: number
  /** As committed. */
  #count: number
  #change = 0
  #keptChange = 0

  constructor(statements: Statements, capacity: number = MAX_TOMBSTONES) {
    this.#statements = statements
    this.#capacity = capacity
    this.#count = onlyRow(statements.countTombstones.get()).count
  }

  /** As committed; inside a write, with the changes of its group so far. */
  get count(): number {
    return this.#count + this.#change
  }

  /** True: job messages of this id are dropped that came from `queue`; null: from whatever queue. */
  has(id: string, queue: string | null): boolean {
    return this.queueOf(id, queue) !== null
  }

  /**
   * The queue whose workers were told of the cancel; null: no tombstone counts for a job message from
   * `queue`.
   */
  queueOf(id: string, queue: string | null): string | null {
    if (this.count === 0) return null
    const found = this.#statements.tombstone.get(id)
    if (found === undefined) return null
    return found.isScoped && queue !== null && queue !== found.queue ? null : found.queue
  }

  /**
   * Inside a write. `isScoped`: only job messages of `queue` are dropped. False, and nothing is recorded, if
   * the id has a tombstone of another queue, which must not go for it.
   */
  record(id: string, queue: string, now: number, isScoped = false): boolean {
    const present = isScoped ? this.queueOf(id, null) : null
    if (present !== null && present !== queue) return false
    this.#forget(id)
    this.#statements.recordTombstone.run(id, queue, now, isScoped ? 1 : 0)
    this.#change++
    if (this.count > this.#capacity) this.#dropped(this.#statements.forgetOldestTombstone.run())
    return true
  }

  /**
   * Inside a write: a job of `queue` is stored under the id. True: the tombstone stays, for the messages of this queue
   * that came before. One of another queue goes: it must not count for this job.
   */
  lasts(id: string, queue: string): boolean {
    const counts = this.has(id, queue)
    if (!counts) this.#forget(id)
    return counts
  }

  #forget(id: string): void {
    if (this.count > 0) this.#dropped(this.#statements.forgetTombstone.run(id))
  }

  /** Inside a write: removes tombstones older than `before`. Returns how many. */
  prune(before: number, limit: number): number {
    if (this.count === 0) return 0
    return this.#dropped(this.#statements.pruneTombstones.run(before, limit))
  }

  #dropped({ changes }: { changes: number }): number {
    this.#change -= changes
    return changes
  }

  keep(): void {
    this.#keptChange = this.#change
  }

  undo(): void {
    this.#change = this.#keptChange
  }

  store(): void {}

  commit(): void {
    this.#count += this.#change
    this.discard()
  }

  discard(): void {
    this.#change = 0
    this.#keptChange = 0
  }
}
