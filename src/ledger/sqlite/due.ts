import type { JobRow } from '../../job/job.ts'
import { pageOf } from '../../job/page.ts'
import { isListedWhenExpired, retryPolicyOf } from '../../job/retry-policy.ts'
import type { Expired, ExpireTerms } from '../ledger.ts'
import type { Access } from './access.ts'
import { ended } from './life.ts'
import { changed, isTokenOwed, type Store } from './store.ts'

interface Due {
  seq: number
  lateMs: number
  state: 'retryable' | 'scheduled'
}

interface Found {
  id: string
}

/**
 * Due rows become available, the most overdue first: the two kinds run on different clocks, and
 * how late they are is what can be compared.
 */
export function promoteDue(store: Store, now: number, wall: number, limit: number): JobRow[] {
  const { due } = store.statements
  const rows = [...due.all('retryable', now, limit), ...due.all('scheduled', wall, limit)] as Due[]
  const first = rows.sort((a, b) => b.lateMs - a.lateMs).slice(0, limit)
  return pageOf(first, ({ seq, state }) => {
    const job = changed(store.statements.promote.get(seq, now, store.nonces.next()))
    store.counter.moved(job.queue, state, 'available')
    return job
  })
}

/**
 * Schedules whose token RabbitMQ is to hold from now on; a rung of 0 ms says so, and what is true of
 * tokens in rungs is true of theirs: none is owed when they are due.
 */
export async function sendAhead(
  access: Access,
  store: Store,
  until: number,
  limit: number,
): Promise<number> {
  const { ahead, sendAhead: send } = store.statements
  // Asked several times a second: a write that changes nothing would still cost a transaction.
  if (access.read(() => ahead.get(until, 1)) === undefined) return 0
  return await access.writeMany(limit, () => {
    const rows = ahead.all(until, limit) as { seq: number }[]
    for (const { seq } of rows) send.run(seq, store.nonces.next())
    return rows.length
  })
}

/** Rows that nobody may start any more are discarded; tokens of theirs are dropped on arrival. */
export function expireDue(store: Store, terms: ExpireTerms): Expired[] {
  const { expired, find } = store.statements
  const found = expired.all(terms.wall, terms.limit) as Found[]
  const owed = new Set<string>()
  const jobs = pageOf(found, ({ id }) => {
    const row = changed(find.get(id))
    if (isTokenOwed(store, row)) owed.add(id)
    return expireRow(store, row, terms.now)
  })
  return jobs.map((job) => ({ job, isTokenOwed: owed.has(job.id) }))
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
  const { overdue: ended, find } = store.statements
  const found = ended.all(now, limit, which === 'all' ? 1 : 0) as Found[]
  return pageOf(found, ({ id }) => changed(find.get(id)))
}
