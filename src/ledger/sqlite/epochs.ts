import type { LedgerEpochs } from '../ledger.ts'
import type { Access } from './access.ts'
import type { Statements } from './statements.ts'

/** See `LedgerEpochs`. */
export class SqliteEpochs implements LedgerEpochs {
  readonly #access: Access
  readonly #statements: Statements

  constructor(access: Access, statements: Statements) {
    this.#access = access
    this.#statements = statements
  }

  all(): number[] {
    return this.#access.read(() => this.#statements.epochs.all()).map(({ value }) => value)
  }

  record(epoch: number, before: number): Promise<void> {
    return this.#access.writeMany(1, () => {
      this.#statements.recordEpoch.run('epoch', epoch)
      this.#statements.recordEpoch.run('epoch_before', before)
    })
  }
}
