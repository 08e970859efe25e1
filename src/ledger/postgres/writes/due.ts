/** Due retries and schedules, schedules for the delay plugin, expired jobs. */
import { historyLine } from '../../../job/history/changes.ts'
import { isTerminal, type JobRow } from '../../../job/job.ts'
import { promoted, sentAhead } from '../../../job/transitions/due.ts'
import type { KeptRow } from '../../../job/transitions/row.ts'
import type { Expired } from '../../ended.ts'
import type { DecideFailure, FailedLease, OverdueTerms, Undecided } from '../../leases.ts'
import type { DueTerms } from '../../ledger.ts'
import type { Statement } from '../connection.ts'
import { type Draft, Missing } from '../group/draft.ts'
import type { MovedDebt } from '../group/memory.ts'
import { firstPage, SIZE } from '../group/sizes.ts'
import { lookUpLines } from '../keyed/lines.ts'
import { expireJob, isMessageOwed } from './end.ts'
import { failRow } from './leases.ts'

/** More than the publisher has in flight. A forgotten debt costs a second job message at most. */
const MAX_DEBTS = 20_000

interface Times {
  now: number
  wall: number
}

/**
 * Due rows, the most overdue first. Retries and schedules run on different clocks, so their due times cannot be
 * compared; how late they are can.
 */
export function dueRows(schema: string, { now, wall }: Times, limit: number): Statement {
  const due = (state: string) => `(SELECT j.id, j.due_at, j.state, j.seq FROM ${schema}.jobs j
    WHERE j.state = '${state}' AND j.due_at IS NOT NULL AND j.ended_at IS NULL
      AND j.due_at <= ${state === 'retryable' ? '$1' : '$2'} ORDER BY j.due_at LIMIT $3)`
  const text = `SELECT d.id, ${SIZE} AS bytes
    FROM (${due('retryable')} UNION ALL ${due('scheduled')}) d JOIN ${schema}.job_bodies b USING (id)
    ORDER BY CASE d.state WHEN 'retryable' THEN $1 ELSE $2 END - d.due_at DESC, d.seq LIMIT $3`
  return { text, values: [now, wall, limit] }
}

/** Makes due rows available. */
export function promoteDue(draft: Draft, schema: string, times: Times, limit: number): JobRow[] {
  const ids = loadPage(draft, dueRows(schema, times, limit))
  const rows = draft.rows(ids).filter((row) => isDue(row, times))
  return eachStill(draft, rows, (row) => promoteOne(draft, row, times.now))
}

/** Loads the jobs that are found, as many as are in memory at once, and what their changes read. */
function loadPage(draft: Draft, found: Statement): string[] {
  const ids = firstPage(draft.ask(found))
  draft.require({ ids })
  lookUpLines(draft, ids)
  return ids
}

/**
 * Changes each of the rows as it is when its turn comes: the change before it may have changed it too, because the
 * end of a job lets others of its concurrency key go.
 */
function eachStill<T>(draft: Draft, rows: readonly KeptRow[], change: (row: KeptRow) => T): T[] {
  const changed = draft.each(rows, ({ id, state }) => {
    const row = draft.row(id)
    return row?.state === state ? [change(row)] : []
  })
  return changed.flat()
}

function isDue({ state, dueAt }: KeptRow, { now, wall }: Times): boolean {
  if (dueAt === null) return false
  return state === 'retryable' ? dueAt <= now : state === 'scheduled' && dueAt <= wall
}

function promoteOne(draft: Draft, row: KeptRow, now: number): JobRow {
  const { outbox, retryQueueMs, queue } = row
  const { memory } = draft
  const nonce = draft.nextNonce()
  // Null also if its confirm is known and not yet written.
  const before = outbox !== null && memory.confirming.has(outbox) ? null : outbox
  if (before !== null && retryQueueMs !== null) {
    const debt: MovedDebt = { retryQueue: { queue, delayMs: retryQueueMs }, outbox: nonce }
    draft.changes.store(null, () => {
      memory.moved.set(before, debt)
      const [oldest] = memory.moved.keys()
      if (memory.moved.size > MAX_DEBTS && oldest !== undefined) memory.moved.delete(oldest)
    })
  }
  const isInRetryQueue = before === null && retryQueueMs !== null
  const line = historyLine(now, 'available', null, null, { reason: 'due' })
  return draft.job(draft.change(row, promoted(row, now, isInRetryQueue ? null : nonce, line)))
}

