/** Part of the titles of the tests of a run; `OJS_CRASH_SEED=n` repeats the run. */
export const SEED = Number(process.env['OJS_CRASH_SEED'] ?? Date.now() % 1_000_000)

/** A seeded generator (mulberry32): with the same seed, faults come at the same moments. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** From 0 up to, but not including, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** From `low` to `high`, both included. */
  integer(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1))
  }
}
