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
import { type Database, openDatabase, SQLITE, sqliteCode } from './driver.ts'
import { FileWatch } from './file-watch.ts'
import { SqliteLedger } from './ledger.ts'
import { migrate, refuseOthers } from './migrations.ts'
import { OWN_SOURCES } from './workflow-book.ts'

export interface SqliteLedgerOptions {
  /** A file; its directory is created. */
  path: string
  /**
   * `full`: a commit survives power loss. `normal`: it survives the death of the process; power
   * loss may undo the last moments (architecture §7).
   */
  sync: 'full' | 'normal'
  logger: Logger
  /** Wall time of steps that begin with the end of another job; the system's own by default. */
  wall?: () => number
}

/** Throws a plain `Error` with one clear line when the file cannot be used. */
export async function openSqliteLedger(options: SqliteLedgerOptions): Promise<SqliteLedger> {
  const { path, logger, wall = OWN_SOURCES.wall } = options
  const db = await openLedgerFile(options)
  try {
    return new SqliteLedger(db, logger, { ...OWN_SOURCES, wall }, new FileWatch(path))
  } catch (error) {
    // It reads what is kept in memory: the first to meet a page that is broken.
    db.close()
    throw explain(error, path)
  }
}

/** The file, locked for this process, with the current schema. */
export async function openLedgerFile(options: SqliteLedgerOptions): Promise<Database> {
  const { path } = options
  const db = await openFile(path)
  try {
    lock(db)
    refuseOthers(db, path)
  } catch (error) {
    db.closeAsItIs()
    throw explain(error, path)
  }
  try {
    configure(db, options.sync)
    await migrate(db, path, options.logger)
    return db
  } catch (error) {
    db.close()
    throw explain(error, path)
  }
}

async function openFile(path: string): Promise<Database> {
  try {
    makeFolder(dirname(path))
    refuseLostFile(path)
    createForOwner(path)
    requireWritable(path)
    return await openDatabase(path)
  } catch (error) {
    throw cannotOpen(path, error)
  }
}

/**
 * Not Node's `recursive`: below a folder that takes no other, such as `/proc`, it tries for ever.
 * A folder that somebody else has made meanwhile is as good.
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
 * SQLite takes the log of a file that is missing or empty for a leftover and deletes it: of a ledger
 * that is young, the only copy of all jobs.
 */
function refuseLostFile(path: string): void {
  const real = existsSync(path) ? realpathSync(path) : path
  if (sizeOf(real) > 0 || sizeOf(`${real}-wal`) === 0) return
  throw new Error(
    `${real}-wal is there, and belongs to a file that is missing or empty: ` +
      'put that back, or move the -wal away to begin anew',
  )
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

/**
 * What jobs are given is not for the other users of this machine. SQLite gives its companions the
 * mode of the file; one that is there keeps the mode that somebody gave it.
 */
function createForOwner(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if (existsSync(path)) return
    // SQLite would not say why it cannot be made.
    if (lstatSync(path, { throwIfNoEntry: false }) !== undefined)
      throw new Error('it is a link that leads nowhere', { cause: error })
    requireAccess(realpathSync(dirname(path)))
    throw error
  }
}

/**
 * SQLite calls it a `disk I/O error`: a file that somebody else has put back, its log, or the folder in
 * which the log is made.
 */
function requireWritable(path: string): void {
  const real = realpathSync(path)
  for (const one of [real, `${real}-wal`, dirname(real)]) if (existsSync(one)) requireAccess(one)
}

function requireAccess(one: string): void {
  try {
    accessSync(one, constants.R_OK | constants.W_OK)
  } catch (error) {
    const user = process.getuid?.()
    const who = user === undefined ? 'this user' : `this user (uid ${user})`
    throw new Error(`${one} is not writable by ${who}`, { cause: error })
  }
}

/**
 * The locking mode comes before WAL: SQLite then keeps the WAL index in its own memory, and the
 * first transaction locks the file until `close` (or the end of the process, however it ends).
 * One second of patience, for a gateway that is just being replaced.
 */
function lock(db: Database): void {
  db.exec('PRAGMA busy_timeout = 1000')
  db.exec('PRAGMA locking_mode = EXCLUSIVE')
}

function configure(db: Database, sync: 'full' | 'normal'): void {
  db.exec('PRAGMA journal_mode = WAL')
  db.exec(`PRAGMA synchronous = ${sync === 'full' ? 'FULL' : 'NORMAL'}`)
  // 8 MB of WAL per checkpoint: a page that many groups have touched is copied back once.
  db.exec('PRAGMA wal_autocheckpoint = 2000')
  db.exec('PRAGMA journal_size_limit = 67108864')
  // 16 MB: the rows at work are the newest ones, and memory stays flat as the file grows.
  db.exec('PRAGMA cache_size = -16384')
  // A file system may have no room for temporary files but where the ledger is. Writes stay small: a
  // savepoint of 20,000 changes would be slow in memory.
  db.exec('PRAGMA temp_store = MEMORY')
  db.exec('BEGIN IMMEDIATE; COMMIT')
}

function explain(error: unknown, path: string): unknown {
  switch (sqliteCode(error)) {
    case SQLITE.BUSY:
      return new Error(`ledger ${path} is in use by another process`, { cause: error })
    case SQLITE.NOT_A_DATABASE:
      return new Error(`${path} is not an SQLite file`, { cause: error })
    case null:
      // Ours say which file it is; the binding's do not, and some come without SQLite's code.
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
