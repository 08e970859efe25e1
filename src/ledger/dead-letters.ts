/** The part of the ledger's contract for dead letters and their copies in RabbitMQ. */

/** The part of the ledger's contract that is about dead letters and their copies in DLX queues. */
export interface DeadLetterLedger {
  /**
   * Notes that a sweep has removed every stale copy up to `mark`, which was read before the sweep began.
   * Fence: no copy has become stale since; else the queue stays marked for the next sweep.
   */
  swept(queue: string, mark: number): Promise<void>

  /**
   * Notes that the broker has confirmed the copy of a discarded job that was published for `outbox`. Lazy.
   * If the row has been revived, deleted or pruned meanwhile, the copy is stale.
   * Fence: the row still carries this nonce.
   */
  copyConfirmed(id: string, outbox: number): void

  /**
   * Retention by number: prunes the oldest dead letters of the queue, as `prune` does, while it has more than
   * `max` as of the last commit; at most `limit`, and of the oldest 2,000 only. Returns how many rows it changed.
   */
  pruneDeadLetters(queue: string, max: number, now: number, limit: number): Promise<number>
}

/** What the dead letters are, by their numbers. */
export interface DeadLetterStats {
  /** Kept, not counted. */
  total: number
  byQueue: ReadonlyMap<string, number>
  /** Of those that were looked at; under `null`: those whose error has neither type nor code. */
  byType: ReadonlyMap<string, number>
  byErrorType: ReadonlyMap<string | null, number>
  oldestAt: number | null
  newestAt: number | null
  /** How many were looked at, the newest of them, if there are more. */
  searched: number | null
}
