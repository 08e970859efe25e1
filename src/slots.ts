/** Bounds how many works of a kind are under way at a time. */
export class Slots {
  readonly #count: number
  readonly #patienceMs: number
  #taken = 0
  readonly #line: (() => void)[] = []

  /**
   * `patienceMs`: a work that takes longer gives up its slot and goes on, so that works that wait for an
   * answer that may never come hold up no others. Default: it keeps the slot until it ends.
   */
  constructor(count: number, patienceMs = Number.POSITIVE_INFINITY) {
    this.#count = count
    this.#patienceMs = patienceMs
  }

  /** Begins at once if there is room, else in the order of the calls. Settles as `work` does. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#taken < this.#count) this.#taken += 1
    else await new Promise<void>((resolve) => this.#line.push(resolve))
    const release = this.#releaseOnce()
    const timer = Number.isFinite(this.#patienceMs)
      ? setTimeout(release, this.#patienceMs).unref()
      : undefined
    try {
      return await work()
    } finally {
      clearTimeout(timer)
      release()
    }
  }

  /** The slot passes to the first in line, who finds it taken already. */
  #releaseOnce(): () => void {
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      const next = this.#line.shift()
      if (next === undefined) this.#taken -= 1
      else next()
    }
  }
}
