/** The cancelled jobs of a worker's queues, newest first, a fair share of each. */
import type { CancelledMessage } from '../../native.ts'
import type { CancelledRow } from '../sql/native.ts'
import type { Statements } from '../sql/statements.ts'
import type { Store } from '../state/store.ts'

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
