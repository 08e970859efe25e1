/** Starts an attempt, whoever says that it runs, and decides who holds the lease. */
import { historyLine } from '../../../job/history/changes.ts'
import type { Holder, JobRow } from '../../../job/job.ts'
import type { Beginning } from '../../../job/native/report.ts'
import { type ReportedError, recordSkipped } from '../../../job/retry/failure.ts'
import { isOwedAgain } from '../../../job/transitions/native.ts'
import type { ClaimTerms } from '../../leases.ts'
import { changed } from '../sql/rows.ts'
import type { Store } from '../state/store.ts'
import { started } from './attempt-counts.ts'

type Lease = Pick<ClaimTerms, 'now' | 'workerId' | 'leaseMs' | 'defaultLeaseMs' | 'cause'>

/**
 * Starts an attempt of `row`: a job message came for it, or a native worker's report or heartbeat says or
 * implies that it runs. In the write that read `row`. `reported`: what the message says about the last
 * skipped attempt.
 */
export function startAttempt(
  store: Store,
  row: JobRow,
  { attempt, skipped, promote }: Beginning & { attempt: number },
  holder: Exclude<Holder, 'ledger'>,
  { workerId, leaseMs, defaultLeaseMs, now, cause }: Lease,
  reported: ReportedError | null = null,
): JobRow {
  const { claim, nativeStart } = store.statements
  const { error, errors } = recordSkipped(row, skipped, reported, now)
  const job = changed(
    (holder === 'native' ? nativeStart : claim).get(
      workerId,
      leaseMs,
      defaultLeaseMs,
      now,
      row.id,
      row.generation,
      row.state,
      row.attempt,
      attempt,
      promote ? now : null,
      error,
      errors,
      historyLine(now, 'active', attempt, workerId, cause),
    ),
  )
  started(store, job, row)
  return job
}

/** Starts an attempt that a native worker runs. The ledger has the lease if no message can be behind it. */
export function startNative(
  store: Store,
  row: JobRow,
  beginning: Beginning & { attempt: number },
  lease: Lease,
): JobRow {
  const job = startAttempt(store, row, beginning, 'native', lease)
  if (isOwedAgain(row)) leaveUnowned(store, job)
  return job
}

/**
 * Sets the holder to `ledger`, because no job message is behind this lease: its end or expiry will publish
 * one.
 */
export function leaveUnowned(
  { statements }: Store,
  job: Pick<JobRow, 'id' | 'generation' | 'attempt' | 'holder'>,
): void {
  statements.handOverAny.run(job.id, job.generation, job.attempt)
  job.holder = 'ledger'
}
