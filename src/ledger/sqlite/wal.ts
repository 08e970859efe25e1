import { closeSync, fdatasync, fdatasyncSync, openSync } from 'node:fs'

/**
 * The write-ahead log of an open ledger, to put on disk what SQLite has written there. SQLite's own
 * `synchronous = FULL` does the same at the end of each commit, and the event loop stands still
 * meanwhile; here a thread of Node's pool waits.
 */
export class Wal {
  readonly #fd: number
  #isSyncing = false
  #isClosed = false

  /** `ledgerPath`: of a database in WAL mode that is open, so that its log exists and stays. */
  constructor(ledgerPath: string) {
    this.#fd = openSync(`${ledgerPath}-wal`, 'r')
  }

  /** Calls back when all that was committed before is on disk, or cannot be. One at a time. */
  sync(done: (error: Error | null) => void): void {
    this.#isSyncing = true
    fdatasync(this.#fd, (error) => {
      this.#isSyncing = false
      if (this.#isClosed) closeSync(this.#fd)
      done(error)
    })
  }

  /** Throws when it cannot be put on disk. */
  syncNow(): void {
    fdatasyncSync(this.#fd)
  }

  /** Idempotent. What is under way still calls back. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    if (!this.#isSyncing) closeSync(this.#fd)
  }
}
