import type { JobRow } from '../job/job.ts'

/** The part of the ledger's contract that is about dead letters and their copies in DLX queues. */
export interface DeadLetterLedger {
  /** Dead letters, newest first; by index. Fewer than `limit` where they are large. `total` is kept. */
  deadLetters(query: DeadLetterQuery): { jobs: JobRow[]; total: number }

  /**
   * Dead letter retry: `discarded → available`, attempt 0, generation + 1, a fresh outbox nonce,
   * `error` cleared, `errors` kept. Its copy in the DLX queue becomes stale.
   * Fence: a listed dead letter of this generation; no job in the way of its `unique` policy.
   */
  revive(id: string, generation: number, now: number): Promise<Revived>

  /**
   * Dead letter delete: the row is erased (`isErased`), so that tokens of it are dropped for another
   * week. Its copy becomes stale. Fence: a listed dead letter.
   */
  deleteDeadLetter(id: string, now: number): Promise<boolean>

  /**
   * Queues whose DLX queue holds copies that nobody needs any more, each with the mark of its newest
   * one. From memory; stays as it was read.
   */
  staleCopies(): ReadonlyMap<string, number>

  /**
   * A sweep has taken out every such copy up to `mark`, which was read before it began. Fence: no
   * copy has become stale since; else the queue is still stale, and the next sweep sees to it.
   */
  swept(queue: string, mark: number): Promise<void>

  /**
   * The broker has confirmed the copy of a discarded job that was published for `outbox`. Lazy. Where
   * the row has gone on meanwhile, the copy is stale.
   * Fence: the row still carries this nonce.
   */
  copyConfirmed(id: string, outbox: number): void

  /** Kept: dead letters of one queue, or of all. */
  deadLetterCount(queue?: string): number
}

export type Revived =
  | JobRow
  | 'stale'
  | { outcome: 'conflict'; existing: JobRow; uniqueKey: string }

export interface DeadLetterQuery {
  queue: string | null
  limit: number
  offset: number
}
