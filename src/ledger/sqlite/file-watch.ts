/** Are the files at the ledger's path still those that SQLite has open? */
import { lstatSync, realpathSync, statSync } from 'node:fs'
import type { Logger } from '../../logger.ts'
import type { LedgerWarning } from '../known.ts'

const INTERVAL_MS = 2_000
/** Others may read, or write. A group is left to the operator: Kubernetes gives its volumes one. */
const OTHERS = 0o006

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
  readonly #found: readonly LedgerWarning[]
  #exposed: LedgerWarning | null = null

  /** `path`: the file that has just been opened. `found`: what was wrong with it then. */
  constructor(path: string, logger: Logger, found: LedgerWarning | null) {
    this.#path = path
    this.#found = found ? [found] : []
    // The path as given if it is no link: a relative path stays right when the working directory is moved.
    this.#logPath = `${lstatSync(path).isSymbolicLink() ? realpathSync(path) : path}-wal`
    this.#file = identityOf(path)
    this.#log = identityOf(this.#logPath)
    this.#exposed = exposedTo(path)
    if (this.#exposed) logger.warn({ code: this.#exposed.code }, this.#exposed.message)
  }

  warnings(): LedgerWarning[] {
    return this.#exposed ? [...this.#found, this.#exposed] : [...this.#found]
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
    this.#exposed = exposedTo(this.#path)
    const isSame = identityOf(this.#path) === this.#file && log === this.#log
    this.#tell(
      isSame ? null : `${this.#path} or its -wal was removed or replaced while it was open`,
    )
  }
}

/** Device and inode of the file; null if there is none, or it cannot be accessed. */
export function identityOf(path: string): string | null {
  try {
    const { dev, ino } = statSync(path, { bigint: true })
    return `${dev}:${ino}`
  } catch {
    return null
  }
}

/** A warning if every user of the machine may read or write the file. */
function exposedTo(file: string): LedgerWarning | null {
  if ((modeOf(file) & OTHERS) === 0) return null
  const message =
    `Every user of this machine may read or write ${file}, which holds the arguments of all jobs: ` +
    `chmod o-rwx ${file} ${file}-wal`
  return { code: 'ledger_exposed', message, details: { file } }
}

function modeOf(file: string): number {
  try {
    return statSync(file).mode
  } catch {
    return 0
  }
}
