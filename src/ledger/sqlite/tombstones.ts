import type { CancelledToken } from '../native.ts'
import type { Companion } from './companion.ts'
import { onlyRow } from './driver.ts'
import type { CancelledRow } from './native-statements.ts'
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
    this.#count = onlyRow(statements.countTombstones.get()).count
  }

  /** Inside a write, what it has changed included; else as committed. */
  get count(): number {
    return this.#count + this.#change
  }

  has(id: string): boolean {
    return this.queueOf(id) !== null
  }

  /** Whose workers were told; null: there is no tombstone. */
  queueOf(id: string): string | null {
    if (this.count === 0) return null
    return this.#statements.tombstone.get(id)?.queue ?? null
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

/** Stores the id as cancelled, unless there is a row that says what it is. */
export function recordTombstone(store: Store, id: string, queue: string, now: number): boolean {
  if (store.statements.isKnown.get(id) !== undefined) return false
  store.tombstones.record(id, queue, now)
  return true
}

/** One queue's share of a list: the newest, as many as were asked for. */
interface Share {
  queue: string
  statement: Statements['cancelledTokens']
  /** As many as to ask for. */
  wanted: number
  found: CancelledRow[]
}

const GROWTH = 4

/**
 * The newest of both kinds. A worker may name a hundred queues with ten thousand each, so each is asked
 * for its fair share first, and for more only where all of that is among the newest.
 */
export function cancelledTokens(
  store: Store,
  queues: readonly string[],
  limit: number,
): { cancelled: CancelledToken[]; truncated: boolean } {
  const { cancelledTokens: ofRows, tombstonesOf } = store.statements
  const names = [...new Set(queues)]
  const wanted = Math.ceil((2 * (limit + 1)) / Math.max(names.length, 1))
  const shares = names.flatMap((queue) =>
    [ofRows, tombstonesOf].map((statement): Share => ({ queue, statement, wanted, found: [] })),
  )
  for (let short = shares; short.length > 0; ) {
    for (const share of short) ask(share, limit)
    const oldest = newestOf(shares, limit + 1)[limit]?.at ?? Number.NEGATIVE_INFINITY
    short = shares.filter((share) => mayHaveMore(share, oldest, limit))
    for (const share of short) share.wanted *= GROWTH
  }
  const newest = newestOf(shares, limit + 1)
  const cancelled = newest.slice(0, limit).map(({ id, generation }) => ({ id, generation }))
  return { cancelled, truncated: newest.length > limit }
}

function ask(share: Share, limit: number): void {
  const { statement, queue, wanted } = share
  share.found = statement.all(queue, Math.min(wanted, limit + 1))
}

/** Among those that were not asked for there may be one that is newer than `oldest`. */
function mayHaveMore({ found, wanted }: Share, oldest: number, limit: number): boolean {
  const last = found.at(-1)
  return wanted <= limit && found.length === wanted && last !== undefined && last.at > oldest
}

function newestOf(shares: readonly Share[], count: number): CancelledRow[] {
  const all = shares.flatMap(({ found }) => found)
  return all.sort((a, b) => b.at - a.at).slice(0, count)
}
