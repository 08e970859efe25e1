/** When the ledger was used, and the epochs that RabbitMQ knows it by. */
import type { LedgerEpochs } from '../../ledger.ts'
import type { EpochReads } from '../../reads.ts'
import type { Access } from '../commit/access.ts'
import { onlyRow } from '../sql/driver.ts'
import type { Statements } from '../sql/statements.ts'

/** See `LedgerEpochs`. */
export class SqliteEpochs implements LedgerEpochs, EpochReads {
  readonly #access: Access
  readonly #statements: Statements

  constructor(access: Access, statements: Statements) {
    this.#access = access
    this.#statements = statements
  }

  all(): Promise<number[]> {
    return this.#access.ask(() => this.#statements.epochs.all().map(({ value }) => value))
  }

  record(epoch: number, before: number): Promise<void> {
    return this.#access.writeMany(1, () => {
      this.#statements.setSetting.run('epoch', epoch)
      this.#statements.setSetting.run('epoch_before', before)
    })
  }

  seenAt(): Promise<number | null> {
    return this.#access.ask(() => onlyRow(this.#statements.seenAt.get()).seenAt)
  }

  async noteSeen(now: number): Promise<void> {
    await this.#access.write(() => this.#statements.setSetting.run('seen_at', now))
  }
}
