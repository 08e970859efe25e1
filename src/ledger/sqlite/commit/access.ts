/** Reads and writes of rows: every part of the ledger goes through here. */
import { OjsError, unavailable } from '../../../errors.ts'
import { GroupCommit } from './group-commit.ts'

export class Access extends GroupCommit {
  #isOpen = true

  /** A write of several statements, which a savepoint protects. `weight`: as in `write`. */
  writeMany<T>(weight: number, run: () => T): Promise<T> {
    return this.write((protect) => {
      protect()
      return run()
    }, weight)
  }

  /** Reads committed rows. Throws 503 when the file cannot be read. */
  read<T>(read: () => T): T {
    if (!this.#isOpen) throw unavailable('The ledger is closed.', 'ledger')
    try {
      return read()
    } catch (error) {
      if (error instanceof OjsError) throw error
      throw unavailable('The ledger cannot be read.', 'ledger', error)
    }
  }

  /** The same for the contract's reads, which answer with promises. */
  async ask<T>(read: () => T): Promise<T> {
    return this.read(read)
  }

  /** As that of `GroupCommit`. False: it was closed already. */
  override close(): boolean {
    if (!this.#isOpen) return false
    this.#isOpen = false
    super.close()
    return true
  }
}