/** Schedules whose job message the delay plugin neither has nor is owed. */
export function rowsAhead(schema: string, until: number, limit: number): Statement {
  const text = `SELECT d.id FROM (SELECT j.id, j.due_at, j.seq FROM ${schema}.jobs j
      WHERE j.state = 'scheduled' AND j.due_at IS NOT NULL AND j.ended_at IS NULL
        AND j.retry_queue_ms IS NULL AND j.outbox IS NULL AND j.due_at <= $1
      ORDER BY j.due_at LIMIT $2) d ORDER BY d.due_at, d.seq`
  return { text, values: [until, limit] }
}

export function sendAhead(draft: Draft, schema: string, until: number, limit: number): number {
  const ids = draft.ask(rowsAhead(schema, until, limit)).map(({ id }) => String(id))
  const rows = draft
    .rows(ids)
    .filter((row) => row.state === 'scheduled' && row.retryQueueMs === null && row.outbox === null)
  for (const row of rows) draft.change(row, sentAhead(draft.nextNonce()))
  return rows.length
}

/**
 * SELECT of rows whose `expires_at` has passed: `$1` is the wall time, `$2` the limit. Not `active` ones: an attempt
 * that runs is let to its end.
 */
export function expiredKeys(jobs: string): string {
  return `SELECT j.id, j.queue, j.expires_at, j.seq FROM ${jobs} j
    WHERE j.expires_at IS NOT NULL AND j.ended_at IS NULL AND j.expires_at <= $1
      AND j.state <> 'active' ORDER BY j.expires_at LIMIT $2`
}

function expiredRows(schema: string, { wall, limit }: Omit<DueTerms, 'now'>): Statement {
  const text = `SELECT e.id, ${SIZE} AS bytes FROM (${expiredKeys(`${schema}.jobs`)}) e
    JOIN ${schema}.job_bodies b USING (id) ORDER BY e.expires_at, e.seq`
  return { text, values: [wall, limit] }
}

/** Discards them; their job messages are dropped on arrival. */
export function expireDue(draft: Draft, schema: string, terms: DueTerms): Expired[] {
  const ids = loadPage(draft, expiredRows(schema, terms))
  const rows = draft.rows(ids).filter(({ state }) => state !== 'active' && !isTerminal(state))
  return eachStill(draft, rows, (row) => {
    // A job that the ledger held until its time has no job message out.
    const isHeld = row.state !== 'available' && row.retryQueueMs === null && row.outbox === null
    const ended = expireJob(draft, row, terms.now, row.messageOut && !isHeld)
    return { ...ended, isMessageOwed: isMessageOwed(draft, row) }
  })
}

/** Active rows whose lease or execution timeout is over. */
export function overdueRows(schema: string, { now, limit, which }: OverdueTerms): Statement {
  const end = 'least(j.lease_expires_at, j.timeout_at)'
  const native = which === 'all' ? 'OR j.lease_expires_at <= $1' : ''
  const text = `SELECT e.id, ${SIZE} AS bytes FROM (SELECT j.id, j.seq, ${end} AS ends FROM ${schema}.jobs j
      WHERE j.lease_expires_at IS NOT NULL AND ${end} <= $1 AND j.state = 'active'
        AND (j.holder IS DISTINCT FROM 'native' ${native}) ORDER BY ${end} LIMIT $2) e
    JOIN ${schema}.job_bodies b USING (id) ORDER BY e.ends, e.seq`
  return { text, values: [now, limit] }
}

/** See `LeaseLedger.endOverdue`. */
export function endOverdue(
  draft: Draft,
  schema: string,
  terms: OverdueTerms,
  decide: DecideFailure,
): (FailedLease | Undecided)[] {
  const ids = loadPage(draft, overdueRows(schema, terms))
  const over = draft.rows(ids).filter((row) => row.state === 'active' && isOver(row, terms.now))
  const failures: unknown[] = []
  const ended = draft.each(over, ({ id }): (FailedLease | Undecided)[] => {
    try {
      // The end of one before it, a step, may have had this one replaced.
      const row = draft.row(id)
      return row?.state === 'active' ? [failRow(draft, row, decide)] : []
    } catch (error) {
      // Nothing of the row has changed: a decision that fails stops no other.
      if (error instanceof Missing) throw error
      failures.push(error)
      return []
    }
  })
  const all = ended.flat()
  if (all.length === 0 && failures.length > 0) throw failures[0]
  return all
}

/** For a native holder only the lease counts: the worker watches the execution timeout itself. */
function isOver({ holder, leaseExpiresAt, timeoutAt }: KeptRow, now: number): boolean {
  const isTimedOut = holder !== 'native' && timeoutAt !== null && timeoutAt <= now
  return isTimedOut || (leaseExpiresAt !== null && leaseExpiresAt <= now)
}
