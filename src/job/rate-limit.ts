/** The rate limit in a job's body: how often jobs of its queue may start. */
import { membersOf } from './values/json-value.ts'
import { MAX_TYPE } from './values/limits.ts'

/** How often jobs of one queue that have a limit may be started (ojs-choices S31). */
export interface JobRateLimit {
  /** The queue. Its jobs share the starts, whatever their types; each is held to its own limit. */
  key: string
  /** At most this many starts … */
  starts: number
  /** … within any window of this length. */
  windowMs: number
}

const SECOND_MS = 1_000
/** A rate below one start per hour counts as one start per hour. */
const MAX_WINDOW_MS = 3_600_000
/** A higher rate per second counts as no limit: the gateway cannot start so many. */
const MAX_STARTS = 1_000_000

/**
 * Reads the rate limit from a job's body, in the gateway's own form or a native producer's; null: none. A
 * fraction becomes a window of another length: 2.5 per second are 2 within 800 ms.
 */
export function rateLimitOf(body: unknown, queue: string): JobRateLimit | null {
  const { type, rate_limit: outer, options } = membersOf(body)
  // The claim refuses a job without a valid type, so it uses up no start.
  if (typeof type !== 'string' || type.length > MAX_TYPE) return null
  const inner = membersOf(options)['rate_limit']
  const { max_per_second: rate } = membersOf(inner ?? outer)
  if (typeof rate !== 'number' || !(rate > 0) || rate > MAX_STARTS) return null
  const starts = Math.max(1, Math.floor(rate))
  const windowMs = Math.min((starts / rate) * SECOND_MS, MAX_WINDOW_MS)
  return { key: queue, starts, windowMs }
}
