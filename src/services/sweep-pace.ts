const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS

interface Last {
  at: number
  gapMs: number
}

/**
 * When a queue of dead letter copies is read again: a minute after the last time, which reads all of
 * it; twice as long after each time that could not reach its end, or met a copy of a job that is under
 * way, and found nothing to remove, up to a day, because the next time would find the same.
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

  /** True when it begins to be in vain. */
  ended(queue: string, { isInVain }: { isInVain: boolean }): boolean {
    const last = this.#last.get(queue)
    if (last === undefined) return false
    const isNews = isInVain && last.gapMs === MINUTE_MS
    last.gapMs = isInVain ? Math.min(2 * last.gapMs, DAY_MS) : MINUTE_MS
    return isNews
  }
}
