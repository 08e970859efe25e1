/** Opens the file of a ledger: checks it, locks it, migrates it. */
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  realpathSync,
  statSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { messageOf } from '../../errors.ts'
import type { Logger } from '../../logger.ts'
import type { LedgerWarning } from '../known.ts'
import { FileWatch, identityOf } from './file-watch.ts'
import { SqliteLedger } from './ledger.ts'
import { migrate, refuseOthers } from './migrations.ts'
import { cutShort, type FoundFiles, lookAtFiles, markRunning, markStopped } from './running-mark.ts'
import { adviceOn, type Database, openDatabase, SQLITE, sqliteCode } from './sql/driver.ts'

export interface SqliteLedgerOptions {
  /** The ledger's file; its directory is created if it is missing. */
  path: string
  /**
   * `full`: a commit survives power loss. `normal`: it survives the death of the process; power
   * loss may undo the last moments (docs/architecture.md §7).
   */
  sync: 'full' | 'normal'
  logger: Logger
  /** Wall time; by default the system's clock. */
  wall?: () => number
}

/** Opens the ledger. Throws a plain `Error` with one clear line when the file cannot be used. */
export async function openSqliteLedger(options: SqliteLedgerOptions): Promise<SqliteLedger> {
  const { path, logger, wall } = options
  const { db, warning } = await openMarked(options)
  if (warning) logger.error({ code: warning.code, ...warning.details }, warning.message)
  try {
    return new SqliteLedger(db, logger, wall, new FileWatch(path, logger, warning))
  } catch (error) {
    // The constructor reads what is kept in memory, so it is the first to meet a corrupt page.
    db.close()
    throw explain(error, path)
  }
}

/** Opens the file, locks it for this process, and migrates it to the current schema. */
export async function openLedgerFile(options: SqliteLedgerOptions): Promise<Database> {
  return (await openMarked(options)).db
}

interface Opened {
  db: Database
  /** What is missing in the file. */
  warning: LedgerWarning | null
}

async function openMarked(options: SqliteLedgerOptions): Promise<Opened> {
  const { path } = options
  const { db, found } = await openFile(path)
  try {
    lock(db)
    refuseOthers(db, path)
  } catch (error) {
    db.closeAsItIs()
    throw explain(error, path)
  }
  try {
    configure(db, options.sync)
    const warning = cutShort(found, db, realpathSync(path))
    await migrate(db, path, options.logger)
    markRunning(db, realpathSync(path))
    return { db: whileOpen(db, path), warning }
  } catch (error) {
    db.close()
    throw explain(error, path)
  }
}

/** What this process has open, by device and inode. Weak, because some are left to the garbage collector. */
const openHere = new Map<string, WeakRef<Database>>()

function isOpenHere(path: string): boolean {
  return openHere.get(identityOf(path) ?? '')?.deref() !== undefined
}

/** Notes that the file is open, until it is closed, which clears the mark in it as well. */
function whileOpen(db: Database, path: string): Database {
  const identity = identityOf(path) ?? ''
  openHere.set(identity, new WeakRef(db))
  const close = () => {
    markStopped(db)
    db.close()
    openHere.delete(identity)
  }
  return { ...db, close }
}

async function openFile(path: string): Promise<{ db: Database; found: FoundFiles }> {
  try {
    makeFolder(dirname(path))
    refuseLostFile(path)
    createForOwner(path)
    requireWritable(path)
    // To open and close the file once more would release the lock that SQLite has on it.
    if (isOpenHere(path)) throw new Error('this process has it open already')
    const found = lookAtFiles(realpathSync(path))
    return { db: await openDatabase(path), found }
  } catch (error) {
    throw cannotOpen(path, error)
  }
}

/**
 * Creates the folder and its parents. Node's `recursive` option is not used, because it loops for ever below
 * a folder in which none can be created, such as `/proc`. If another process creates the folder first, that
 * is no error.
 */
function makeFolder(path: string): void {
  if (existsSync(path)) return
  makeFolder(dirname(path))
  try {
    mkdirSync(path)
  } catch (error) {
    if (!existsSync(path)) throw error
  }
}

/**
 * Throws if there is a -wal, but its database file is missing or empty. SQLite would take that -wal for a
 * leftover and delete it, and in a young ledger it may be the only copy of all jobs.
 */
