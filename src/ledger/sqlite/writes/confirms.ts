/** Confirmed nonces, cleared from their rows many at a time. */
import type { JobRow, OwedMessage } from '../../../job/job.ts'
import type { Access } from '../commit/access.ts'
import { toJobRow } from '../sql/rows.ts'
import type { MovedDebt } from '../state/moved-nonces.ts'
import type { Store } from '../state/store.ts'
import { confirmCopy } from './dead-letters.ts'

/** Confirms that one lazy write clears at most: more would delay the other writes of its group. */
const MAX_TOGETHER = 1_000

/**
 * Confirmed nonces, until the commit that clears them from their rows. Confirms come many at a time and
 * nearly in the order in which their nonces were given out, so one statement can clear a range of them.
 */
export class Confirms {
  readonly #store: Store
  readonly #access: Access
  /** The nonces that the lazy write still to come will clear together; null: none waits. */
  #gathering: number[] | null = null

  constructor(store: Store, access: Access) {
    this.#store = store
    this.#access = access
  }

  /** See `Ledger.outboxPage`. */
  owedPage(after: number, limit: number): OwedMessage[] {
    const { confirming, statements } = this.#store
    let last = after
    for (;;) {
      const page = this.#access.read(() => statements.outboxPage.all(last, limit))
      const owed = page.filter(({ outbox }) => !confirming.has(outbox))
      const end = page.at(-1)
      if (owed.length > 0 || !end) return owed
      // Every row of this page is confirmed, and waits for its commit: read on.
      last = end.outbox
    }
  }

  /** See `Ledger.owed`. */
  owed(outboxes: readonly number[]): JobRow[] {
    const { confirming, statements } = this.#store
    const unconfirmed = outboxes.filter((outbox) => !confirming.has(outbox))
    const rows = unconfirmed
      .sort((a, b) => a - b)
      .map((outbox) => toJobRow(statements.owing.get(outbox)))
    return rows.filter((row) => row !== null)
  }

  add(outbox: number): void {
    this.#store.confirming.add(outbox)
    if (this.#gathering !== null && this.#gathering.length < MAX_TOGETHER) {
      this.#gathering.push(outbox)
    } else this.#gather([outbox])
    const moved = this.#store.moved.get(outbox)
    if (moved) this.#addMoved(outbox, moved)
  }

  addCopy(id: string, outbox: number): void {
    this.#store.confirming.add(outbox)
    this.#writeLater([outbox], () => confirmCopy(this.#store, id, outbox))
  }

  /**
   * Clears the new nonce as well, of a job that came due while its job message was on the way into the retry
   * queue: that message is enough. Not if the retry queue was lost meanwhile.
   */
  #addMoved(before: number, debt: MovedDebt): void {
    const { moved, statements, confirming } = this.#store
    const { outbox, retryQueue } = debt
    confirming.add(outbox)
    this.#writeLater([outbox], () => {
      if (moved.get(before) === debt)
        statements.confirmedInRetryQueue.run(outbox, retryQueue.delayMs)
    })
  }

  #gather(nonces: number[]): void {
    const { confirmed } = this.#store.statements
    const isTaken = this.#writeLater(nonces, () => {
      if (this.#gathering === nonces) this.#gathering = null
      for (const [first, last] of ranges(nonces)) confirmed.run(first, last)
    })
    this.#gathering = isTaken ? nonces : null
  }

  /**
   * Writes lazily, and keeps the nonces in `confirming` until the commit. Without that, rows that cannot be
   * updated (a full disk) would go on owing job messages that RabbitMQ has, and the relay would publish each
   * of them twice a minute.
   */
  #writeLater(nonces: readonly number[], write: () => void): boolean {
    const forget = () => {
      for (const outbox of nonces) this.#store.confirming.delete(outbox)
    }
    const isTaken = this.#access.writeLazily(write, forget)
    if (!isTaken) forget()
    return isTaken
  }
}

/** Sorts whole numbers, and returns them as ranges without gaps, both ends included. */
function ranges(numbers: number[]): [first: number, last: number][] {
  const found: [number, number][] = []
  for (const number of numbers.sort((a, b) => a - b)) {
    const range = found.at(-1)
    if (range && number === range[1] + 1) range[1] = number
    else found.push([number, number])
  }
  return found
}
