import { ByAge } from '../../../insertion-ordered-map.ts'
import type { Rung } from '../../ledger.ts'

/** More than the publisher has in flight (`publisher.ts`). A forgotten debt costs a second token at most. */
const MAX_DEBTS = 20_000

/** A token that was owed to `rung`, and is owed to the job queue (`outbox`) since the job came due. */
export interface MovedDebt {
  rung: Rung
  outbox: number
}

/**
 * Moved debts, by the nonce of the old one. The token for the rung may still be on its way, and if it is
 * confirmed, that pays the new debt as well: with both tokens in RabbitMQ, two native workers would run the
 * job at once. In memory only, like everything that this process has in flight.
 */
export class MovedDebts {
  readonly #debts = new ByAge<number, MovedDebt>()

  /** The entry of a write that is rolled back does no harm, as no row has its nonce; a retry replaces it. */
  add(before: number, debt: MovedDebt): void {
    this.#debts.set(before, debt)
    if (this.#debts.size > MAX_DEBTS) this.#debts.dropOldest()
  }

  get(before: number): MovedDebt | undefined {
    return this.#debts.get(before)
  }

  /** The rung is lost with the tokens in it: a confirm for it must not pay the new debts any more. */
  forgetRung({ queue, delayMs }: Rung): void {
    for (const [before, { rung }] of this.#debts) {
      if (rung.queue === queue && rung.delayMs === delayMs) this.#debts.delete(before)
    }
  }
}
