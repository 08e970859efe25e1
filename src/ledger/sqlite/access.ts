import { OjsError, unavailable } from '../../errors.ts'
import type { GroupCommit, Protect } from './group-commit.ts'

/** Reads and writes of the rows. Every part of the ledger goes through this class. */
export class Access {
  readonly #commits: GroupCommit
  #isOpen = true

  constructor(commits: GroupCommit) {
    this.#commits = commits
  }

  /** As `GroupCommit.write`. */
  write<T>(run: (protect: Protect) => T, weight?: number, enough?: number): Promise<T> {
    return this.#commits.write(run, weight, enough)
  }

  /** As `GroupCommit.written`. */
  written(): Promise<void> {
    return this.#commits.written()
  }

  /** As `GroupCommit.writeLazily`. */
  writeLazily(run: () => void, settled?: () => void): boolean {
    return this.#commits.writeLazily(run, settled)
  }

  /** A write of several statements, which a savepoint protects. `weight`: as in `GroupCommit.write`. */
  writeMany<T>(weight: number, run: () => T): Promise<T> {
    return this.#commits.write((protect) => {
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

  /** As `GroupCommit.obstruct`. */
  obstruct(obstacle: string | null): void {
    this.#commits.obstruct(obstacle)
  }

  fault(): string | null {
    return this.#commits.fault()
  }

  /** Commits what is waiting. False: it was closed already. */
  close(): boolean {
    if (!this.#isOpen) return false
    this.#isOpen = false
    this.#commits.close()
    return true
  }
}
