import { echoed, invalidField } from '../errors.ts'
import { MAX_DURATION_MS } from './duration.ts'
import { parseInstant } from './instant.ts'

const DELAY = 'x-delay'
const SCHEDULED_AT = 'x-ojs-scheduled-at'

/**
 * When a job that was published to `ojs.exchange.delayed` is due (wall time, ms), by its headers:
 * `x-delay` in milliseconds from `wall` on (seed 002 §9.1.2), else `x-ojs-scheduled-at` (§6.2). Null:
 * neither is there. What is there and says no time is an error, `OjsError` 400: to run such a job at
 * once would be early.
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
 * Clients send any width of integer, and some every header as text. Below 0 is a time that has
 * passed. A float is a client's rounding; up is the direction that is never early.
 */
function delayMs(value: unknown): number {
  const isDigits = typeof value === 'string' && /^-?\d{1,15}$/.test(value)
  const ms = typeof value === 'number' || isDigits ? Math.ceil(Number(value)) : Number.NaN
  if (Number.isFinite(ms) && ms <= MAX_DURATION_MS) return Math.max(ms, 0)
  throw invalidField(DELAY, `The header '${DELAY}' must be a number of milliseconds.`, {
    expected: 'milliseconds',
    // A table may have a `toString` of its own, which is none.
    received: typeof value === 'string' ? echoed(value) : typeof value,
  })
}