function refuseLostFile(path: string): void {
  const real = existsSync(path) ? realpathSync(path) : path
  if (sizeOf(real) > 0 || sizeOf(`${real}-wal`) === 0) return
  throw new Error(
    `${real}-wal exists, but the database file ${real} is missing or empty: ` +
      'restore that file, or move the -wal away to begin with an empty ledger',
  )
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

/**
 * Creates the file with mode 0600, because job arguments are not for other users of this machine. SQLite
 * gives its -wal and other files beside it the mode of the file. An existing file keeps its mode.
 */
function createForOwner(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if (existsSync(path)) return
    // SQLite would not say why the file cannot be created.
    if (lstatSync(path, { throwIfNoEntry: false }) !== undefined)
      throw new Error('it is a symbolic link to a file that does not exist', { cause: error })
    requireAccess(realpathSync(dirname(path)))
    throw error
  }
}

/**
 * Throws with a clear reason if the file, its -wal, or the folder of the -wal is not writable (for example
 * after another user has restored a backup). SQLite would only report a `disk I/O error`.
 */
function requireWritable(path: string): void {
  const real = realpathSync(path)
  const paths = [real, `${real}-wal`, dirname(real)]
  for (const existing of paths.filter((entry) => existsSync(entry))) requireAccess(existing)
}

function requireAccess(path: string): void {
  try {
    accessSync(path, constants.R_OK | constants.W_OK)
  } catch (error) {
    if (isReadOnly(error)) {
      const reason = `${path} is on a read-only file system: make it writable, or choose another OJS_LEDGER`
      throw new Error(reason, { cause: error })
    }
    const user = process.getuid?.()
    const who = user === undefined ? 'this user' : `this user (uid ${user})`
    throw new Error(`${path} is not writable by ${who}`, { cause: error })
  }
}

/**
 * Locks the file for this process. The locking mode is set before WAL: SQLite then keeps the WAL index in
 * its own memory, and the first transaction locks the file until `close` or the end of the process. Waits
 * up to one second for the lock, because the gateway that this one replaces may just be stopping.
 */
function lock(db: Database): void {
  db.exec('PRAGMA busy_timeout = 1000')
  db.exec('PRAGMA locking_mode = EXCLUSIVE')
}

function configure(db: Database, sync: 'full' | 'normal'): void {
  db.exec('PRAGMA journal_mode = WAL')
  db.exec(`PRAGMA synchronous = ${sync === 'full' ? 'FULL' : 'NORMAL'}`)
  // A checkpoint per 8 MB of WAL: a page that many groups have changed is copied back only once.
  db.exec('PRAGMA wal_autocheckpoint = 2000')
  db.exec('PRAGMA journal_size_limit = 67108864')
  // 16 MB is enough, because the rows in use are the newest ones; memory stays flat as the file grows.
  db.exec('PRAGMA cache_size = -16384')
  // The only writable folder may be the ledger's own, so temporary files go to memory. That makes large
  // savepoints slow (20,000 changes, say), so writes are kept small.
  db.exec('PRAGMA temp_store = MEMORY')
  db.exec('BEGIN IMMEDIATE; COMMIT')
}

function explain(error: unknown, path: string): unknown {
  switch (sqliteCode(error)) {
    case SQLITE.CORRUPT:
    case SQLITE.READONLY:
    case SQLITE.IO_ERROR:
      return new Error(`ledger ${path} cannot be opened: ${adviceOn(error)}`, { cause: error })
    case SQLITE.BUSY:
      return new Error(`ledger ${path} is in use by another process`, { cause: error })
    case SQLITE.NOT_A_DATABASE:
      return new Error(`${path} is not an SQLite file`, { cause: error })
    case null:
      // Our own errors name the file. Those of the binding do not, and some have no SQLite code.
      return error instanceof Error && error.message.includes(path)
        ? error
        : cannotOpen(path, error)
    default:
      return cannotOpen(path, error)
  }
}

function cannotOpen(path: string, error: unknown): Error {
  const reason = messageOf(error)
  return new Error(`ledger ${path} cannot be opened: ${reason}`, { cause: error })
}

function isReadOnly(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EROFS'
}
