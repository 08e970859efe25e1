/** When a natively scheduled job is due, by the headers of its message. */
import { echoed, invalidField } from '../../errors.ts'
import { MAX_DURATION_MS } from '../values/duration.ts'
import { parseInstant, toldInstant } from '../values/instant.ts'

const DELAY = 'x-delay'
const SCHEDULED_AT = 'x-ojs-scheduled-at'

/**
 * Returns when a job that was published to `ojs.exchange.delayed` is due (wall time, ms), by its headers:
 * `x-delay` in milliseconds from `wall` on (seed 002 §9.1.2), else `x-ojs-scheduled-at` (§6.2); null if
 * there is neither. Throws `OjsError` 400 for a header that names no time, as running the job at once might
 * be too early.
 */
export function nativeDueAt(
  headers: Readonly<Record<string, unknown>>,
  wall: number,
): number | null {
  const delay = headers[DELAY]
  if (delay !== undefined) return wall + delayMs(delay)
  const at = headers[SCHEDULED_AT]
  if (at === undefined) return null
  if (typeof at === 'string') return parseInstant(at, SCHEDULED_AT, wall).ms
  throw invalidField(SCHEDULED_AT, `The header '${SCHEDULED_AT}' must be an RFC 3339 timestamp.`)
}

/**
 * The schedule of a message that came by its job queue, where messages are due: only the first attempt waits for a
 * time. A header that names none is ignored, as other headers are.
 */
export function earlySchedule(
  attempt: number,
  headers: Readonly<Record<string, unknown>>,
): { dueAt: number | null } | undefined {
  return attempt > 1 ? undefined : { dueAt: toldInstant(headers[SCHEDULED_AT])?.ms ?? null }
}

/**
 * Reads `x-delay`: any numeric type, or digits as text, since some clients send every header as text. A
 * negative delay is over already. A fraction is rounded up, so that the job is never early.
 */
function delayMs(value: unknown): number {
  const isDigits = typeof value === 'string' && /^-?\d{1,15}$/.test(value)
  const ms = typeof value === 'number' || isDigits ? Math.ceil(Number(value)) : Number.NaN
  if (Number.isFinite(ms) && ms <= MAX_DURATION_MS) return Math.max(ms, 0)
  throw invalidField(DELAY, `The header '${DELAY}' must be a number of milliseconds.`, {
    expected: 'milliseconds',
    // `String(value)` could throw: an AMQP table may have a member `toString` that is no function.
    received: typeof value === 'string' ? echoed(value) : typeof value,
  })
}
