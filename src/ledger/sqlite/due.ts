import { isListedWhenExpired, retryPolicyOf } from '../../job/failure.ts'
import type { JobRow } from '../../job/job.ts'
import type { ExpireTerms } from '../ledger.ts'
import { ended } from './life.ts'
import { toJobRows } from './rows.ts'
import { changed, type Store } from './store.ts'

interface Due {
  seq: number
  lateMs: number
  state: 'retryable' | 'scheduled'
}

/**
 * Due rows become available, the latest first: the two kinds run on different clocks, and how late
 * they are is what can be compared.
 */
export function promoteDue(store: Store, now: number, wall: number, limit: number): JobRow[] {
  const { due } = store.statements
  const rows = [...due.all('retryable', now, limit), ...due.all('scheduled', wall, limit)] as Due[]
  const first = rows.sort((a, b) => b.lateMs - a.lateMs).slice(0, limit)
  return first.map(({ seq, state }) => {
    const job = changed(store.statements.promote.get(seq, now, store.nonces.next()))
    store.counter.moved(job.queue, state, 'available')
    return job
  })
}

/** Rows that nobody may start any more are discarded; tokens of theirs are dropped on arrival. */
export function expireDue(store: Store, terms: ExpireTerms): JobRow[] {
  const rows = store.statements.expired.all(terms.wall, terms.limit).map(changed)
  return rows.map((row) => expireRow(store, row, terms.now))
}

/** One that waits; inside its write, which has read it. */
export function expireRow(store: Store, row: JobRow, now: number): JobRow {
  const listed = isListedWhenExpired(retryPolicyOf(row)) ? 1 : 0
  const { id, generation, state } = row
  const job = changed(store.statements.expire.get(id, generation, state, now, listed))
  ended(store, job, row)
  return job
}

/** Is there a row for `expireDue`? */
export function isAnyExpired(store: Store, wall: number): boolean {
  return store.statements.expired.all(wall, 1).length > 0
}

/** The earliest due times; null: none. */
export function nextDue(store: Store): { retryable: number | null; scheduled: number | null } {
  return store.statements.nextDue.get() as { retryable: number | null; scheduled: number | null }
}

/** Active rows that have run out of time, oldest first. */
export function overdue(
  store: Store,
  now: number,
  limit: number,
  which: 'all' | 'not native',
): JobRow[] {
  return toJobRows(store.statements.overdue.all(now, limit, which === 'all' ? 1 : 0))
}
