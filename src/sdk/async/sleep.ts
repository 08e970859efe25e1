/** A sleep that can be ended early, and time limits that `setTimeout` can keep. */

/** The longest delay that `setTimeout` supports; with a longer one it would fire at once. */
export const MAX_DELAY_MS = 2 ** 31 - 1

/** A sleep that can be ended early. Only one caller may sleep at a time. */
export class Pause {
  #wake: (() => void) | undefined

  /** Resolves after `ms`, or when `wake` is called. `Infinity`: only when `wake` is called. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer =
        ms === Number.POSITIVE_INFINITY
          ? undefined
          : setTimeout(() => this.wake(), Math.min(Math.max(0, ms), MAX_DELAY_MS))
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  /** Ends the sleep. No effect if nobody sleeps. */
  wake(): void {
    const wake = this.#wake
    this.#wake = undefined
    wake?.()
  }
}

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
