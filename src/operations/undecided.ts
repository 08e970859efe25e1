/** Ids of jobs that a PUSH has stored and may yet withdraw, and the requests that wait for the decision. */
export class Undecided {
  readonly #waiting = new Map<string, (() => void)[]>()

  /** Marks a stored job as undecided. Only one PUSH can have stored the id; others with it wait. */
  begin(id: string): void {
    this.#waiting.set(id, NOBODY)
  }

  /** Wakes the waiting requests: the job stays or was withdrawn. No effect for an id that is not listed. */
  end(id: string): void {
    const waiting = this.#waiting.get(id) ?? NOBODY
    this.#waiting.delete(id)
    for (const tell of waiting) tell()
  }

  has(id: string): boolean {
    return this.#waiting.has(id)
  }

  /** Resolves when the job stays or is withdrawn; at once for an id that is not listed. */
  decision(id: string): Promise<void> {
    const waiting = this.#waiting.get(id)
    if (waiting === undefined) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiting.set(id, [...waiting, resolve])
    })
  }
}

/** Shared by all ids that no request waits for, nearly all of them: no array is allocated for each. */
const NOBODY: (() => void)[] = []
