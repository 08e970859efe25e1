import type { Rung } from '../ledger.ts'
import type { Access } from './access.ts'
import { onlyRow } from './driver.ts'
import type { WaitingRow } from './statements.ts'
import type { Store } from './store.ts'

const REARM_PAGE = 1000
/** Rows that a page looks at: those whose token was elsewhere may be any number. */
const MAX_LOOKED_AT = 10_000

/**
 * How far a broker's clock may be ahead of ours: what is due by it may have left its rung. Of a later
 * retry the token is still there, and a second one would be run by a native worker.
 */
const DRIFT_MS = 60_000

/** Which rows are left: those after `after` that were there when it began. */
interface RearmCursor {
  after: number
  upTo: number
}

interface RearmedPage {
  rearmed: number
  /** Where the next page starts; null after the last one. */
  next: RearmCursor | null
}

/** In pages of one group each, so that a long queue does not stop everything else. */
async function inPages(
  access: Access,
  page: (cursor: RearmCursor | null) => RearmedPage,
): Promise<number> {
  let rearmed = 0
  let cursor: RearmCursor | null = null
  do {
    const done: RearmedPage = await access.writeMany(REARM_PAGE, () => page(cursor))
    rearmed += done.rearmed
    cursor = done.next
  } while (cursor !== null)
  return rearmed
}

/**
 * One page of a lost queue: a new outbox nonce for each row whose token was in it, in order of
 * arrival, so that the relay publishes them in that order. A retry that is about to be due is held by
 * the ledger from now on: its token may have come out of its rung just before.
 */
function rearmPage(
  store: Store,
  queue: string,
  now: number,
  cursor: RearmCursor | null,
): RearmedPage {
  const { rearmable, handOverQueue, handOverRow } = store.statements
  const span = spanOf(store, queue, cursor)
  // The deliveries behind these leases went with the queue, those of native workers too: when the
  // lease ends, or is released, the job needs a new token. So it is with what begins between pages.
  if (cursor === null) handOverQueue.run(queue, span.upTo)
  const rows = rearmable.all(queue, span.after, span.to, REARM_PAGE, now + DRIFT_MS)
  for (const row of rows) {
    if (row.state === 'active') handOverRow.run(row.seq)
    else rearmRow(store, row, { isOwed: row.state === 'available', isTokenGone: true })
  }
  const owed = rows.filter((row) => row.state === 'available')
  return { rearmed: owed.length, next: nextOf(rows, span) }
}

/**
 * One page of its rows that are over: they stop waiting for a token that cannot come back. With the last
 * one it is forgotten which marker the queue had, and that it was lost.
 */
function forgetQueuePage(
  store: Store,
  queue: string,
  now: number,
  cursor: RearmCursor | null,
): RearmedPage {
  const { after, to, upTo } = spanOf(store, queue, cursor, 'strayAfter')
  const { forgetStrays, forgetPresence } = store.statements
  forgetStrays.run(queue, after, to, now)
  if (to < upTo) return { rearmed: 0, next: { after: to, upTo } }
  forgetPresence.run(queue)
  return { rearmed: 0, next: null }
}

/** A lost queue. Returns how many jobs get a new token. */
export async function rearmQueue(
  access: Access,
  store: Store,
  queue: string,
  now: number,
): Promise<number> {
  const rearmed = await inPages(access, (cursor) => rearmPage(store, queue, now, cursor))
  await inPages(access, (cursor) => forgetQueuePage(store, queue, now, cursor))
  return rearmed
}

/** A lost rung. Returns how many jobs the ledger has back. */
export async function rearmRung(
  access: Access,
  store: Store,
  rung: Rung,
  now: number,
): Promise<number> {
  const rearmed = await inPages(access, (cursor) => rearmRungPage(store, rung, cursor))
  await inPages(access, (cursor) => forgetRungPage(store, rung, now, cursor))
  return rearmed
}

/** One page of its rows that owe it a token, or whose token was in it. */
function rearmRungPage(store: Store, rung: Rung, cursor: RearmCursor | null): RearmedPage {
  const span = spanOf(store, rung.queue, cursor)
  const { rearmableOfRung } = store.statements
  store.moved.forgetRung(rung)
  const rows = rearmableOfRung.all(rung.queue, span.after, span.to, REARM_PAGE, rung.delayMs)
  // What a worker has of these left the rung before, and is in the job queue.
  for (const row of rows) rearmRow(store, row, { isOwed: true, isTokenGone: false })
  return { rearmed: rows.length, next: nextOf(rows, span) }
}

/**
 * One page of its rows that are over: nothing comes out of it any more. What was due may have come
 * out before, and is in the job queue.
 */
function forgetRungPage(
  store: Store,
  { queue, delayMs }: Rung,
  now: number,
  cursor: RearmCursor | null,
): RearmedPage {
  const { after, to, upTo } = spanOf(store, queue, cursor, 'strayAfter')
  store.statements.forgetRungStrays.run(queue, after, to, delayMs, now)
  return { rearmed: 0, next: to < upTo ? { after: to, upTo } : null }
}

type Span = RearmCursor & { to: number }

/** What one page looks at: up to `to`. */
function spanOf(
  store: Store,
  queue: string,
  cursor: RearmCursor | null,
  which: 'liveAfter' | 'strayAfter' = 'liveAfter',
): Span {
  const { after, upTo } = cursor ?? beginning(store)
  const found = store.statements[which].get(queue, after, upTo, MAX_LOOKED_AT)
  return { after, upTo, to: found?.seq ?? upTo }
}

/** The next page begins behind what was looked at, or where this one was full. */
function nextOf(rows: readonly WaitingRow[], { to, upTo }: Span): RearmCursor | null {
  if (rows.length === 0 && to >= upTo) return null
  return { after: rows.length < REARM_PAGE ? to : (rows.at(-1)?.seq ?? to), upTo }
}

/** Rows that arrive meanwhile have a publish of their own; without an end, a busy queue has none. */
function beginning(store: Store): RearmCursor {
  return { after: 0, upTo: onlyRow(store.statements.lastSeq.get()).seq }
}

function rearmRow(
  store: Store,
  row: WaitingRow,
  { isOwed, isTokenGone }: { isOwed: boolean; isTokenGone: boolean },
): void {
  store.statements.rearm.run(row.seq, isOwed ? store.nonces.next() : null, isTokenGone ? 1 : 0)
  store.counter.left(row.queue, row)
}
