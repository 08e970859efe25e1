/** Wakes the service that runs operations on many jobs, and lets requests wait for their ends. */
export class BulkSignals {
  #wake: () => void = () => {}
  readonly #waiting = new Map<string, Set<() => void>>()

  /** `wake`: called when an operation has begun. */
  onBegin(wake: () => void): void {
    this.#wake = wake
  }

  began(): void {
    this.#wake()
  }

  ended(id: string): void {
    for (const tell of this.#waiting.get(id) ?? []) tell()
  }

  /** Resolves when the operation has ended, or after `ms`. To be called before it can end. */
  untilEnded(id: string, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const waiters = this.#waiting.get(id) ?? new Set()
      const done = () => {
        clearTimeout(timer)
        waiters.delete(done)
        if (waiters.size === 0) this.#waiting.delete(id)
        resolve()
      }
      const timer = setTimeout(done, ms).unref()
      this.#waiting.set(id, waiters.add(done))
    })
  }
}
