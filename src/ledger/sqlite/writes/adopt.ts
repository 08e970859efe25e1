/** Stores the job of a message whose id the ledger does not know. */
import { OjsError } from '../../../errors.ts'
import { attemptsExhausted } from '../../../job/dead-letter.ts'
import { allowedAttempts, type NewJob } from '../../../job/job.ts'
import { recordSkipped } from '../../../job/retry/failure.ts'
import type { AdoptableMessage } from '../../leases.ts'
import { readBody } from '../../writes/adopted-body.ts'
import type { Store } from '../state/store.ts'
import { insertJob } from './insert.ts'

/**
 * Adopts the job of an unknown job message: it was published natively, or this ledger has lost it. It is
 * stored as if it had been waiting for exactly this message.
 */
export function adoptJob(
  store: Store,
  jobMessage: AdoptableMessage,
  now: number,
): NewJob | OjsError {
  const job = readBody(jobMessage)
  if (job instanceof OjsError) return job
  const { generation, attempt } = jobMessage
  // The job was enqueued before the gateway saw it; at most `now`, as the publisher's clock may be ahead.
  const enqueuedAt = Math.min(now, job.enqueuedAt ?? job.createdAt)
  const life = { now, enqueuedAt, generation, attempt: attempt - 1, outbox: null }
  insertJob(store, job, { ...life, cause: { reason: 'adopted' } })
  if (attempt > 1) noteBefore(store, jobMessage, allowedAttempts(job), now)
  return job
}

/**
 * Records the error that the job message reports of the attempt before it. If it reports none, and its own
 * attempt is beyond the last, records that no attempt is left.
 */
function noteBefore(
  store: Store,
  jobMessage: AdoptableMessage,
  allowed: number,
  now: number,
): void {
  const { id, attempt, reportedError } = jobMessage
  const reported = reportedError?.() ?? null
  if (reported !== null) {
    const before = { attempt: attempt - 1, error: null, errors: null }
    const { error, errors } = recordSkipped(before, [before.attempt], reported, now)
    store.statements.noteErrors.run(id, error, errors)
  } else if (attempt > allowed) {
    store.statements.noteErrors.run(id, attemptsExhausted(attempt, allowed), null)
  }
}
