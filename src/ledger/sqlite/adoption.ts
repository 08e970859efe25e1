import { OjsError } from '../../errors.ts'
import { type ArrivingToken, type ReportedError, recordSkipped } from '../../job/arrival.ts'
import { attemptsExhausted } from '../../job/dead-letter.ts'
import { allowedAttempts, type NewJob } from '../../job/job.ts'
import { insertJob, type Store } from './store.ts'

/** A token of an id that this ledger does not know. */
export interface UnknownToken extends ArrivingToken {
  id: string
  adopt(): NewJob
  /** What its headers say of the attempt before (seed 002 §8.3). */
  reportedError?(): ReportedError | null
}

/**
 * An unknown id: a job published natively, or one that this ledger has lost. It is stored as if it
 * had been waiting for exactly this token.
 */
export function adoptJob(store: Store, token: UnknownToken, now: number): NewJob | OjsError {
  const job = readBody(token)
  if (job instanceof OjsError) return job
  const { generation, attempt } = token
  // It was in its queue before anybody here knew of it; a publisher's clock may be ahead.
  const enqueuedAt = Math.min(now, job.enqueuedAt ?? job.createdAt)
  insertJob(store, job, { now, enqueuedAt, generation, attempt: attempt - 1, outbox: null })
  if (attempt > 1) noteBefore(store, token, allowedAttempts(job), now)
  return job
}

/** What is known of the attempt before; else why there can be no other, where it was the last. */
function noteBefore(store: Store, token: UnknownToken, allowed: number, now: number): void {
  const { id, attempt, reportedError } = token
  const reported = reportedError?.() ?? null
  if (reported !== null) {
    const { errors, last } = recordSkipped(null, [attempt - 1], reported, now)
    store.statements.noteErrors.run(id, last, errors)
  } else if (attempt > allowed) {
    store.statements.noteErrors.run(id, attemptsExhausted(attempt, allowed), null)
  }
}

function readBody(token: UnknownToken): NewJob | OjsError {
  try {
    const job = token.adopt()
    if (job.id === token.id) return job
    return new OjsError('invalid_request', `The body names another id than the token.`)
  } catch (error) {
    if (error instanceof OjsError) return error
    // Whatever it is, it is about this message: thrown on, it would fail every write beside it, and
    // again the next time.
    return new OjsError('invalid_request', 'The body cannot be read as a job.', { cause: error })
  }
}
