/**
 * What the writes of a group note for a companion, in their order. A companion leads its notes
 * through the group as it is led itself: see `Companion`.
 */
export class Notes<T> {
  #all: T[] = []
  #kept = 0

  /** Of the group at work. Never emptied: `discard` begins another list. */
  get all(): readonly T[] {
    return this.#all
  }

  get isEmpty(): boolean {
    return this.#all.length === 0
  }

  add(note: T): void {
    this.#all.push(note)
  }

  keep(): void {
    this.#kept = this.#all.length
  }

  undo(): void {
    this.#all.length = this.#kept
  }

  discard(): void {
    if (this.#all.length > 0) this.#all = []
    this.#kept = 0
  }
}
