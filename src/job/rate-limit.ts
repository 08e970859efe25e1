import { membersOf } from './json-value.ts'
import { MAX_TYPE } from './text-size.ts'

/** How often jobs of one kind may be started (conformance.md S31). */
export interface JobRateLimit {
  /** Jobs with the same key share the limit: those of one type in one queue. */
  key: string
  /** At most so many … */
  starts: number
  /** … within any so many milliseconds. */
  windowMs: number
}

const SECOND_MS = 1_000
/** A limit below one start per hour counts as that. */
const MAX_WINDOW_MS = 3_600_000
/** More than that cannot be started in a second: no limit. */
const MAX_STARTS = 1_000_000

/**
 * The limit that a job's body asks for, of our own form or a native producer's; null: none. A
 * fraction is kept by a window of another length: 2.5 per second are 2 within 800 ms.
 */
export function rateLimitOf(body: unknown, queue: string): JobRateLimit | null {
  const { type, rate_limit: outer, options } = membersOf(body)
  // No type, and the claim refuses the job: not a key to keep.
  if (typeof type !== 'string' || type.length > MAX_TYPE) return null
  const inner = membersOf(options)['rate_limit']
  const { max_per_second: rate } = membersOf(inner ?? outer)
  if (typeof rate !== 'number' || !(rate > 0) || rate > MAX_STARTS) return null
  const starts = Math.max(1, Math.floor(rate))
  const windowMs = Math.min((starts / rate) * SECOND_MS, MAX_WINDOW_MS)
  return { key: `${queue} ${type}`, starts, windowMs }
}
