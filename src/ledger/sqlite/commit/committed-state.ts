/** State in memory that commits and rolls back with the group. */

/**
 * State that is kept in memory beside the rows. `GroupCommit` takes every committed state through each
 * transaction, so that memory changes with the commit and only with it: it is never ahead of the file.
 */
export interface CommittedState {
  /** A write of the group has succeeded: its notes stay. */
  keep(): void
  /** A write has failed: notes since the last `keep` are dropped. */
  undo(): void
  /** Writes the committed state's own rows, inside the group's transaction. */
  store(): void
  /** The group is committed: its notes become the state that readers see. */
  commit(): void
  /** The group is rolled back: all its notes are dropped. */
  discard(): void
}

/**
 * What the writes of a group note for a committed state, in order. `keep`, `undo` and `discard` are those of
 * `CommittedState`.
 */
class Notes<T> {
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

/**
 * A committed state whose writes only take notes, `T`. A group that noted nothing costs it no work. A subclass
 * that prepares its next state in `store` drops that too in `discard`.
 */
export abstract class NotedState<T> implements CommittedState {
  protected readonly notes = new Notes<T>()

  keep(): void {
    this.notes.keep()
  }

  undo(): void {
    this.notes.undo()
  }

  store(): void {}

  commit(): void {
    if (this.notes.isEmpty) return
    this.apply(this.notes.all)
    this.discard()
  }

  discard(): void {
    this.notes.discard()
  }

  /** The group is committed: makes its notes, of which there is at least one, part of what readers see. */
  protected abstract apply(notes: readonly T[]): void
}
