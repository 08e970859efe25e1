/** What an operator does to a job. */
import { historyLine } from '../../../job/history/changes.ts'
import { isTerminal, type JobRow, type JobState } from '../../../job/job.ts'
import { isStale } from '../../../job/stale.ts'
import { refusalOf, type Steering } from '../../../job/steer.ts'
import { erased, revived } from '../../../job/transitions/end.ts'
import type { KeptRow } from '../../../job/transitions/row.ts'
import type { Acted, ActTerms } from '../../bulk.ts'
import type { Purged, PurgeTerms } from '../../ledger.ts'
import { refused } from '../../writes/acting.ts'
import { rivalOf } from '../../writes/unique.ts'
import type { Draft } from '../group/draft.ts'
import { cancelJob } from './end.ts'
import { keyHolders } from './unique.ts'

export function actOn(draft: Draft, id: string, steering: Steering, terms: ActTerms): Acted {
  const row = draft.row(id)
  const job = row && draft.job(row)
  const reason = refusalOf(steering, job, {
    retriedAs: job?.carry?.retriedAs,
    isStep: () => row?.step != null,
    wall: terms.wall,
  })
  if (row === null || job === null || reason !== null)
    return refused(id, reason ?? 'not_found', row)
  switch (steering.action) {
    case 'cancel': {
      const done = cancelJob(draft, id, terms.now, terms.cause)
      return isStale(done) ? refused(id, 'not_found', row) : { did: 'cancel', ...done }
    }
    case 'retry': {
      const rival = rivalIn(draft, row, job, terms)
      if (rival) return { ...refused(id, 'duplicate', row), rival }
      return { did: 'retry', job: revive(draft, row, terms), before: job }
    }
    case 'delete':
      erase(draft, row, terms.now)
      return { did: 'delete', before: job }
  }
}

/** The job that has the unique key of a dead letter by now. */
function rivalIn(draft: Draft, { uniqueKey }: KeptRow, job: JobRow, { now, wall }: ActTerms) {
  const isRival = uniqueKey !== null && isTerminal(job.state)
  return isRival ? rivalOf(keyHolders(draft, wall), uniqueKey, job, now) : null
}

function revive(draft: Draft, row: KeptRow, { now, cause }: ActTerms): JobRow {
  const attempt = row.state === 'retryable' ? row.attempt : 0
  const line = historyLine(now, 'available', attempt, null, cause)
  const after = draft.change(row, revived(row, now, draft.nextNonce(), line))
  if (row.deadLetterCopied) draft.staleCopy(row.queue)
  // A native worker that comes later may be given the message of the generation before.
  if (row.messageOut) {
    draft.recordTombstone(row.id, { queue: row.queue, isScoped: false, cancelledAt: now })
  }
  return draft.job(after)
}

/** The row stays for a while, so that late job messages are recognized and dropped. */
function erase(draft: Draft, row: KeptRow, now: number): void {
  draft.change(row, erased(now))
  if (row.deadLetterCopied) draft.staleCopy(row.queue)
}

/** See `Ledger.purge`. */
export function purgeOne(draft: Draft, id: string, terms: PurgeTerms): Purged | null {
  const { states, now, cause } = terms
  const row = draft.row(id)
  if (row === null || !states.includes(row.state as JobState)) return null
  // Its workflow needs the row.
  const isKept = row.step !== null
  if (isTerminal(row.state)) {
    const job = draft.job(row)
    if (!isKept) erase(draft, row, now)
    return { job, cancelled: null, isKept }
  }
  const cancelled = cancelJob(draft, id, now, cause)
  const after = draft.row(id)
  if (isStale(cancelled) || after === null) return null
  if (!isKept) erase(draft, after, now)
  return { job: cancelled.job, cancelled, isKept }
}
