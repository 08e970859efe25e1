/**
 * What the writes of a group note for a companion, in order. The companion passes its own calls of `keep`,
 * `undo` and `discard` on to its notes: see `Companion`.
 */
export class Notes<T> {
  #all: T[] = []
  #kept = 0

  /** The notes of the current group. The array is never emptied: `discard` begins a new one. */
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
