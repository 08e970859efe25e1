const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS

interface Last {
  at: number
  gapMs: number
}

/**
 * Decides when a DLX queue is swept again: a minute after the last sweep, because each one reads the whole
 * queue. The interval doubles, up to a day, after each sweep in vain: one that removed nothing and either
 * could not reach the end of the queue or met the copy of a job that is not over. The next sweep would find
 * the same.
 */
export class SweepPace {
  readonly #last = new Map<string, Last>()

  /** `now`: clock time, ms. */
  isDue(queue: string, now: number): boolean {
    const last = this.#last.get(queue)
    return last === undefined || now - last.at >= last.gapMs
  }

  began(queue: string, now: number): void {
    this.#last.set(queue, { at: now, gapMs: this.#last.get(queue)?.gapMs ?? MINUTE_MS })
  }

  /** Notes the end of a sweep. Returns true for the first one of a series in vain. */
  ended(queue: string, { isInVain }: { isInVain: boolean }): boolean {
    const last = this.#last.get(queue)
    if (last === undefined) return false
    const isNews = isInVain && last.gapMs === MINUTE_MS
    last.gapMs = isInVain ? Math.min(2 * last.gapMs, DAY_MS) : MINUTE_MS
    return isNews
  }
}
