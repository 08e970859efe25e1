/** Stores the job of a message whose id the ledger does not know. */
import { OjsError } from '../../../errors.ts'
import { attemptsExhausted } from '../../../job/dead-letter.ts'
import { allowedAttempts } from '../../../job/job.ts'
import { recordSkipped } from '../../../job/retry/failure.ts'
import type { Change } from '../../../job/transitions/row.ts'
import type { AdoptableMessage } from '../../leases.ts'
import { readBody } from '../../writes/adopted-body.ts'
import type { Draft } from '../group/draft.ts'
import { insertJob } from './insert.ts'

/** As if it had been waiting for exactly this message. Null: stored. */
export function adoptJob(draft: Draft, message: AdoptableMessage, now: number): OjsError | null {
  const job = readBody(message)
  if (job instanceof OjsError) return job
  const { generation, attempt } = message
  // The job was enqueued before the gateway saw it; at most `now`, as the publisher's clock may be ahead.
  const enqueuedAt = Math.min(now, job.enqueuedAt ?? job.createdAt)
  const life = { now, enqueuedAt, generation, attempt: attempt - 1, outbox: null }
  const row = insertJob(draft, job, { ...life, cause: { reason: 'adopted' } })
  if (attempt > 1 && row !== null) draft.change(row, before(message, allowedAttempts(job), now))
  return null
}

/**
 * The error that the job message reports of the attempt before it. If it reports none, and its own attempt is
 * beyond the last: that no attempt is left.
 */
function before(
  { attempt, reportedError }: AdoptableMessage,
  allowed: number,
  now: number,
): Change {
  const reported = reportedError?.() ?? null
  if (reported !== null) {
    const last = { attempt: attempt - 1, error: null, errors: null }
    const { error, errors } = recordSkipped(last, [last.attempt], reported, now)
    return { error, errors }
  }
  return attempt > allowed ? { error: attemptsExhausted(attempt, allowed) } : {}
}
