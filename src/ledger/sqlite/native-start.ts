import { recordSkipped, unrecorded } from '../../job/arrival.ts'
import { isHeldByLedger, type JobRow } from '../../job/job.ts'
import type { Beginning, ReportedEvent } from '../../job/report.ts'
import type { ReportTerms } from '../native.ts'
import { started } from './life.ts'
import { changed, type Store } from './store.ts'

/**
 * The attempt runs, holder native: as a report says, or as its end or a heartbeat implies. `start`:
 * what the row had not seen of it; null where only the lease had run out.
 */
export function begin(
  store: Store,
  event: Pick<ReportedEvent, 'attempt' | 'workerId'>,
  { now, defaultLeaseMs }: Pick<ReportTerms, 'now' | 'defaultLeaseMs'>,
  row: JobRow,
  start: Beginning | null,
  leaseMs: number | null = null,
): JobRow {
  const skipped = unrecorded(row, start?.skipped ?? [])
  const { errors, last } = recordSkipped(row.errors, skipped, null, now)
  const job = changed(
    store.statements.nativeStart.get(
      event.workerId,
      leaseMs,
      defaultLeaseMs,
      now,
      row.id,
      row.generation,
      row.state,
      row.attempt,
      event.attempt,
      start?.promote ? now : null,
      last ?? row.error,
      errors,
    ),
  )
  started(store, job, row)
  return job
}

/**
 * Was the last attempt of this waiting job given back without its token, or that lost with its queue,
 * and is another one not out yet? Who starts it now runs that attempt, which may be long over: nobody
 * has the token that is owed, or will be when the job is due.
 */
export function isOwedAgain(row: JobRow): boolean {
  return row.workerId !== null && (row.outbox !== null || isHeldByLedger(row))
}

/** No token is behind this lease: what comes after it publishes one. */
export function leaveUnowned(
  { statements }: Store,
  job: Pick<JobRow, 'id' | 'generation' | 'attempt' | 'holder'>,
): void {
  statements.handOverAny.run(job.id, job.generation, job.attempt)
  job.holder = 'ledger'
}
