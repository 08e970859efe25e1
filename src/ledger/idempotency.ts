/** Requests with an `Idempotency-Key`, and the answers that are remembered for them. */

/** How long a key is remembered, in ms: repeats of a request get its first answer (OJS unique jobs). */
export const IDEMPOTENCY_MS = 86_400_000

/** A request that came with an `Idempotency-Key`. */
export interface KeyedRequest {
  /** The header's value, prefixed with its scope: the endpoint and the client. */
  key: string
  /** Of the request body: opaque to the ledger. */
  fingerprint: string
}

/** Whether the answer of a write is to be remembered. `now`: clock time. */
export interface Keyed {
  request: KeyedRequest | undefined
  now: number
}

/** What the first request with a key was answered with. */
export interface Remembered {
  fingerprint: string
  /** The ids of the answer, in its order: of jobs, or what else the endpoint stores. */
  ids: readonly string[]
  /** The places in `ids` of those that were not stored by the request, because they existed before. */
  existing: readonly number[]
}

/** Nothing was stored: the request has been answered before. */
export interface AnsweredBefore {
  outcome: 'remembered'
  remembered: Remembered
}

/**
 * Remembers requests by their `Idempotency-Key`. Written by what stores the answer, in the same transaction:
 * `insert`, `insertAll`, `withdraw` and `withdrawAll` of the ledger for jobs, and the methods that store
 * workflows, cron entries and schemas.
 */
export interface IdempotencyMemory {
  /**
   * Forgets keys that are older than a day, and all but the newest 10,000,000; oldest first, at most `limit`.
   * Returns how many.
   */
  prune(now: number, limit: number): Promise<number>
}
