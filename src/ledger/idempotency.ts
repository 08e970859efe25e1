/** How long a key is remembered, in ms: repeats of a request get its first answer (ojs-digest §5.3). */
export const IDEMPOTENCY_MS = 86_400_000

/** A request that came with an `Idempotency-Key`. */
export interface KeyedRequest {
  /** The header's value, prefixed with its scope: the endpoint and the client. */
  key: string
  /** Hash of the canonical form of the request body. */
  fingerprint: string
}

/** What the first request with a key was answered with. */
export interface Remembered {
  fingerprint: string
  /** The ids of the answer, in its order. */
  jobs: readonly string[]
  /** The places in `jobs` of those that were not stored by the request, because they existed before. */
  existing: readonly number[]
}

/**
 * Remembers requests by their `Idempotency-Key`. Written by `insert`, `insertAll`, `withdraw` and
 * `withdrawAll` of the ledger, in the transaction of the jobs.
 */
export interface IdempotencyMemory {
  /** Null: the key was not used, or more than a day ago. By index. */
  find(key: string, now: number): Remembered | null

  /**
   * Forgets keys that are older than a day, and all but the newest 10,000,000; oldest first, at most `limit`.
   * Returns how many.
   */
  prune(now: number, limit: number): Promise<number>
}
