/** Ids that somebody has in hand; several may have the same one at a time, each for a while of his own. */
export class InHand {
  readonly #times = new Map<string, number>()

  /** Of different ids. */
  get size(): number {
    return this.#times.size
  }

  add(id: string): void {
    this.#times.set(id, (this.#times.get(id) ?? 0) + 1)
  }

  /** By one of those who had it. */
  delete(id: string): void {
    const times = this.#times.get(id) ?? 0
    if (times > 1) this.#times.set(id, times - 1)
    else this.#times.delete(id)
  }

  has(id: string): boolean {
    return this.#times.has(id)
  }

  [Symbol.iterator](): IterableIterator<string> {
    return this.#times.keys()
  }
}
