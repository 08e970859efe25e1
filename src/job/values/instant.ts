/** RFC 3339 instants, and times relative to now (`+PT5S`). */
import { echoed, invalidField } from '../../errors.ts'
import { parseDuration } from './duration.ts'

const RFC3339 =
  /^\d{4}-\d{2}-\d{2}[Tt ](?:[01]\d|2[0-3]):\d{2}:\d{2}(?:\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})$/

// RFC 3339 has years of four digits. An offset may move an instant out of these years; in UTC it could only
// be written as `+010000-…`, which no client parses.
const FIRST = Date.parse('0000-01-01T00:00:00Z')
const LAST = Date.parse('9999-12-31T23:59:59.999Z')

const BEYOND_MS = /\.\d{3}\d*[1-9]/

/** An instant as the client wrote it and as a number. */
export interface Instant {
  ms: number
  /** RFC 3339 in UTC. Verbatim when the client already wrote `…Z` (ojs-choices S20). */
  text: string
}

/**
 * Parses RFC 3339 with any offset, or a time relative to `now` as `+PT5S` (ojs-choices S19). Throws 400,
 * also for a missing offset, which would mean a different instant on every machine (seed 001 §6.3). Rounds
 * fractions of a millisecond up, so that nothing begins or ends too early.
 */
export function parseInstant(text: string, field: string, now: number): Instant {
  if (isRelative(text)) {
    const ms = now + parseDuration(text.slice(1), field)
    return { ms, text: new Date(ms).toISOString() }
  }
  const instant = rfc3339(text, roundedUp)
  if (instant !== null) return instant
  throw invalidField(
    field,
    `The '${field}' field must be an RFC 3339 timestamp with an offset, such as "2026-02-12T10:30:00Z".`,
    { expected: 'timestamp', received: echoed(text) },
  )
}

/** True for a time relative to when it is read, such as `+PT5S`. */
export function isRelative(text: string): boolean {
  return text.startsWith('+P')
}

/**
 * Parses an instant that only informs, such as one in a header or in the past of a native message. Returns
 * null if it is invalid, since a job is not refused for a value that decides nothing; also for a relative
 * time, which would depend on when the message arrived. Rounds down, unlike a deadline, so that no job is
 * younger than its first delivery.
 */
export function toldInstant(value: unknown): Instant | null {
  return typeof value === 'string' ? rfc3339(value, (ms) => ms) : null
}

/** `rounded` gets the whole milliseconds, rounded down, and the text. */
function rfc3339(text: string, rounded: (ms: number, text: string) => number): Instant | null {
  const offset = text.length <= 64 ? RFC3339.exec(text)?.[1] : undefined
  if (offset === undefined) return null
  const ms = rounded(instantOf(text.replace(' ', 'T').toUpperCase()), text)
  if (!hasRfc3339Year(ms) || !isRealDate(text)) return null
  const isPlain = offset === 'Z' && text[10] === 'T' && !isLeapSecond(text)
  return { ms, text: isPlain ? text : new Date(ms).toISOString() }
}

function isLeapSecond(text: string): boolean {
  return text.startsWith(':60', 16)
}

const DAY_MS = 86_400_000

/**
 * The Unix milliseconds of an RFC 3339 text. A leap second (RFC 3339 §5.7) is the last second of a day in
 * UTC. Unix time has no leap seconds, so it becomes the second after it, and is answered as that, because
 * hardly any client can read `:60`.
 */
function instantOf(text: string): number {
  if (!isLeapSecond(text)) return Date.parse(text)
  const ms = Date.parse(text.replace(':60', ':59')) + 1_000
  // The first leap second was in 1972, so the result must be positive.
  return ms > 0 && ms % DAY_MS < 1_000 ? ms : Number.NaN
}

/** Does not round up the last millisecond: clients write `9999-12-31T23:59:59.999999Z` for "never". */
function roundedUp(ms: number, text: string): number {
  return BEYOND_MS.test(text) && ms < LAST ? ms + 1 : ms
}

/** True if RFC 3339 can express the instant; false for `NaN`. */
export function hasRfc3339Year(ms: number): boolean {
  return ms >= FIRST && ms <= LAST
}

/** False for dates like 30 February, which `Date.parse` would silently turn into 2 March. */
function isRealDate(text: string): boolean {
  const year = Number(text.slice(0, 4))
  const month = Number(text.slice(5, 7))
  const day = Number(text.slice(8, 10))
  return day >= 1 && day <= new Date(Date.UTC(year, month, 0)).getUTCDate()
}
