/** Confirmed nonces, cleared from their rows many at a time. */
import type { Draft } from '../group/draft.ts'
import type { Groups } from '../group/groups.ts'
import type { Memory } from '../group/memory.ts'
import { confirmCopy } from './end.ts'

/** Confirms that one lazy write clears at most. */
const MAX_TOGETHER = 1_000

/** Confirmed nonces, until the commit that clears them from their rows. */
export class Confirms {
  readonly #groups: Groups
  readonly #memory: Memory
  /** The nonces that the lazy write still to come will clear together; null: none waits. */
  #gathering: number[] | null = null

  constructor(groups: Groups, memory: Memory) {
    this.#groups = groups
    this.#memory = memory
  }

  add(outbox: number): void {
    const moved = this.#memory.moved.get(outbox)
    this.#memory.confirming.add(outbox)
    if (moved) this.#memory.confirming.add(moved.outbox)
    if (this.#gathering !== null && this.#gathering.length < MAX_TOGETHER)
      this.#gathering.push(outbox)
    else this.#gather([outbox])
  }

  addCopy(id: string, outbox: number): void {
    this.#memory.confirming.add(outbox)
    const write = { wants: { short: [id] }, run: (draft: Draft) => confirmCopy(draft, id, outbox) }
    const forget = () => void this.#memory.confirming.delete(outbox)
    if (!this.#groups.lazily(write, forget)) forget()
  }

  #gather(nonces: number[]): void {
    const { confirming, moved } = this.#memory
    const forget = () => {
      for (const nonce of nonces) {
        confirming.delete(nonce)
        const debt = moved.get(nonce)
        if (debt) confirming.delete(debt.outbox)
      }
    }
    const run = (draft: Draft) => {
      if (this.#gathering === nonces) this.#gathering = null
      for (const nonce of nonces) clear(draft, nonce)
    }
    // The list grows until the write runs.
    const isTaken = this.#groups.lazily({ wants: { nonces }, run }, forget)
    if (!isTaken) forget()
    this.#gathering = isTaken ? nonces : null
  }
}

/**
 * Clears the new nonce instead, of a job that came due while its job message was on the way into the retry
 * queue: that message is enough.
 */
function clear(draft: Draft, nonce: number): void {
  const row = draft.owing(nonce)
  if (row) draft.change(row, { outbox: null })
  const debt = draft.memory.moved.get(nonce)
  const due = debt && draft.owing(debt.outbox)
  if (due) draft.change(due, { outbox: null, retryQueueMs: debt.retryQueue.delayMs })
}
