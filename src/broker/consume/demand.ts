/** How many jobs the fetches of a queue have asked for lately. */

/** Short, because what fetches ask for within it may be held while other consumers want it. */
const WINDOW_MS = 100

/** How many jobs the fetches of a queue have asked for lately. Counts in windows, so it needs no list. */
export class Demand {
  #since = Number.NEGATIVE_INFINITY
  #count = 0
  #before = 0

  asked(count: number, now: number): void {
    this.#moveOn(now)
    this.#count += count
  }

  /** What was asked for in the present window or the one before, whichever is more. */
  recent(now: number): number {
    this.#moveOn(now)
    return Math.max(this.#count, this.#before)
  }

  #moveOn(now: number): void {
    const ageMs = now - this.#since
    if (ageMs < WINDOW_MS) return
    this.#before = ageMs < 2 * WINDOW_MS ? this.#count : 0
    this.#count = 0
    this.#since = ageMs < 2 * WINDOW_MS ? this.#since + WINDOW_MS : now
  }
}
