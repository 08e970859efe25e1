/** The columns of a job, as statements select them and as a `JobRow`. */
import type { Carry, JobRow, JobStanding } from '../../../job/job.ts'

/**
 * The short columns of a job, for SELECT and RETURNING: one JSON object with the names of `JobRow`. That is a
 * third faster than 35 columns one by one, and every row object has the same shape. The long texts are
 * selected beside it, so that they are not escaped and unescaped. So is `carry`, because the producer decides
 * how deep it is nested, and SQLite's JSON functions have a depth limit.
 */
const SHORT = `json_object(
  'id', id, 'generation', generation, 'state', state, 'attempt', attempt, 'queue', queue,
  'type', type, 'priority', priority, 'maxAttempts', max_attempts,
  'visibilityTimeoutMs', visibility_timeout_ms, 'timeoutMs', timeout_ms, 'outbox', outbox,
  'messageOut', json(iif(token_out, 'true', 'false')), 'holder', holder, 'workerId', worker_id,
  'leaseMs', lease_ms, 'leaseExpiresAt', lease_expires_at, 'timeoutAt', timeout_at,
  'dueAt', due_at, 'retryQueueMs', rung_ms, 'retryDelayMs', retry_delay_ms, 'expiresAt', expires_at,
  'createdAt', created_at, 'enqueuedAt', enqueued_at, 'activatedAt', activated_at,
  'startedAt', started_at, 'completedAt', completed_at, 'cancelledAt', cancelled_at,
  'discardedAt', discarded_at, 'isDeadLetter', json(iif(dead_letter, 'true', 'false')),
  'deadLetterCopied', json(iif(dead_letter_copied, 'true', 'false'))
) AS short`

export const JOB_COLUMNS = `${SHORT}, carry, error, errors, result, envelope`
/** Without the texts that may be megabytes. These columns come first in the table, so no text is read. */
export const STANDING_COLUMNS = SHORT

type LongTexts = Pick<JobRow, 'error' | 'errors' | 'result' | 'envelope'>

/** As `STANDING_COLUMNS` selects it. */
export interface RawStanding {
  short: string
}

/** As `JOB_COLUMNS` selects it. */
export type RawRow = RawStanding & LongTexts & { carry: string | null }

/** A row as `JOB_COLUMNS` selects it; null for no row. */
export function toJobRow(raw: RawRow | undefined): JobRow | null {
  if (raw === undefined) return null
  const { short, carry, error, errors, result, envelope } = raw
  // Assigned one by one, which spares a temporary object for every row.
  const row = JSON.parse(short) as JobRow
  row.carry = carry === null ? null : (JSON.parse(carry) as Carry)
  row.error = error
  row.errors = errors
  row.result = result
  row.envelope = envelope
  return row
}

/** The row that a statement changed or read. Throws if there is none: the transaction has just read it. */
export function changed(raw: RawRow | undefined): JobRow {
  const row = toJobRow(raw)
  if (!row) throw new Error('a row changed inside its own transaction')
  return row
}

/** A row as `STANDING_COLUMNS` selects it; null for no row. */
export function toStanding(raw: RawStanding | undefined): JobStanding | null {
  return raw === undefined ? null : (JSON.parse(raw.short) as JobStanding)
}

/** The rows of a SELECT of `JOB_COLUMNS`. */
export function toJobRows(raw: readonly RawRow[]): JobRow[] {
  return raw.map(toJobRow).filter((row) => row !== null)
}
