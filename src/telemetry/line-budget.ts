/** A limit for log lines that any client can cause. */

const WINDOW_MS = 10_000
const MAX_LINES = 10

/** Limits log lines that any client can cause to ten in ten seconds, even if a million are caused. */
export class LineBudget {
  readonly #tellRest: (suppressed: number) => void
  #since = Number.NEGATIVE_INFINITY
  #lines = 0
  #suppressed = 0
  #timer: NodeJS.Timeout | undefined

  /**
   * `tellRest` is called at the end of the ten seconds with the number of suppressed lines, unless a later
   * line has told it.
   */
  constructor(tellRest: (suppressed: number) => void) {
    this.#tellRest = tellRest
  }

  /** Undefined: do not log this line. Otherwise the fields to add: how many before it were suppressed. */
  take(now: number): { suppressed?: number } | undefined {
    if (now - this.#since >= WINDOW_MS) {
      this.#since = now
      this.#lines = 0
    }
    this.#lines += 1
    if (this.#lines > MAX_LINES) {
      this.#suppressed += 1
      this.#timer ??= this.#endIn(this.#since + WINDOW_MS - now)
      return undefined
    }
    const suppressed = this.#takeSuppressed()
    return suppressed === 0 ? {} : { suppressed }
  }

  #endIn(delayMs: number): NodeJS.Timeout {
    const end = () => {
      this.#timer = undefined
      const suppressed = this.#takeSuppressed()
      if (suppressed > 0) this.#tellRest(suppressed)
    }
    return setTimeout(end, delayMs).unref()
  }

  #takeSuppressed(): number {
    const suppressed = this.#suppressed
    this.#suppressed = 0
    return suppressed
  }
}
