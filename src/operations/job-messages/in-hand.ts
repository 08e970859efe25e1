/** A multiset of job ids that are being worked on: an id stays in until each `add` has had its `delete`. */
export class InHand {
  readonly #times = new Map<string, number>()

  /** Number of different ids. */
  get size(): number {
    return this.#times.size
  }

  add(id: string): void {
    this.#times.set(id, (this.#times.get(id) ?? 0) + 1)
  }

  /** Undoes one `add`. */
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
