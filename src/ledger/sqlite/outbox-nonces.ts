import type { Companion } from './companion.ts'
import { onlyRow } from './driver.ts'
import type { Statements } from './statements.ts'

/** Reserved at once, so that the ceiling is written once in a million jobs. */
const RESERVED = 1_000_000

/**
 * Increasing numbers that are never given out twice, not even by a later process: the file holds
 * a ceiling, and a new process starts above it. A nonce of a failed group is simply not used; at
 * a million restarts a day the numbers stay safe integers for 24 years.
 */
export class OutboxNonces implements Companion {
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

  /** What an earlier process gave out it may have published, and died before it said so. */
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
