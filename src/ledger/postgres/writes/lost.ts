/** New nonces for the rows whose messages were lost with a queue, page by page. */
import { lostWith, rearmed } from '../../../job/transitions/due.ts'
import type { KeptRow } from '../../../job/transitions/row.ts'
import type { RetryQueue } from '../../known.ts'
import { ROW } from '../group/columns.ts'
import type { Draft } from '../group/draft.ts'
import type { Groups } from '../group/groups.ts'

/** Rows that a page looks at. */
export const PAGE = 1_000
/** Ended rows that a page lets go of. */
const STRAYS = 10_000

/** The rows still to do: those with `after` < seq <= `upTo`, the last row when the first page began. */
export interface Cursor {
  after: number
  upTo: number
}

export interface Page {
  rearmed: number
  /** Where the next page starts; null after the last one. */
  next: Cursor | null
}

/** Runs the pages, each in a group of its own. */
export async function inPages(
  groups: Groups,
  page: (draft: Draft, cursor: Cursor | null) => Page,
): Promise<number> {
  let count = 0
  let cursor: Cursor | null = null
  do {
    const present: Cursor | null = cursor
    const run = (draft: Draft) => page(draft, present)
    const done: Page = await groups.write({ wants: {}, run, weight: PAGE, isAlone: true })
    count += done.rearmed
    cursor = done.next
  } while (cursor !== null)
  return count
}

/** Leaves out rows that arrive later: they have a publish of their own, and a busy queue would never end. */
export function beginning(draft: Draft, schema: string): Cursor {
  const [row] = draft.ask({ text: `SELECT last_value AS seq FROM ${schema}.jobs_seq_seq` })
  return { after: 0, upTo: Number(row?.['seq']) }
}

/** A page of the queue's live rows, in order of arrival, and the cursor behind it. */
function livePage(
  draft: Draft,
  schema: string,
  queue: string,
  { after, upTo }: Cursor,
): { rows: KeptRow[]; next: Cursor | null } {
  const text = `SELECT j.seq, ${ROW} FROM ${schema}.jobs j WHERE j.queue = $1 AND j.ended_at IS NULL
    AND j.seq > $2 AND j.seq <= $3 ORDER BY j.seq LIMIT ${PAGE}`
  const found = draft.ask({ text, values: [queue, after, upTo] })
  const last = Number(found.at(-1)?.['seq'])
  const next = found.length < PAGE ? null : { after: last, upTo }
  return { rows: found as readonly unknown[] as KeptRow[], next }
}

/** See `Ledger.rearm`. */
export async function rearmQueue(
  groups: Groups,
  schema: string,
  queue: string,
  now: number,
): Promise<number> {
  const count = await inPages(groups, (draft, cursor) =>
    rearmPage(draft, schema, { queue, now }, cursor),
  )
  await inPages(groups, (draft) => forgetPage(draft, schema, queue, now))
  return count
}

function rearmPage(
  draft: Draft,
  schema: string,
  { queue, now }: { queue: string; now: number },
  cursor: Cursor | null,
): Page {
  const from = cursor ?? beginning(draft, schema)
  // All deliveries of the queue are lost at once, also those of rows on later pages.
  if (cursor === null) handOverLeases(draft, schema, queue, from.upTo)
  const { rows, next } = livePage(draft, schema, queue, from)
  const lost = rows.filter((row) => lostWith(row, now) !== null)
  let owed = 0
  for (const row of draft.rows(lost.map(({ id }) => id))) {
    const how = lostWith(row, now)
    if (how === 'handed over') draft.change(row, { holder: 'ledger' })
    else if (how !== null)
      draft.change(row, rearmed(row, how === 'owed' ? draft.nextNonce() : null, true))
    if (how === 'owed') owed += 1
  }
  return { rearmed: owed, next }
}

