const WINDOW_MS = 10_000
const MAX_LINES = 10

/** Log lines that strangers can cause: ten in ten seconds; who causes a million gets no more. */
export class LineBudget {
  #since = Number.NEGATIVE_INFINITY
  #lines = 0
  #suppressed = 0

  /** Undefined: not this line. Else the fields for it: how many there were that are not shown. */
  take(now: number): { suppressed?: number } | undefined {
    if (now - this.#since > WINDOW_MS) {
      this.#since = now
      this.#lines = 0
    }
    this.#lines += 1
    if (this.#lines > MAX_LINES) {
      this.#suppressed += 1
      return undefined
    }
    const fields = this.#suppressed === 0 ? {} : { suppressed: this.#suppressed }
    this.#suppressed = 0
    return fields
  }
}
