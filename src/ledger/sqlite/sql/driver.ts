/** The only module that chooses an SQLite binding. All others see narrow types that both bindings satisfy. */
import { messageOf } from '../../../errors.ts'

export type SqlValue = string | number | null

/** A boolean in SQLite. */
export type Flag = 0 | 1

/**
 * `P`: its parameters in order, with their names, so that the compiler finds one that is missing or in the
 * wrong place: SQLite binds NULL to a missing one. `R`: the type of its rows, which nothing checks.
 */
export interface Statement<P extends readonly SqlValue[] = readonly SqlValue[], R = unknown> {
  /** `lastInsertRowid`: of the last row that any statement has inserted. */
  run(...values: P): { changes: number; lastInsertRowid: number }
  /** The first row, or undefined. */
  get(...values: P): R | undefined
  all(...values: P): R[]
}

/** The row of a statement that always returns one. */
export function onlyRow<R>(row: R | undefined): R {
  if (row === undefined) throw new Error('bug: a statement that always returns a row returned none')
  return row
}

export interface Database {
  exec(sql: string): void
  prepare<P extends readonly SqlValue[] = readonly SqlValue[], R = unknown>(
    sql: string,
  ): Statement<P, R>
  /** Closes, and leaves a single file behind (no -wal) that other programs can open. */
  close(): void
  /** Closes without writing: for a file that is not ours. */
  closeAsItIs(): void
  /** Null: the binding cannot tell. */
  isTransaction(): boolean | null
}

type Module = Pick<typeof import('@photostructure/sqlite'), 'DatabaseSync'>

/**
 * Opens or creates the file, but not its folder. Rejects with the binding's own error, which `sqliteCode`
 * reads, and also if the binding cannot be loaded.
 */
export async function openDatabase(path: string): Promise<Database> {
  const { DatabaseSync } = await loadModule()
  const db = new DatabaseSync(path)
  return {
    exec: (sql) => db.exec(sql),
    // The cast is right as long as nobody calls `setReadBigInts`: then all numbers would be bigints.
    prepare: <P extends readonly SqlValue[], R>(sql: string) =>
      db.prepare(planOnce(sql)) as Statement<P, R>,
    close() {
      letGo(db, ['PRAGMA journal_mode = DELETE'])
      db.close()
    },
    closeAsItIs() {
      letGo(db)
      db.close()
    },
    // Node before 22.16 has no such property.
    isTransaction: () => db.isTransaction ?? null,
  }
}

/** Runs all or nothing, and throws what made it nothing. */
export function inTransaction(db: Database, statements: readonly string[]): void {
  db.exec('BEGIN IMMEDIATE')
  try {
    for (const sql of statements) db.exec(sql)
    db.exec('COMMIT')
  } catch (error) {
    rollBack(db)
    throw error
  }
}

/** Ignores a failure: a full disk, for example, has ended the transaction already. */
function rollBack(db: Database): void {
  try {
    db.exec('ROLLBACK')
  } catch {
    // The caller throws the first error.
  }
}

/**
 * Replaces `LIMIT ?` by `LIMIT 0 + ?`. SQLite from 3.47 on uses the value of a lone variable after LIMIT for
 * its plan, and plans the whole statement anew whenever another value is bound, which costs up to 25 µs. In
 * an expression it does not.
 */
function planOnce(sql: string): string {
  return sql.replaceAll(/\bLIMIT \?/g, 'LIMIT 0 + ?')
}

/**
 * Releases the lock before the close. The package does not finalize statements at `close` and offers no way
 * to do it, so SQLite would keep the file locked until they are garbage-collected. Leaving WAL needs no
 * finalizing, unlocks the file, and leaves a single file behind. `closeAsItIs` may not write, so the file
 * stays in WAL mode if it was, and the package then keeps its lock.
 */
function letGo(db: Pick<Database, 'exec'>, leaveWal: readonly string[] = []): void {
  try {
    db.exec('PRAGMA busy_timeout = 0')
    for (const sql of leaveWal) db.exec(sql)
    db.exec('PRAGMA locking_mode = NORMAL')
    // SQLite gives up the lock at the next transaction.
    db.exec('SELECT count(*) FROM sqlite_master')
  } catch {
    // Disk full, locked by another process, or not a database: the next process recovers the WAL.
  }
}

async function loadModule(): Promise<Module> {
  // No dynamic import of `node:sqlite`: bundlers and Node 20 would try to resolve the name and fail.
  const builtIn: unknown = unwarned(() => process.getBuiltinModule?.('node:sqlite'))
  return builtIn ? (builtIn as Module) : await import('@photostructure/sqlite')
}

/** Suppresses the warning of Node 22 and 24 that `node:sqlite` is experimental: it is no JSON log line. */
function unwarned<T>(load: () => T): T {
  const { emitWarning } = process
  process.emitWarning = () => {}
  try {
    return load()
  } finally {
    process.emitWarning = emitWarning
  }
}

const PRIMARY_CODE_MASK = 0xff

/** SQLite's primary result code, or null when the error is not SQLite's. */
export function sqliteCode(error: unknown): number | null {
  const code = error instanceof Error && 'errcode' in error ? error.errcode : null
  return typeof code === 'number' ? code & PRIMARY_CODE_MASK : null
}

/** The primary result codes that this folder tells apart (sqlite.org/rescode.html). */
export const SQLITE = {
  BUSY: 5,
  READONLY: 8,
  IO_ERROR: 10,
  CORRUPT: 11,
  FULL: 13,
  CONSTRAINT: 19,
  NOT_A_DATABASE: 26,
} as const

const ADVICE: Readonly<Record<number, string>> = {
  [SQLITE.READONLY]: 'make the file, its folder and their file system writable',
  [SQLITE.IO_ERROR]:
    "the disk fails, or its file system has become read-only: see the system's log (dmesg)",
  [SQLITE.CORRUPT]:
    'the file is damaged. Stop the gateway, keep a copy of the file and its -wal, and restore a backup: ' +
    'see "A damaged ledger" in docs/operate/operations.md',
}

/** The message of an error of SQLite; with what to do, where the message alone would not tell. */
export function adviceOn(error: unknown): string {
  const advice = ADVICE[sqliteCode(error) ?? 0]
  return advice === undefined ? messageOf(error) : `${messageOf(error)}: ${advice}`
}