function handOverLeases(draft: Draft, schema: string, queue: string, upTo: number): void {
  const text = `UPDATE ${schema}.jobs SET holder = 'ledger' WHERE lease_expires_at IS NOT NULL
    AND least(lease_expires_at, timeout_at) > 0 AND queue = $1 AND seq <= $2
    AND state = 'active' AND holder IN ('gateway', 'native')`
  draft.ask({ text, values: [queue, upTo] })
}

/** Ended rows stop waiting for a message in the lost queue. With `due_at` ahead, it is in a retry queue. */
function forgetPage(draft: Draft, schema: string, queue: string, now: number): Page {
  const text = `WITH stray AS (SELECT id FROM ${schema}.jobs WHERE queue = $1 AND ended_at IS NOT NULL
      AND message_out AND (due_at IS NULL OR due_at <= $2) ORDER BY id LIMIT ${STRAYS} FOR UPDATE),
    done AS (UPDATE ${schema}.jobs j SET message_out = false FROM stray s WHERE j.id = s.id RETURNING 1)
    SELECT count(*) AS n FROM done`
  const [row] = draft.ask({ text, values: [queue, now] })
  if (Number(row?.['n']) === STRAYS) return { rearmed: 0, next: { after: 0, upTo: 0 } }
  const forget = `UPDATE ${schema}.queues SET identity = NULL, lost_at = NULL WHERE name = $1`
  draft.changes.store({ text: forget, values: [queue] })
  return { rearmed: 0, next: null }
}

/** See `Ledger.rearmRetryQueue`. */
export async function rearmRetryQueue(
  groups: Groups,
  schema: string,
  retryQueue: RetryQueue,
  now: number,
): Promise<number> {
  const count = await inPages(groups, (draft, cursor) =>
    rearmRetryPage(draft, schema, retryQueue, cursor),
  )
  await inPages(groups, (draft) => forgetRetryPage(draft, schema, retryQueue, now))
  return count
}

/** The rows whose job message was in the lost retry queue, or is owed to it. */
function rearmRetryPage(
  draft: Draft,
  schema: string,
  { queue, delayMs }: RetryQueue,
  cursor: Cursor | null,
): Page {
  const { memory } = draft
  draft.changes.store(null, () => {
    for (const [before, { retryQueue }] of memory.moved)
      if (retryQueue.queue === queue && retryQueue.delayMs === delayMs) memory.moved.delete(before)
  })
  const { rows, next } = livePage(draft, schema, queue, cursor ?? beginning(draft, schema))
  const wasThere = ({ state, outbox, retryQueueMs }: KeptRow) =>
    retryQueueMs === delayMs &&
    (state === 'retryable' || (state === 'available' && outbox === null))
  const lost = draft.rows(rows.filter(wasThere).map(({ id }) => id)).filter(wasThere)
  // A job message of these rows that a native worker has had left the retry queue before the loss.
  for (const row of lost) draft.change(row, rearmed(row, draft.nextNonce(), false))
  return { rearmed: lost.length, next }
}

/** Ended rows whose message was in the lost retry queue: if its `due_at` is after `now`, it was still there. */
function forgetRetryPage(
  draft: Draft,
  schema: string,
  { queue, delayMs }: RetryQueue,
  now: number,
): Page {
  const text = `WITH stray AS (SELECT id FROM ${schema}.jobs WHERE queue = $1 AND ended_at IS NOT NULL
      AND message_out AND retry_queue_ms = $2 ORDER BY id LIMIT ${STRAYS} FOR UPDATE),
    done AS (UPDATE ${schema}.jobs j SET message_out = NOT coalesce(due_at > $3, false),
      due_at = NULL, retry_queue_ms = NULL FROM stray s WHERE j.id = s.id RETURNING 1)
    SELECT count(*) AS n FROM done`
  const [row] = draft.ask({ text, values: [queue, delayMs, now] })
  return { rearmed: 0, next: Number(row?.['n']) === STRAYS ? { after: 0, upTo: 0 } : null }
}
