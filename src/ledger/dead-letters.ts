/** The part of the ledger's contract for dead letters and their copies in RabbitMQ. */
import type { Cause } from '../job/history.ts'
import type { JobRow } from '../job/job.ts'
import type { KeyHolder } from './enqueued.ts'

/** The part of the ledger's contract that is about dead letters and their copies in DLX queues. */
export interface DeadLetterLedger {
  /**
   * Dead letter retry: `discarded → available`, attempt 0, generation + 1, a fresh outbox nonce,
   * `error` cleared, `errors` kept. Its copy in the DLX queue becomes stale.
   * Fence: a listed dead letter of this generation; no job that conflicts with its `unique` policy.
   */
  revive(id: string, generation: number, now: number, cause?: Cause): Promise<Revived>

  /**
   * Dead letter delete: erases the row (`isErased`). The erased row stays for another week, so that late
   * messages of the job are dropped. Its copy becomes stale. Fence: a listed dead letter.
   */
  deleteDeadLetter(id: string, now: number): Promise<boolean>

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
}

export type Revived =
  | JobRow
  | 'stale'
  | { outcome: 'conflict'; existing: KeyHolder; uniqueKey: string }

export interface DeadLetterQuery {
  queue: string | null
  limit: number
  offset: number
}
