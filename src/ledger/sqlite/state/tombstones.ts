import type { CancelledMessage } from '../../native.ts'
import type { CommittedState } from '../commit/committed-state.ts'
import { onlyRow } from '../sql/driver.ts'
import type { CancelledRow } from '../sql/native.ts'
import type { Statements } from '../sql/statements.ts'
import type { Store } from './store.ts'

const MAX_TOMBSTONES = 100_000

/**
 * Tombstones: cancelled ids that the ledger knows no job of. Their number is kept in memory. It is mostly 0,
 * and then no PUSH and no look-up pays for them.
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
    this.forget(id)
    this.#statements.recordTombstone.run(id, queue, now, isScoped ? 1 : 0)
    this.#change++
    if (this.count > this.#capacity) this.#dropped(this.#statements.forgetOldestTombstone.run())
    return true
  }

  /**
   * Inside a write: removes the tombstone, as a job of `queue` is stored under the id; null: of any. False:
   * there was none that counted for its job messages.
   */
  forget(id: string, queue: string | null = null): boolean {
    if (this.count === 0) return false
    const counted = this.has(id, queue)
    this.#dropped(this.#statements.forgetTombstone.run(id))
    return counted
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

/** One queue's share of the list, from rows or from tombstones: the newest `wanted` of them. */
interface Share {
  queue: string
  statement: Statements['cancelledMessages']
  /** How many to read. */
  wanted: number
  found: CancelledRow[]
}

const GROWTH = 4

/**
 * See `NativeLedger.tombstones`: the newest of cancelled rows and tombstones. A worker may name a hundred
 * queues with ten thousand each, so only a fair share of each is read at first, and more only from a queue
 * whose whole share is among the newest.
 */
export function cancelledMessages(
  store: Store,
  queues: readonly string[],
  limit: number,
): { cancelled: CancelledMessage[]; truncated: boolean } {
  const { cancelledMessages: ofRows, tombstonesOf } = store.statements
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

/** May the part of this queue that was not read hold an entry newer than `oldest`? */
function mayHaveMore({ found, wanted }: Share, oldest: number, limit: number): boolean {
  const last = found.at(-1)
  return wanted <= limit && found.length === wanted && last !== undefined && last.at > oldest
}

function newestOf(shares: readonly Share[], count: number): CancelledRow[] {
  const all = shares.flatMap(({ found }) => found)
  return all.sort((a, b) => b.at - a.at).slice(0, count)
}
