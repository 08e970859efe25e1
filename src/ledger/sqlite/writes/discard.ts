/** Discards a job that runs no further attempt, or has expired. */
import { type Cause, historyLine } from '../../../job/history/changes.ts'
import type { JobRow } from '../../../job/job.ts'
import { type Discarding, expiring } from '../../../job/transitions/discards.ts'
import type { WithNews } from '../../ended.ts'
import { changed } from '../sql/rows.ts'
import type { Store } from '../state/store.ts'
import { ended } from './attempt-counts.ts'

type Discarded = { job: JobRow } & WithNews

/** Discards a job that runs no further attempt. In the write that read `row`. */
export function discardJob(store: Store, row: JobRow, now: number, change: Discarding): Discarded {
  const job = changed(
    store.statements.discard.get(
      row.id,
      row.generation,
      row.state,
      row.attempt,
      now,
      change.completedAt,
      change.deadLetterCopied ? 1 : 0,
      change.error,
      change.errors,
      change.isDeadLetter ? 1 : 0,
      change.attempt,
      change.messageOut ? 1 : 0,
      historyLine(now, 'discarded', change.attempt, null, change.cause),
    ),
  )
  return { job, news: ended(store, job, row) }
}

/** As `discardJob`, for a job whose `expires_at` has passed. No copy in the DLX queue is owed. */
export function expireJob(
  store: Store,
  row: JobRow,
  now: number,
  { messageOut, cause }: Pick<JobRow, 'messageOut'> & { cause?: Cause | undefined },
): Discarded {
  return discardJob(store, row, now, expiring(row, messageOut, cause))
}
