/** Jobs that are discarded without the report of a failure: what their rows become. */
import { EXPIRED } from '../dead-letter.ts'
import type { Cause } from '../history/changes.ts'
import type { JobRow } from '../job.ts'
import { type ReportedError, recordSkipped } from '../retry/failure.ts'
import { isListedWhenExpired, retryPolicyOf } from '../retry/retry-policy.ts'
import type { Discard } from './end.ts'

/** A discard, and why. */
export type Discarding = Discard & { cause: Cause }

/** Its `expires_at` has passed. No copy in the DLX queue is owed. */
export function expiring(row: JobRow, messageOut: boolean, cause: Cause = {}): Discarding {
  const { errors, attempt } = row
  const isDeadLetter = isListedWhenExpired(retryPolicyOf(row))
  const ends = { completedAt: null, deadLetterCopied: true, isDeadLetter, messageOut }
  return { error: EXPIRED, errors, attempt, ...ends, cause: { ...cause, reason: 'expired' } }
}

/** A message has come, and no attempt is left. The copy in the DLX queue is owed. */
export function exhausting(
  row: JobRow,
  skipped: readonly number[],
  reported: ReportedError | null,
  now: number,
): Discarding {
  return {
    ...recordSkipped(row, skipped, reported, now),
    // Attempts that no worker reported were made all the same.
    attempt: Math.max(row.attempt, skipped.at(-1) ?? 0),
    completedAt: now,
    deadLetterCopied: false,
    isDeadLetter: retryPolicyOf(row).onExhaustion !== 'discard',
    messageOut: true,
    cause: { reason: 'attempts_exhausted' },
  }
}

/** RabbitMQ has dead-lettered its message, and `record` says what that was. */
export function dying(
  { attempt, isExpired }: { attempt: number; isExpired: boolean },
  row: Pick<JobRow, 'attempt'>,
  { error, errors, isDeadLetter }: Pick<JobRow, 'error' | 'errors' | 'isDeadLetter'>,
  now: number,
): Discarding {
  return {
    ...{ error, errors, isDeadLetter },
    // The job message of a native worker keeps its number through later attempts, so it may be behind the
    // row.
    attempt: isExpired ? row.attempt : Math.max(attempt, row.attempt),
    completedAt: isExpired ? null : now,
    deadLetterCopied: true,
    messageOut: false,
    cause: { reason: 'dead_lettered' },
  }
}
