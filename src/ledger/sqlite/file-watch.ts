import { lstatSync, realpathSync, statSync } from 'node:fs'

const INTERVAL_MS = 2_000

/**
 * Whether the files at the ledger's path are still those that SQLite has open. It does not notice: what
 * is open takes writes also when it was removed or replaced, and nobody finds them at the next start.
 */
export class FileWatch {
  readonly #path: string
  readonly #logPath: string
  readonly #file: string | null
  #log: string | null
  #timer: NodeJS.Timeout | undefined
  #tell: (fault: string | null) => void = () => {}

  /** `path`: of the file that has just been opened. */
  constructor(path: string) {
    this.#path = path
    // As it was given, where that is no link: its folder may be moved with the process in it.
    this.#logPath = `${lstatSync(path).isSymbolicLink() ? realpathSync(path) : path}-wal`
    this.#file = identityOf(path)
    this.#log = identityOf(this.#logPath)
  }

  /** `tell` hears at every look what is wrong, or null. Never keeps the process alive. */
  start(tell: (fault: string | null) => void): void {
    this.#tell = tell
    this.#timer = setInterval(() => this.#look(), INTERVAL_MS).unref()
  }

  /** After a last look. Idempotent: SQLite deletes the log when it closes, and it is not missed. */
  stop(): void {
    if (this.#timer === undefined) return
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#look()
  }

  /**
   * SQLite deletes the log at its path when it closes. Another's is not ours to delete; and where the
   * file is away, it has what that lacks should it be put back.
   */
  get mayDeleteLog(): boolean {
    return identityOf(this.#path) !== null && identityOf(this.#logPath) === this.#log
  }

  #look(): void {
    const log = identityOf(this.#logPath)
    this.#log ??= log
    const isSame = identityOf(this.#path) === this.#file && log === this.#log
    this.#tell(
      isSame ? null : `${this.#path} or its -wal was removed or replaced while it was open`,
    )
  }
}

/** Null: there is none, or none that could be found at the next start. */
function identityOf(path: string): string | null {
  try {
    const { dev, ino } = statSync(path, { bigint: true })
    return `${dev}:${ino}`
  } catch {
    return null
  }
}
