import { ByAge } from '../../by-age.ts'
import type { Rung } from '../ledger.ts'

/** More than may be under way (`publisher.ts`): what is forgotten costs a second token at most. */
const MAX_DEBTS = 20_000

/** The token that a job owes to its queue since it is due, and owed to its rung before. */
export interface MovedDebt {
  rung: Rung
  outbox: number
}

/**
 * By the nonce of the old debt. Its token may be on the way into the rung, and a confirm of it then
 * pays the new debt as well: with both in RabbitMQ, two native workers would run the job at once.
 * In memory, as what this process has on the way is.
 */
export class MovedDebts {
  readonly #debts = new ByAge<number, MovedDebt>()

  /** A write that is run again, or rolled back, replaces it: what it gave out before is nobody's nonce. */
  add(before: number, debt: MovedDebt): void {
    this.#debts.set(before, debt)
    if (this.#debts.size > MAX_DEBTS) this.#debts.dropOldest()
  }

  get(before: number): MovedDebt | undefined {
    return this.#debts.get(before)
  }

  /** It is gone, and what was confirmed to be in it: those jobs need their new token. */
  forgetRung({ queue, delayMs }: Rung): void {
    for (const [before, { rung }] of this.#debts) {
      if (rung.queue === queue && rung.delayMs === delayMs) this.#debts.delete(before)
    }
  }
}
