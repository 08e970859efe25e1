/** Ids of jobs that a PUSH has stored and may yet take back, and who waits to hear which. */
export class Undecided {
  readonly #waiting = new Map<string, (() => void)[]>()

  /** Stored. It is one PUSH alone: others of the id wait for the word. */
  begin(id: string): void {
    this.#waiting.set(id, NOBODY)
  }

  /** It stays, or is taken back; or nobody was undecided. */
  end(id: string): void {
    const waiting = this.#waiting.get(id) ?? NOBODY
    this.#waiting.delete(id)
    for (const tell of waiting) tell()
  }

  has(id: string): boolean {
    return this.#waiting.has(id)
  }

  /** Resolves when it is decided. */
  decision(id: string): Promise<void> {
    const waiting = this.#waiting.get(id)
    if (waiting === undefined) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiting.set(id, [...waiting, resolve])
    })
  }
}

/** Mostly so: nothing is made for it. */
const NOBODY: (() => void)[] = []
