/**
 * Something kept in memory beside the rows, and never ahead of them. A group commit leads every
 * companion through its transaction, so that memory changes with the commit and only with it.
 */
export interface Companion {
  /** A write of the group has succeeded: what it noted stays. */
  keep(): void
  /** A write has failed: what it noted since the last `keep` is forgotten. */
  undo(): void
  /** Writes what the group changed, inside its transaction. */
  store(): void
  /** The group is committed. */
  commit(): void
  /** The group is rolled back: everything noted is forgotten. */
  discard(): void
}
