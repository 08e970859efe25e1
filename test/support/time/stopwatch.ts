const TICK_MS = 20

/**
 * For the few tests whose subject is time. A shared machine stops all of its processes for seconds now and
 * then. Ticks that come late show that, and the time is not counted.
 */
export class Stopwatch {
  readonly #startedAt = performance.now()
  readonly #timer = setInterval(() => this.#tick(), TICK_MS).unref()
  #tickedAt = this.#startedAt
  #stoppedMs = 0

  /** Time since the start, without the time in which this process was stopped. */
  get elapsedMs(): number {
    this.#tick()
    return performance.now() - this.#startedAt - this.#stoppedMs
  }

  /** For how long this process was stopped since the start. */
  get stoppedMs(): number {
    this.#tick()
    return this.#stoppedMs
  }

  end(): void {
    clearInterval(this.#timer)
  }

  #tick(): void {
    const now = performance.now()
    const lateMs = now - this.#tickedAt - TICK_MS
    if (lateMs > TICK_MS) this.#stoppedMs += lateMs
    this.#tickedAt = now
  }
}

/** The least of up to three measurements: what is slow each time is not the fault of the machine. */
export async function leastOfThree(measure: () => Promise<number>, bound: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let i = 0; i < 3 && least >= bound; i++) least = Math.min(least, await measure())
  return least
}
