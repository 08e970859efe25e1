/** The entries of a job's `errors`, one for each failed attempt. */
import { timestamp } from '../document.ts'
import type { JobRow } from '../job.ts'
import { cut, utf8Bytes } from '../values/limits.ts'

/** Why an attempt failed, bounded in size: the `error` of a job (OJS retry). */
export interface Failure {
  code: string
  type: string
  message: string
  retryable: boolean
  details?: Record<string, unknown>
  backtrace?: unknown
}

/** One entry of a job's `errors` (OJS retry); the time has two names (C-84). */
export interface ErrorEntry extends Failure {
  attempt: number
  occurred_at: string
  timestamp: string
}

/** Makes an entry of `errors`. `now`: milliseconds since the Unix epoch. */
export function errorEntry(attempt: number, failure: Failure, now: number): ErrorEntry {
  const { code, type, message, retryable, ...context } = failure
  const at = timestamp(now)
  return { attempt, code, type, message, retryable, occurred_at: at, timestamp: at, ...context }
}

/** The code of an attempt that ended without a report of its worker. */
export const UNREPORTED = 'unreported'

/** The code of an attempt whose lease ran out: its worker was silent, and may still report. */
export const SILENT = 'visibility_timeout'

/** The code of an attempt whose worker was silent and has been taken off the list of workers. */
export const DEAD_WORKER = 'worker_death'

/**
 * Codes of failures that were recorded without the worker's own error, among them the rejection by a native
 * worker, for which RabbitMQ gives no reason (`job/dead-letter.ts`).
 */
const WORDLESS: ReadonlySet<string> = new Set([UNREPORTED, SILENT, DEAD_WORKER, 'rejected'])

/** The newest entries that `errors` keeps (OJS core: at least 10). */
const MAX_ERRORS = 50

/** Limit on all of `errors`: every answer carries it, so 50 stack traces of 64 KiB would be too much. */
const MAX_HISTORY_BYTES = 262_144

/** Messages of entries that lose details and backtrace are cut to this. */
const SLIM_MESSAGE = 500

/**
 * Appends entries to `errors`, oldest first; JSON texts. Keeps the newest 50. If all together are too large,
 * the older ones first lose details and backtrace, then are dropped.
 */
export function appendErrors(errors: string | null, entries: readonly ErrorEntry[]): string {
  return packed([...entriesOf(errors), ...entries])
}

/**
 * The entry of `errors` for the row's current attempt, recorded when the attempt seemed to have ended. Null
 * if there is none. An entry with the same number from an earlier generation does not count; it is recognised
 * by `error`, which is null at the start of a generation.
 */
export function recordedOf({
  attempt,
  error,
  errors,
}: Pick<JobRow, 'attempt' | 'error' | 'errors'>): ErrorEntry | null {
  const newest = error === null ? undefined : entriesOf(errors).at(-1)
  return newest?.attempt === attempt ? newest : null
}

/** Replaces the newest entry of `errors`; JSON texts. */
export function replaceNewest(errors: string | null, entry: ErrorEntry): string {
  return packed([...entriesOf(errors).slice(0, -1), entry])
}

/**
 * Puts a worker's late error into `errors`, in the place of the entry that was recorded without one. JSON
 * texts. `isLast`: it is the newest entry. Returns null if the attempt already has its worker's error, or no
 * entry.
 */
export function fillInError(
  errors: string | null,
  entry: ErrorEntry,
): { errors: string; isLast: boolean } | null {
  const known = entriesOf(errors)
  // The last match: an earlier generation of the job may have an attempt of the same number.
  const place = known.findLastIndex(({ attempt }) => attempt === entry.attempt)
  if (!WORDLESS.has(known[place]?.code ?? '')) return null
  known[place] = entry
  return { errors: packed(known), isLast: place === known.length - 1 }
}

function entriesOf(errors: string | null): ErrorEntry[] {
  return errors === null ? [] : (JSON.parse(errors) as ErrorEntry[])
}

/** Serialises the entries within the limits; keeps the newest ones. */
function packed(entries: readonly ErrorEntry[]): string {
  const kept: string[] = []
  let room = MAX_HISTORY_BYTES - '[]'.length
  for (const entry of entries.slice(-MAX_ERRORS).reverse()) {
    const text = textWithin(entry, room)
    if (text === null) break
    kept.push(text)
    room -= utf8Bytes(text) + ','.length
  }
  return `[${kept.reverse().join(',')}]`
}

function textWithin(entry: ErrorEntry, room: number): string | null {
  const full = JSON.stringify(entry)
  if (utf8Bytes(full) <= room) return full
  const { details: _details, backtrace: _backtrace, ...facts } = entry
  const slim = JSON.stringify({ ...facts, message: cut(facts.message, SLIM_MESSAGE) })
  return utf8Bytes(slim) <= room ? slim : null
}
