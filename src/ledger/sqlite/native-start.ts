import { recordSkipped } from '../../job/failure.ts'
import { isHeldByLedger, type JobRow } from '../../job/job.ts'
import type { Beginning, ReportedEvent } from '../../job/report.ts'
import type { ReportTerms } from '../native.ts'
import { started } from './life.ts'
import { changed, type Store } from './store.ts'

/**
 * Starts the attempt with a native holder: a report of the start says so, or a report of its end or a
 * heartbeat implies it. `start`: what the row has not seen yet; null: only the lease had run out.
 */
export function begin(
  store: Store,
  event: Pick<ReportedEvent, 'attempt' | 'workerId'>,
  { now, defaultLeaseMs }: Pick<ReportTerms, 'now' | 'defaultLeaseMs'>,
  row: JobRow,
  start: Beginning | null,
  leaseMs: number | null = null,
): JobRow {
  const { error, errors } = recordSkipped(row, start?.skipped ?? [], null, now)
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
      error,
      errors,
    ),
  )
  started(store, job, row)
  return job
}

/**
 * True if this waiting job's last attempt was given back without its token, or lost the token with its queue,
 * and the next token is not confirmed yet. A native worker that starts the job now runs that last attempt,
 * and may do so long after it ended: no worker can have the token that is owed, or will be owed at `dueAt`.
 */
export function isOwedAgain(row: JobRow): boolean {
  return row.workerId !== null && (row.outbox !== null || isHeldByLedger(row))
}

/** Sets the holder to `ledger`, because no token is behind this lease: its end or expiry will publish one. */
export function leaveUnowned(
  { statements }: Store,
  job: Pick<JobRow, 'id' | 'generation' | 'attempt' | 'holder'>,
): void {
  statements.handOverAny.run(job.id, job.generation, job.attempt)
  job.holder = 'ledger'
}
