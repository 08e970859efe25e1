import type { CancelledToken } from '../native.ts'
import type { Companion } from './companion.ts'
import type { Statements } from './statements.ts'
import type { Store } from './store.ts'

const MAX_TOMBSTONES = 100_000

/**
 * Cancelled ids that the ledger does not know. How many there are is kept in memory: mostly none,
 * and then no PUSH and no look-up pays for them.
 */
export class Tombstones implements Companion {
  readonly #statements: Statements
  readonly #capacity: number
  /** As committed. */
  #count: number
  #change = 0
  #keptChange = 0

  constructor(statements: Statements, capacity: number = MAX_TOMBSTONES) {
    this.#statements = statements
    this.#capacity = capacity
    this.#count = (statements.countTombstones.get() as { count: number }).count
  }

  /** Inside a write, what it has changed included; else as committed. */
  get count(): number {
    return this.#count + this.#change
  }

  has(id: string): boolean {
    return this.count > 0 && this.#statements.isTombstoned.get(id) !== undefined
  }

  /** Inside a write. */
  record(id: string, queue: string, now: number): void {
    this.forget(id)
    this.#statements.recordTombstone.run(id, queue, now)
    this.#change++
    if (this.count > this.#capacity) this.#dropped(this.#statements.forgetOldestTombstone.run())
  }

  /** Inside a write: the id is that of a job now. False: there was no tombstone. */
  forget(id: string): boolean {
    return this.count > 0 && this.#dropped(this.#statements.forgetTombstone.run(id)) > 0
  }

  /** Inside a write. How many were older. */
  prune(before: number, limit: number): number {
    if (this.count === 0) return 0
    return this.#dropped(this.#statements.pruneTombstones.run(before, limit))
  }

  #dropped({ changes }: { changes: number | bigint }): number {
    this.#change -= Number(changes)
    return Number(changes)
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

/** Stores the id as cancelled, unless there is a row that says what it is. */
export function recordTombstone(store: Store, id: string, queue: string, now: number): boolean {
  if (store.statements.isKnown.get(id) !== undefined) return false
  store.tombstones.record(id, queue, now)
  return true
}

interface Cancelled extends CancelledToken {
  at: number
}

/** The newest of both kinds. */
export function cancelledTokens(
  store: Store,
  queues: readonly string[],
  limit: number,
): { cancelled: CancelledToken[]; truncated: boolean } {
  const { cancelledTokens: ofRows, tombstonesOf } = store.statements
  const found: Cancelled[] = []
  for (const queue of new Set(queues)) {
    for (const row of ofRows.all(queue, limit + 1)) found.push(row as Cancelled)
    for (const row of tombstonesOf.all(queue, limit + 1)) found.push(row as Cancelled)
  }
  found.sort((a, b) => b.at - a.at)
  const cancelled = found.slice(0, limit).map(({ id, generation }) => ({ id, generation }))
  return { cancelled, truncated: found.length > limit }
}
