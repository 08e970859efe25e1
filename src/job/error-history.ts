import { timestamp } from './document.ts'
import type { JobRow } from './job.ts'
import { cut, utf8Bytes } from './text-size.ts'

/** How an attempt ended badly, bounded in size: what `error` of a job keeps (ojs-digest §3.4). */
export interface Failure {
  code: string
  type: string
  message: string
  retryable: boolean
  details?: Record<string, unknown>
  backtrace?: unknown
}

/** One entry of a job's `errors` (ojs-digest §3.4, C-84: both names of the time). */
export interface ErrorEntry extends Failure {
  attempt: number
  occurred_at: string
  timestamp: string
}

/** `now` in milliseconds since the Unix epoch. */
export function errorEntry(attempt: number, failure: Failure, now: number): ErrorEntry {
  const { code, type, message, retryable, ...context } = failure
  const at = timestamp(now)
  return { attempt, code, type, message, retryable, occurred_at: at, timestamp: at, ...context }
}

/** The code of an attempt that ended without a word of its worker. */
export const UNREPORTED = 'unreported'

/** The code of an attempt whose lease ran out: its worker was silent, and may be heard of again. */
export const SILENT = 'visibility_timeout'

/** Nor does RabbitMQ say why a native worker has rejected a job (`job/dead-letter.ts`). */
const WORDLESS: ReadonlySet<string> = new Set([UNREPORTED, SILENT, 'rejected'])

/** The newest entries that `errors` keeps (ojs-digest §2.3: at least 10). */
const MAX_ERRORS = 50

/** All of `errors`. Every answer carries it, so 50 stack traces of 64 KiB must not pile up. */
const MAX_HISTORY_BYTES = 262_144

/** What is left of a message when even that is too much. */
const SLIM_MESSAGE = 500

/**
 * `errors` with the entries at its end, oldest first; JSON texts. Newest 50; where all together are
 * too large, the older ones lose details and backtrace first, then they go.
 */
export function appendErrors(errors: string | null, entries: readonly ErrorEntry[]): string {
  return packed([...entriesOf(errors), ...entries])
}

/**
 * What was recorded of the attempt that `row` counts, when it was taken for over. Null: nothing, or only
 * of an attempt of the same number in an earlier life, which leaves no `error` behind.
 */
export function recordedOf({
  attempt,
  error,
  errors,
}: Pick<JobRow, 'attempt' | 'error' | 'errors'>): ErrorEntry | null {
  const newest = error === null ? undefined : entriesOf(errors).at(-1)
  return newest?.attempt === attempt ? newest : null
}

/** `errors` with another word in the place of the newest entry; JSON texts. */
export function replaceNewest(errors: string | null, entry: ErrorEntry): string {
  return packed([...entriesOf(errors).slice(0, -1), entry])
}

/**
 * `errors` with the late word on an attempt that was recorded without one; `isLast`: that is the
 * newest entry. JSON texts. Null where the attempt has an error of its own, or none is recorded.
 */
export function fillInError(
  errors: string | null,
  entry: ErrorEntry,
): { errors: string; isLast: boolean } | null {
  const known = entriesOf(errors)
  // The last: an earlier life of the job has had such an attempt, too.
  const place = known.findLastIndex(({ attempt }) => attempt === entry.attempt)
  if (!WORDLESS.has(known[place]?.code ?? '')) return null
  known[place] = entry
  return { errors: packed(known), isLast: place === known.length - 1 }
}

function entriesOf(errors: string | null): ErrorEntry[] {
  return errors === null ? [] : (JSON.parse(errors) as ErrorEntry[])
}

/** Within the bounds, the newest first to be kept. */
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
