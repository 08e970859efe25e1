import { MAX_DELAY_MS } from './sleep.ts'

/**
 * The time limit in milliseconds, no longer than `setTimeout` allows. `Infinity`: no limit, which 0 means as
 * well, as in all options. Throws `TypeError` for anything else.
 */
export function timeLimit(timeout: number | undefined, fallback: number): number {
  if (timeout === undefined) return fallback
  if (typeof timeout !== 'number' || !(timeout >= 0)) {
    throw new TypeError('timeout must be a number of milliseconds; 0 or Infinity means no limit.')
  }
  if (timeout === 0 || timeout === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY
  return Math.min(timeout, MAX_DELAY_MS)
}
