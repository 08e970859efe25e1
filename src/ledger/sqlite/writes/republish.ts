/** New nonces for the rows whose messages were lost with a queue, page by page. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { RetryQueue } from '../../known.ts'
import type { EnqueuedSpan, LostMessages } from '../../queues.ts'
import type { LostMessageReads } from '../../reads.ts'
import type { Access } from '../commit/access.ts'
import { onlyRow } from '../sql/driver.ts'
import type { WaitingRow } from '../sql/statements.ts'
import type { Store } from '../state/store.ts'

const REARM_PAGE = 1000
/** How many rows a page looks at: a queue may have any number of rows whose job message was elsewhere. */
const MAX_LOOKED_AT = 10_000

/**
 * How far a broker's clock may be ahead of ours. A retry that is due within this time may have left its retry
 * queue. The job message of a later retry is still there, and a native worker would run a second one as well.
 */
const DRIFT_MS = 60_000

/** The rows still to do: those with `after` < seq <= `upTo`, the last row when the first page began. */
export interface RearmCursor {
  after: number
  upTo: number
}

interface RearmedPage {
  rearmed: number
  /** Where the next page starts; null after the last one. */
  next: RearmCursor | null
}

/** Runs the pages, each in a group of its own, so that a long queue does not block everything else. */
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
 * Does one page of a lost queue: each `available` row gets a new outbox nonce, in order of arrival, so that
 * the relay publishes in that order. A retry that is due or soon will be is held by the ledger from now on,
 * because its job message may have left its retry queue just before the loss.
 */
function rearmPage(
  store: Store,
  queue: string,
  now: number,
  cursor: RearmCursor | null,
): RearmedPage {
  const { rearmable, handOverQueue, handOverRow } = store.statements
  const span = spanOf(store, queue, cursor)
  // The deliveries behind these leases went with the queue, those of native workers too. With holder
  // `ledger`, the end or the release of a lease makes the job owe a new job message. `handOverRow` does the
  // same for leases that begin between two pages.
  if (cursor === null) handOverQueue.run(queue, span.upTo)
  const rows = rearmable.all(queue, span.after, span.to, REARM_PAGE, now + DRIFT_MS)
  for (const row of rows) {
    if (row.state === 'active') handOverRow.run(row.seq)
    else rearmRow(store, row, { isOwed: row.state === 'available', isMessageGone: true })
  }
  const owed = rows.filter((row) => row.state === 'available')
  return { rearmed: owed.length, next: nextOf(rows, span) }
}

/**
 * Does one page of the lost queue's ended rows: they stop waiting for a job message that cannot come back.
 * The last page also forgets the queue's identity, and that it was lost.
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

/** See `Ledger.rearm`. Returns how many jobs get a new job message. */
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

/** See `Ledger.rearmRetryQueue`. Returns how many jobs the ledger holds instead of the retry queue. */
export async function rearmRetryQueue(
  access: Access,
  store: Store,
  retryQueue: RetryQueue,
  now: number,
): Promise<number> {
  const rearmed = await inPages(access, (cursor) => rearmRetryQueuePage(store, retryQueue, cursor))
  await inPages(access, (cursor) => forgetRetryQueuePage(store, retryQueue, now, cursor))
  return rearmed
}

/** Does one page of the rows whose job message was in the lost retry queue, or is owed to it. */
function rearmRetryQueuePage(
  store: Store,
  retryQueue: RetryQueue,
  cursor: RearmCursor | null,
): RearmedPage {
  const span = spanOf(store, retryQueue.queue, cursor)
  const { rearmableOfRetryQueue } = store.statements
  store.moved.forgetRetryQueue(retryQueue)
  const rows = rearmableOfRetryQueue.all(
    retryQueue.queue,
    span.after,
    span.to,
    REARM_PAGE,
    retryQueue.delayMs,
  )
  // `isMessageGone` false: a job message of these rows that a native worker has had left the retry queue
  // before the loss. RabbitMQ still has that delivery, in the job queue.
  for (const row of rows) rearmRow(store, row, { isOwed: true, isMessageGone: false })
  return { rearmed: rows.length, next: nextOf(rows, span) }
}

/**
 * Does one page of the lost retry queue's ended rows: their job messages cannot come out any more. A message
 * that was due may have come out before; it counts as being in the job queue.
 */
function forgetRetryQueuePage(
  store: Store,
  { queue, delayMs }: RetryQueue,
  now: number,
  cursor: RearmCursor | null,
): RearmedPage {
  const { after, to, upTo } = spanOf(store, queue, cursor, 'strayAfter')
  store.statements.forgetRetryQueueStrays.run(queue, after, to, delayMs, now)
  return { rearmed: 0, next: to < upTo ? { after: to, upTo } : null }
}

type Span = RearmCursor & { to: number }

/** The rows that one page looks at: `to` is the last of them. */
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

/** The next page begins behind the rows that this one looked at, or behind its last row if it was full. */
function nextOf(rows: readonly WaitingRow[], { to, upTo }: Span): RearmCursor | null {
  if (rows.length === 0 && to >= upTo) return null
  return { after: rows.length < REARM_PAGE ? to : (rows.at(-1)?.seq ?? to), upTo }
}

/** Leaves out rows that arrive later: they have a publish of their own, and a busy queue would never end. */
function beginning(store: Store): RearmCursor {
  return { after: 0, upTo: onlyRow(store.statements.lastSeq.get()).seq }
}

function rearmRow(
  store: Store,
  row: WaitingRow,
  { isOwed, isMessageGone }: { isOwed: boolean; isMessageGone: boolean },
): void {
  store.statements.rearm.run(row.seq, isOwed ? store.nonces.next() : null, isMessageGone ? 1 : 0)
  store.counter.left(row.queue, row)
}

/** See `LostMessages`. Reads page by page, because a queue may have any number of rows of other kinds. */
export class SqliteLostMessages implements LostMessages, LostMessageReads {
  readonly #store: Store
  readonly #access: Access

  constructor(store: Store, access: Access) {
    this.#store = store
    this.#access = access
  }

  async list(queue: string, span: EnqueuedSpan, limit: number): Promise<string[]> {
    const ids: string[] = []
    let cursor: RearmCursor | null = null
    do {
      const page = this.#access.read(() => this.#page(queue, span, cursor))
      ids.push(...page.rows.map(({ id }) => id))
      cursor = page.next
      await nextTurn()
    } while (cursor !== null && ids.length < limit)
    return ids.slice(0, limit)
  }

  rearm(queue: string, span: EnqueuedSpan): Promise<number> {
    return inPages(this.#access, (cursor) => {
      const { rows, next } = this.#page(queue, span, cursor)
      for (const row of rows) rearmRow(this.#store, row, { isOwed: true, isMessageGone: true })
      return { rearmed: rows.length, next }
    })
  }

  #page(queue: string, { after, before }: EnqueuedSpan, cursor: RearmCursor | null) {
    const { statements } = this.#store
    const span = spanOf(this.#store, queue, cursor)
    const since = after ?? Number.MIN_SAFE_INTEGER
    const rows = statements.lostMessages.all(queue, span.after, span.to, REARM_PAGE, since, before)
    return { rows, next: nextOf(rows, span) }
  }
}
