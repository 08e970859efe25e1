/** Starts an attempt, whoever says that it runs, and decides who holds the lease. */
import { type Cause, historyLine } from '../../../job/history/changes.ts'
import type { Holder } from '../../../job/job.ts'
import type { Beginning } from '../../../job/native/report.ts'
import { type ReportedError, recordSkipped } from '../../../job/retry/failure.ts'
import { handedOver, leased, type NewLease } from '../../../job/transitions/lease.ts'
import { isOwedAgain } from '../../../job/transitions/native.ts'
import { type KeptRow, recorded } from '../../../job/transitions/row.ts'
import type { Draft } from '../group/draft.ts'

/** The attempts before it are over. `reported`: what the message says about the last skipped attempt. */
export function startAttempt(
  draft: Draft,
  row: KeptRow,
  { attempt, skipped, promote }: Beginning & { attempt: number },
  holder: Exclude<Holder, 'ledger'>,
  lease: NewLease & { cause?: Cause | undefined },
  reported: ReportedError | null = null,
): KeptRow {
  const { now, workerId, cause } = lease
  const { error, errors } = recordSkipped(draft.job(row), skipped, reported, now)
  const line = historyLine(now, 'active', attempt, workerId, cause)
  const after = draft.change(row, {
    ...leased(row, holder, lease),
    ...{ attempt, error, errors, dueAt: null },
    enqueuedAt: promote ? now : row.enqueuedAt,
    history: recorded(row, line),
  })
  draft.traffic.began(after, row)
  return after
}

/** Starts an attempt that a native worker runs. The ledger has the lease if no message can be behind it. */
export function startNative(
  draft: Draft,
  row: KeptRow,
  beginning: Beginning & { attempt: number },
  lease: NewLease & { cause?: Cause | undefined },
): KeptRow {
  const begun = startAttempt(draft, row, beginning, 'native', lease)
  return isOwedAgain(row) ? leaveUnowned(draft, begun) : begun
}

/** No job message is behind this lease: its end or expiry will publish one. */
export function leaveUnowned(draft: Draft, row: KeptRow): KeptRow {
  const change = handedOver(row, row, true)
  return change ? draft.change(row, change) : row
}
