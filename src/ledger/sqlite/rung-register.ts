import type { Rung } from '../ledger.ts'
import type { Companion } from './companion.ts'
import type { Statements } from './statements.ts'

/** Every rung that was ever declared, from memory. */
export class RungRegister implements Companion {
  readonly #statements: Statements
  #rungs: readonly Rung[]
  #added: Rung[] = []
  #keptAdded = 0

  constructor(statements: Statements) {
    this.#statements = statements
    this.#rungs = statements.rungs.all() as Rung[]
  }

  all(): readonly Rung[] {
    return this.#rungs
  }

  /** As committed. A thousand rungs at most, and asked for each one once in a run. */
  has({ queue, delayMs }: Rung): boolean {
    return this.#rungs.some((rung) => rung.queue === queue && rung.delayMs === delayMs)
  }

  /** Inside a write: stores the rung unless it is known. */
  record({ queue, delayMs }: Rung): void {
    const { changes } = this.#statements.recordRung.run(queue, delayMs)
    if (changes === 1) this.#added.push({ queue, delayMs })
  }

  keep(): void {
    this.#keptAdded = this.#added.length
  }

  undo(): void {
    this.#added.length = this.#keptAdded
  }

  store(): void {}

  commit(): void {
    if (this.#added.length === 0) return
    this.#rungs = [...this.#rungs, ...this.#added]
    this.discard()
  }

  discard(): void {
    this.#added = []
    this.#keptAdded = 0
  }
}
