/** What its time has come for: retries, schedules, schedules for the delay plugin, expired jobs, ends of leases. */
import { isHopeless } from '../../../errors.ts'
import { historyLine } from '../../../job/history/changes.ts'
import { isTerminal, type JobRow } from '../../../job/job.ts'
import { pageOf } from '../../../job/page.ts'
import type { Expired } from '../../ended.ts'
import type { DecideFailure, FailedLease, OverdueTerms, Undecided } from '../../leases.ts'
import type { DueTerms } from '../../ledger.ts'
import type { Access } from '../commit/access.ts'
import { eachAlone, inTime } from '../commit/pages.ts'
import { inTurn } from '../concurrency/lines.ts'
import { onlyRow } from '../sql/driver.ts'
import { changed, toJobRow } from '../sql/rows.ts'
import type { DueRow } from '../sql/statements.ts'
import { isMessageOwed, type Store } from '../state/store.ts'
import { expireJob } from './discard.ts'
import { failRow } from './leases.ts'

/** See `Ledger.promote`. */
export async function promoteDue(
  access: Access,
  store: Store,
  { now, wall, limit }: DueTerms,
): Promise<JobRow[]> {
  // Look first: this runs several times a second, and a write without changes still costs a transaction.
  const { retryable, scheduled } = access.read(() => onlyRow(store.statements.nextDue.get()))
  const isDue = (retryable ?? Infinity) <= now || (scheduled ?? Infinity) <= wall
  if (!isDue) return []
  return await access.writeMany(limit, () => promotePage(store, now, wall, limit))
}

/**
 * Makes due rows available, the most overdue first. Retries and schedules run on different clocks, so their
 * due times cannot be compared; how late they are can.
 */
function promotePage(store: Store, now: number, wall: number, limit: number): JobRow[] {
  const { due } = store.statements
  const rows = [...due.all('retryable', now, limit), ...due.all('scheduled', wall, limit)]
  const first = rows.sort((a, b) => b.lateMs - a.lateMs).slice(0, limit)
  const line = historyLine(now, 'available', null, null, { reason: 'due' })
  return pageOf(first, (row) => {
    const { seq, state, queue, retryQueueMs } = row
    const nonce = store.nonces.next()
    const before = unconfirmed(store, row)
    if (before !== null && retryQueueMs !== null) {
      store.moved.add(before, { retryQueue: { queue, delayMs: retryQueueMs }, outbox: nonce })
    }
    const isInRetryQueue = before === null && retryQueueMs !== null
    const job = changed(store.statements.promote.get(seq, now, isInRetryQueue ? null : nonce, line))
    store.counter.moved(queue, state, 'available')
    return inTurn(store, job)
  })
}

/**
 * The nonce of a row that still owes its job message. Null also if its confirm is known and not yet written.
 */
function unconfirmed({ confirming }: Store, { outbox }: DueRow): number | null {
  return outbox !== null && confirming.has(outbox) ? null : outbox
}

/**
 * Gives nonces to schedules whose job message RabbitMQ's delay plugin is to hold from now on (`IN_EXCHANGE`).
 * As with messages in retry queues, no further message is owed when the job is due.
 */
export async function sendAhead(
  access: Access,
  store: Store,
  until: number,
  limit: number,
): Promise<number> {
  const { ahead, sendAhead: send } = store.statements
  // Look first: this runs several times a second, and a write without changes still costs a transaction.
  if (access.read(() => ahead.get(until, 1)) === undefined) return 0
  return await access.writeMany(limit, () => {
    const rows = ahead.all(until, limit)
    for (const { seq } of rows) send.run(seq, store.nonces.next())
    return rows.length
  })
}

/**
 * Discards rows whose `expires_at` has passed; their job messages are dropped on arrival. Stops early if it
 * takes long: each row may be the workflow step for which a thousand others wait.
 */
export async function expireDue(access: Access, store: Store, terms: DueTerms): Promise<Expired[]> {
  const { expired, find } = store.statements
  const page = () => expired.all(terms.wall, terms.limit)
  const waiting = ({ id }: { id: string }) => {
    const row = toJobRow(find.get(id))
    return row === null || row.state === 'active' || isTerminal(row.state) ? null : row
  }
  try {
    return await access.writeMany(terms.limit, () =>
      inTime(page(), waiting, (row) => expireOne(store, row, terms)),
    )
  } catch (error) {
    if (!isHopeless(error)) throw error
    return await eachAlone(access, access.read(page), error, (one) => {
      const row = waiting(one)
      return row && expireOne(store, row, terms)
    })
  }
}

function expireOne(store: Store, row: JobRow, { now }: DueTerms): Expired {
  // A job that the ledger held until its time has no job message out.
  const isHeld = row.state !== 'available' && row.retryQueueMs === null && row.outbox === null
  const expired = expireJob(store, row, now, { messageOut: row.messageOut && !isHeld })
  return { ...expired, isMessageOwed: isMessageOwed(store, row) }
}

/** See `LeaseLedger.endOverdue`. */
export async function endOverdue(
  access: Access,
  store: Store,
  { now, limit, which }: OverdueTerms,
  decide: DecideFailure,
): Promise<(FailedLease | Undecided)[]> {
  const { overdue, find } = store.statements
  const page = () => overdue.all(now, limit, which === 'all' ? 1 : 0)
  const running = ({ id }: { id: string }) => {
    const row = toJobRow(find.get(id))
    return row?.state === 'active' ? row : null
  }
  // Look first: this runs several times a second, and a write without changes still costs a transaction.
  const found = access.read(page)
  if (found.length === 0) return []
  try {
    return await access.writeMany(limit, () =>
      inTime(page(), running, (row) => failRow(store, row, decide)),
    )
  } catch (error) {
    if (!isHopeless(error)) throw error
    return await eachAlone(access, found, error, ({ id }) => {
      const isStill = page().some((other) => other.id === id)
      return isStill ? failRow(store, changed(find.get(id)), decide) : null
    })
  }
}
