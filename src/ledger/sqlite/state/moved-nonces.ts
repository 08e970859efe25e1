/** Nonces of jobs that came due while the message for their retry queue was in flight. */
import { InsertionOrderedMap } from '../../../insertion-ordered-map.ts'
import type { RetryQueue } from '../../known.ts'

/**
 * More than the publisher has in flight (`publisher.ts`). A forgotten debt costs a second job message at
 * most.
 */
const MAX_DEBTS = 20_000

/**
 * A job message that was owed to `retryQueue`, and is owed to the job queue (`outbox`) since the job came
 * due.
 */
export interface MovedDebt {
  retryQueue: RetryQueue
  outbox: number
}

/**
 * Moved debts, by the nonce of the old one. The job message for the retry queue may still be on its way, and
 * if it is confirmed, that pays the new debt as well: with both messages in RabbitMQ, two native workers
 * would run the job at once. In memory only, like everything that this process has in flight.
 */
export class MovedNonces {
  readonly #debts = new InsertionOrderedMap<number, MovedDebt>()

  /** The entry of a write that is rolled back does no harm, as no row has its nonce; a retry replaces it. */
  add(before: number, debt: MovedDebt): void {
    this.#debts.set(before, debt)
    if (this.#debts.size > MAX_DEBTS) this.#debts.dropOldest()
  }

  get(before: number): MovedDebt | undefined {
    return this.#debts.get(before)
  }

  /**
   * The retry queue is lost with the job messages in it: a confirm for it must not pay the new debts any
   * more.
   */
  forgetRetryQueue({ queue, delayMs }: RetryQueue): void {
    for (const [before, { retryQueue }] of this.#debts) {
      if (retryQueue.queue === queue && retryQueue.delayMs === delayMs) this.#debts.delete(before)
    }
  }
}
