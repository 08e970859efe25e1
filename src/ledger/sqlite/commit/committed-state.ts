/**
 * State that is kept in memory beside the rows. `GroupCommit` takes every companion through each
 * transaction, so that memory changes with the commit and only with it: it is never ahead of the file.
 */
export interface Companion {
  /** A write of the group has succeeded: its notes stay. */
  keep(): void
  /** A write has failed: notes since the last `keep` are dropped. */
  undo(): void
  /** Writes the companion's own rows, inside the group's transaction. */
  store(): void
  /** The group is committed: its notes become the state that readers see. */
  commit(): void
  /** The group is rolled back: all its notes are dropped. */
  discard(): void
}
