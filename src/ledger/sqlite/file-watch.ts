import { lstatSync, realpathSync, statSync } from 'node:fs'

const INTERVAL_MS = 2_000

/**
 * Watches whether the files at the ledger's path are still the ones that SQLite has open. SQLite does not
 * notice: a file that was removed or replaced still takes writes as long as it is open, and they are lost at
 * the next start.
 */
export class FileWatch {
  readonly #path: string
  readonly #logPath: string
  readonly #file: string | null
  #log: string | null
  #timer: NodeJS.Timeout | undefined
  #tell: (fault: string | null) => void = () => {}

  /** `path`: the file that has just been opened. */
  constructor(path: string) {
    this.#path = path
    // The path as given if it is no link: a relative path stays right when the working directory is moved.
    this.#logPath = `${lstatSync(path).isSymbolicLink() ? realpathSync(path) : path}-wal`
    this.#file = identityOf(path)
    this.#log = identityOf(this.#logPath)
  }

  /** Calls `tell` after every look with what is wrong, or null. The timer does not keep the process alive. */
  start(tell: (fault: string | null) => void): void {
    this.#tell = tell
    this.#timer = setInterval(() => this.#look(), INTERVAL_MS).unref()
  }

  /** Stops after a last look. Later calls do not look: SQLite deletes the -wal when it closes. */
  stop(): void {
    if (this.#timer === undefined) return
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#look()
  }

  /**
   * SQLite deletes the -wal at its path when it closes. False if that is another file by now; or if the
   * database file is gone, because should it be put back, this -wal has the commits that it lacks.
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

/** Device and inode of the file; null if there is none, or it cannot be accessed. */
function identityOf(path: string): string | null {
  try {
    const { dev, ino } = statSync(path, { bigint: true })
    return `${dev}:${ino}`
  } catch {
    return null
  }
}
