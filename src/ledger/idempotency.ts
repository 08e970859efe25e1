/** For so long a key answers what it answered first (ojs-digest §5.3). */
export const IDEMPOTENCY_MS = 86_400_000

/** A request that came with an `Idempotency-Key`. */
export interface KeyedRequest {
  /** With its scope in front: the endpoint, and who asks. */
  key: string
  /** Of its body, canonical. */
  fingerprint: string
}

/** What such a request was answered with. */
export interface Remembered {
  fingerprint: string
  /** The ids of the answer, in its order. */
  jobs: readonly string[]
  /** The places of those that it did not store, because a job like them was there. */
  existing: readonly number[]
}

/**
 * The memory of such requests. It is written by `insert`, `insertAll` and `withdraw` of the ledger,
 * in the transaction of the jobs.
 */
export interface IdempotencyMemory {
  /** Null: never heard of, or more than a day ago. By index. */
  find(key: string, now: number): Remembered | null

  /**
   * Forgets, oldest first and at most `limit`, what is older than a day, and what is more than the
   * ledger has room for (the newest 10,000,000 stay). Returns how many.
   */
  prune(now: number, limit: number): Promise<number>
}
