/** What a row must have to be found: first what a statement can tell, then the rest. */
import { isErased, type RowState } from '../../job/job.ts'
import {
  carryNeedle,
  envelopeNeedle,
  errorCodeOf,
  errorNeedle,
  hasError,
  hasTags,
  hasTexts,
  type JobFilter,
  meets,
  type SearchedJob,
} from '../../job/search/filter.ts'
import { comparesCode } from '../../job/search/needs.ts'

/** The short columns that a filter looks at, and those texts that were asked for; the others are null. */
export interface CheckedRow extends SearchedJob {
  seq: number
  state: RowState
  dueAt: number | null
  startedAt: number | null
  carry: string | null
  error: string | null
  envelope: string | null
}

/** What a row must have; null: anything. The texts must contain theirs unless they have a backslash. */
export interface Needles {
  workerId: string | null
  enqueuedFrom: number
  enqueuedUntil: number
  endedFrom: number | null
  endedUntil: number | null
  states: readonly string[] | null
  queues: readonly string[] | null
  priority: number | null
  carry: string | null
  error: string | null
  envelope: string | null
}

/** Which texts a `CheckedRow` comes with. */
export interface WithTexts {
  carry: boolean
  error: boolean
  envelope: boolean
}

export function needlesOf(filter: JobFilter): Needles {
  const { workerId, enqueued, ended, states, queues, priority, text } = filter
  return {
    workerId,
    enqueuedFrom: enqueued.from ?? Number.MIN_SAFE_INTEGER,
    enqueuedUntil: enqueued.until ?? Number.MAX_SAFE_INTEGER,
    endedFrom: ended.from,
    endedUntil: ended.until,
    states: states.length > 0 ? states : null,
    queues: queues.length > 0 ? queues : null,
    priority,
    carry: carryNeedle(text),
    error: errorNeedle(text),
    envelope: envelopeNeedle(text),
  }
}

/** The texts that `isMet` compares. */
export function textsOf(filter: JobFilter): WithTexts {
  const { tags, errorType, errorPattern, meta, args } = filter.text
  return {
    carry: tags.length > 0,
    error: errorType !== null || errorPattern !== null || comparesCode(filter),
    envelope: meta.length > 0 || args !== undefined,
  }
}

/**
 * Whether the row matches the whole filter, but for what its list was made of: the cron entry, the workflow.
 * Without its envelope, that is not compared.
 */
export function isMet(filter: JobFilter, row: Omit<CheckedRow, 'seq'>): boolean {
  if (isErased(row.state) || !meets(filter, row)) return false
  const { text, errorCode } = filter
  if (!hasTags(text, row.carry) || !hasError(text, row.error)) return false
  if (comparesCode(filter) && errorCodeOf(row.error) !== errorCode) return false
  return row.envelope === null || hasTexts(text, row.envelope)
}
