import type { JobRow } from '../../job/job.ts'
import { ended } from './life.ts'
import { changed, type Store } from './store.ts'

/** What the end of the job says. `completedAt` null: it has expired. */
type Discard = Pick<
  JobRow,
  'error' | 'errors' | 'attempt' | 'completedAt' | 'deadLetterCopied' | 'isDeadLetter' | 'tokenOut'
>

/** A job whose token is in our hands, or has died in the broker; inside its write, which has read it. */
export function discardJob(store: Store, row: JobRow, now: number, change: Discard): JobRow {
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
      change.tokenOut ? 1 : 0,
    ),
  )
  ended(store, job, row)
  return job
}
