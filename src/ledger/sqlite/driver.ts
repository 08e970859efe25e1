/**
 * The only chooser of an SQLite binding. Node has one built in from 22.13 on; before that the
 * package `@photostructure/sqlite` offers the same API. Everything else in this folder sees the
 * narrow types below, which both of them satisfy.
 */

export type SqlValue = string | number | null

/** A boolean in SQLite. */
export type Flag = 0 | 1

/**
 * `P`: its parameters in order, with their names, so that one too few or two in the wrong places are
 * errors of the compiler: SQLite binds NULL to what is not given. `R`: its rows, taken at their word.
 */
export interface Statement<P extends readonly SqlValue[] = readonly SqlValue[], R = unknown> {
  run(...values: P): { changes: number }
  /** The first row, or undefined. */
  get(...values: P): R | undefined
  all(...values: P): R[]
}

/** Of a SELECT that always has one. */
export function onlyRow<R>(row: R | undefined): R {
  if (row === undefined) throw new Error('there is no row where there is always one')
  return row
}

export interface Database {
  exec(sql: string): void
  prepare<P extends readonly SqlValue[] = readonly SqlValue[], R = unknown>(
    sql: string,
  ): Statement<P, R>
  /** Leaves one file behind, which anybody can open. */
  close(): void
  /** Without a write: for a file that is not ours. */
  closeAsItIs(): void
  /** Null: it cannot be known. */
  isTransaction(): boolean | null
}

type Module = Pick<typeof import('@photostructure/sqlite'), 'DatabaseSync'>

/**
 * Opens or creates the file, and its folder not. Rejects with the binding's own error, which
 * `sqliteCode` reads; also where the binding cannot be loaded.
 */
export async function openDatabase(path: string): Promise<Database> {
  const { DatabaseSync } = await loadModule()
  const db = new DatabaseSync(path)
  return {
    exec: (sql) => db.exec(sql),
    // Counts are numbers as long as nobody calls `setReadBigInts`, which types cannot tell.
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
    // Absent in Node before 22.16, which then cannot be asked.
    isTransaction: () => db.isTransaction ?? null,
  }
}

/**
 * SQLite from 3.47 on looks at the value of a variable that stands alone behind LIMIT, and plans the
 * whole statement anew whenever another one is bound, which costs up to 25 µs. Not in an expression.
 */
function planOnce(sql: string): string {
  return sql.replaceAll(/\bLIMIT \?/g, 'LIMIT 0 + ?')
}

/**
 * The package does not finalize statements at `close` and offers no way to do it, so that SQLite
 * would keep the file locked until they are collected. Leaving WAL needs no finalizing, unlocks
 * the file, and leaves one file without companions behind. Who may not write stays in WAL, and with
 * the package keeps the lock on a file that is in it.
 */
function letGo(db: Pick<Database, 'exec'>, leaveWal: readonly string[] = []): void {
  try {
    db.exec('PRAGMA busy_timeout = 0')
    for (const sql of leaveWal) db.exec(sql)
    db.exec('PRAGMA locking_mode = NORMAL')
    // The lock goes with the next transaction.
    db.exec('SELECT count(*) FROM sqlite_master')
  } catch {
    // Disk full, locked by another, or not a database: the next process recovers the WAL.
  }
}

async function loadModule(): Promise<Module> {
  // Not a dynamic import: bundlers and Node 20 would try to resolve the name and fail.
  const builtIn: unknown = unwarned(() => process.getBuiltinModule?.('node:sqlite'))
  return builtIn ? (builtIn as Module) : await import('@photostructure/sqlite')
}

/** Node 22 and 24 call theirs experimental, once a process, in two lines that are no log lines. */
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
export const SQLITE = { BUSY: 5, CONSTRAINT: 19, NOT_A_DATABASE: 26 } as const
