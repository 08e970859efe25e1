const MAX_IDS = 10_000

/** Whose publish was not answered. Beyond `MAX_IDS` everybody is unsure. */
export class UnsureTokens {
  readonly #ids = new Set<string>()
  #isFull = false

  add(id: string): void {
    if (this.#ids.size < MAX_IDS) this.#ids.add(id)
    else this.#isFull = true
  }

  /** Its row says so by now, or will. */
  confirmed(id: string): void {
    this.#ids.delete(id)
  }

  has(id: string): boolean {
    return this.#isFull || this.#ids.has(id)
  }
}
