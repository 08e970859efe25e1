/** The mark in the file of a ledger that is open, and what the files say before SQLite opens them. */
import { createHash } from 'node:crypto'
import { closeSync, fstatSync, ftruncateSync, openSync, readFileSync, readSync } from 'node:fs'
import type { LedgerWarning } from '../known.ts'
import { type Database, inTransaction, onlyRow, SQLITE, sqliteCode } from './sql/driver.ts'
import { scanWal, type WalScan } from './wal-scan.ts'

/** "OJSL": marks the file as a ledger, so that no other SQLite file is ever written to. */
export const LEDGER_ID = 0x4f4a534c
/** "OJSR": a ledger that a gateway has open, or had when it was killed. */
export const RUNNING_ID = 0x4f4a5352
/** The log is never shorter while a gateway runs. With this size SQLite begins it anew (`wal_autocheckpoint`). */
const LOG_BYTES = 8 * 1024 * 1024
/** In a database file: its journal mode, and the `application_id`. */
const READ_VERSION_AT = 19
const APPLICATION_ID_AT = 68
const HEADER_BYTES = 100
const WAL_MODE = 2

/** What the files of a ledger say before SQLite has opened them. */
export interface FoundFiles {
  /** By the database file alone: its gateway was killed. */
  wasRunning: boolean
  log: WalScan
}

/**
 * Looks at the files before SQLite does, whose recovery takes whatever part of the -wal it finds intact for
 * all there ever was. Throws if the -wal belongs to another state of the file: SQLite would write it into it.
 */
export function lookAtFiles(path: string): FoundFiles {
  const logPath = `${path}-wal`
  const header = headerOf(path)
  const log = scanWal(logPath)
  // A gateway that stops deletes the -wal before it leaves the mode.
  if (log.hasHeader && header.length === HEADER_BYTES && header[READ_VERSION_AT] !== WAL_MODE) {
    throw new Error(
      `${logPath} exists, but the gateway that wrote ${path} was stopped and had none: ` +
        'it belongs to another copy of the file, and would damage this one. Move it away',
    )
  }
  const id = header.length < HEADER_BYTES ? 0 : header.readUInt32BE(APPLICATION_ID_AT)
  return { wasRunning: id === RUNNING_ID, log }
}

function headerOf(path: string): Buffer {
  const file = openSync(path, 'r')
  try {
    const header = Buffer.alloc(HEADER_BYTES)
    return header.subarray(0, readSync(file, header, 0, HEADER_BYTES, 0))
  } finally {
    closeSync(file)
  }
}

/**
 * Marks the database file, and not only its log: from now on a log that is missing or too short was cut.
 * A process that is killed leaves the log as it is, or its last frame half written. With a full disk there is
 * no mark, because the gateway must start all the same.
 */
export function markRunning(db: Database, path: string): void {
  try {
    inTransaction(db, [
      `PRAGMA application_id = ${RUNNING_ID}`,
      `UPDATE settings SET value = ${thisBoot() ?? 0} WHERE name = 'boot'`,
    ])
    makeLong(db, `${path}-wal`)
    // Syncs the log, and then writes the mark into the database file.
    db.exec('PRAGMA wal_checkpoint(FULL)')
  } catch (error) {
    if (sqliteCode(error) !== SQLITE.FULL) throw error
  }
}

export function markStopped(db: Database): void {
  try {
    db.exec(`PRAGMA application_id = ${LEDGER_ID}`)
  } catch {
    // The disk is full, for example. Then the log stays as well.
  }
}

/** The tail is a hole, which takes no space. SQLite reads a log only as far as its frames are valid. */
function makeLong(db: Database, logPath: string): void {
  try {
    const file = openSync(logPath, 'r+')
    try {
      if (fstatSync(file).size < LOG_BYTES) ftruncateSync(file, LOG_BYTES)
    } finally {
      closeSync(file)
    }
  } catch {
    // A quota or a limit of file sizes: the log will be shorter than the mark says.
    markStopped(db)
  }
}

/**
 * A warning if commits are missing that the gateway before this one has answered. `db`: opened, and not marked yet.
 *
 * A loss of power may leave any part of the last, unsynced transaction, also its end without its middle. Only
 * where the machine was not started since is a single commit behind a damaged frame one that was finished.
 */
export function cutShort(
  { wasRunning, log }: FoundFiles,
  db: Database,
  path: string,
): LedgerWarning | null {
  if (!wasRunning) return null
  const tolerated = bootOf(db) === thisBoot() ? 0 : 1
  const file = `${path}-wal`
  if (log.bytes === 0) return warningOf(file, 'missing')
  if (log.bytes < LOG_BYTES) return warningOf(file, 'shortened')
  return !log.hasHeader || log.cutOff > tolerated ? warningOf(file, 'damaged') : null
}

const WHAT = {
  missing: 'is missing or empty',
  shortened: 'is shorter than it was',
  damaged: 'is damaged',
} as const

function warningOf(file: string, reason: keyof typeof WHAT): LedgerWarning {
  const message =
    `The gateway before this one was killed, and ${file} ${WHAT[reason]}: what was stored last is ` +
    'lost, which can be everything since the last checkpoint (some 8 MB of changes). See ' +
    '"A ledger that was cut short" in docs/operate/operations.md.'
  return { code: 'ledger_cut_short', message, details: { file, reason } }
}

function bootOf(db: Database): number {
  return onlyRow(
    db.prepare<[], { value: number }>(`SELECT value FROM settings WHERE name = 'boot'`).get(),
  ).value
}

/** Names this start of the machine, in 48 bits; null where the system does not tell. */
function thisBoot(): number | null {
  try {
    const id = readFileSync('/proc/sys/kernel/random/boot_id')
    return createHash('sha256').update(id).digest().readUIntBE(0, 6)
  } catch {
    return null
  }
}
