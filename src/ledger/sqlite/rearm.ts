import type { Store } from './store.ts'

export const REARM_PAGE = 1000

/** Which rows are left: those after `after` that were there when it began. */
export interface RearmCursor {
  after: number
  upTo: number
}

export interface RearmedPage {
  rearmed: number
  /** Where the next page starts; null after the last one. */
  next: RearmCursor | null
}

/**
 * One page of a lost queue: a new outbox nonce for each row whose token was in it, in order of
 * arrival, so that the relay publishes them in that order. After the last page, the rows that are
 * over stop waiting for a token that cannot come back.
 */
export function rearmPage(store: Store, queue: string, cursor: RearmCursor | null): RearmedPage {
  const { rearmable, rearm, handOverQueue, lastSeq, forgetStrays } = store.statements
  // Rows that arrive meanwhile have a publish of their own; without an end, a busy queue has none.
  const { after, upTo } = cursor ?? { after: 0, upTo: (lastSeq.get() as { seq: number }).seq }
  const rows = rearmable.all(queue, after, upTo, REARM_PAGE) as { seq: number }[]
  for (const { seq } of rows) rearm.run(seq, store.nonces.next())
  // The deliveries behind these leases went with the queue: released, the job needs a new token.
  if (cursor === null) handOverQueue.run(queue, upTo)
  const last = rows.at(-1)
  if (last) return { rearmed: rows.length, next: { after: last.seq, upTo } }
  const { changes } = forgetStrays.run(queue, REARM_PAGE)
  return { rearmed: 0, next: changes === REARM_PAGE ? { after, upTo } : null }
}
