import { MAX_DELAY_MS } from './pause.ts'

/**
 * A `timeout` as `setTimeout` takes it, in milliseconds; `Infinity` stays: none. Throws `TypeError`
 * for what is no time.
 */
export function timeLimit(timeout: number | undefined, fallback: number): number {
  if (timeout === undefined) return fallback
  if (typeof timeout !== 'number' || !(timeout >= 0)) {
    throw new TypeError('timeout must be milliseconds from 0; Infinity: no limit.')
  }
  return timeout === Number.POSITIVE_INFINITY ? timeout : Math.min(timeout, MAX_DELAY_MS)
}
