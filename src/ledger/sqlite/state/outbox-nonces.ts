/** Outbox nonces: increasing, and never given out twice, not even in a later process. */
import type { CommittedState } from '../commit/committed-state.ts'
import { onlyRow } from '../sql/driver.ts'
import type { Statements } from '../sql/statements.ts'

/** How many nonces are reserved at once, so that the ceiling is written once in a million jobs. */
const RESERVED = 1_000_000

/**
 * Gives out increasing numbers, never the same one twice, not even in a later process: the file holds a
 * ceiling, and a new process starts above it. The nonces of a failed group are simply not used. Even at a
 * million restarts a day, each of which skips a million nonces, they stay safe integers for 24 years.
 */
export class OutboxNonces implements CommittedState {
  readonly #statements: Statements
  readonly #first: number
  #last: number
  /** As committed. */
  #ceiling: number
  #stored: number

  constructor(statements: Statements) {
    this.#statements = statements
    const { value } = onlyRow(statements.outboxCeiling.get())
    this.#first = value
    this.#last = value
    this.#ceiling = value
    this.#stored = value
  }

  /** Only inside a write: the group stores a higher ceiling where one is needed. */
  next(): number {
    return ++this.#last
  }

  /**
   * False: an earlier process gave this nonce out. It may have published the job message and died before it
   * could write the confirm.
   */
  isOurs(nonce: number): boolean {
    return nonce > this.#first
  }

  keep(): void {}

  undo(): void {}

  store(): void {
    if (this.#last <= this.#ceiling) return
    this.#stored = this.#last + RESERVED
    this.#statements.raiseCeiling.run(this.#stored)
  }

  commit(): void {
    this.#ceiling = this.#stored
  }

  discard(): void {
    this.#stored = this.#ceiling
  }
}
