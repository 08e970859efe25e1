/** A ledger in a file as tables. A new one is written beside its place, and moved there when it is whole. */
import { existsSync, renameSync, rmSync } from 'node:fs'
import type { Logger } from '../../logger.ts'
import { openLedgerFile } from '../sqlite/open.ts'
import type { Database, SqlValue } from '../sqlite/sql/driver.ts'
import type { Store, Value, Values } from './store.ts'
import { KEPT_SETTINGS, type Table } from './tables.ts'

const PAGE = 500

/** `isNew`: the file must not be there yet. Rejects while a gateway has it. */
export async function sqliteStore(path: string, logger: Logger, isNew: boolean): Promise<Store> {
  if (isNew && existsSync(path)) throw new Error(`${path} exists already`)
  if (!isNew && !existsSync(path)) throw new Error(`${path} does not exist`)
  const file = isNew ? `${path}.copying` : path
  if (isNew) remove(file)
  const db = await openLedgerFile({ path: file, sync: 'full', logger })
  db.exec('BEGIN')
  return new SqliteStore(db, file, path)
}

function remove(file: string): void {
  for (const suffix of ['', '-wal', '-shm']) rmSync(`${file}${suffix}`, { force: true })
}

class SqliteStore implements Store {
  readonly shown: string
  readonly #db: Database
  readonly #file: string
  readonly #path: string
  #isOpen = true

  constructor(db: Database, file: string, path: string) {
    this.#db = db
    this.#file = file
    this.#path = path
    this.shown = `sqlite:${path}`
  }

  async isEmpty(): Promise<boolean> {
    return this.#file !== this.#path
  }

  async *read(table: Table): AsyncIterable<Values[]> {
    const names = table.columns.map(
      ({ name, sqlite = name, form }) => `${form ? form.read : `t.${sqlite}`} AS ${name}`,
    )
    const text = `SELECT ${names.join()} FROM ${table.sqlite ?? table.name} t
      ORDER BY ${table.key.join()} LIMIT ? OFFSET ?`
    const select = this.#db.prepare<[number, number], Record<string, Value>>(text)
    for (let at = 0; ; at += PAGE) {
      const rows = select.all(PAGE, at)
      if (rows.length > 0)
        yield rows.map((row) => table.columns.map(({ name }) => row[name] ?? null))
      if (rows.length < PAGE) return
    }
  }

  async write(table: Table, rows: readonly Values[]): Promise<void> {
    const parts = table.columns.flatMap(({ name, sqlite = name, form }, i) =>
      Object.entries(form?.write ?? { [sqlite]: '?1' }).map(([column, from]) => ({
        column,
        value: from.replaceAll('?1', `?${i + 1}`),
        i,
      })),
    )
    const into = parts.map(({ column }) => column)
    const values = parts.map(({ value }) => value)
    const insert = this.#db.prepare<SqlValue[]>(
      `INSERT INTO ${table.sqlite ?? table.name} (${into.join()}) SELECT ${values.join()}
       WHERE ?${table.columns.length} IS NOT NULL OR true`,
    )
    for (const row of rows) insert.run(...row)
  }

  async settings(): Promise<Record<string, number>> {
    const rows = this.#db
      .prepare<[], { name: string; value: number }>('SELECT name, value FROM settings')
      .all()
    const kept = rows.filter(({ name }) => KEPT_SETTINGS.includes(name))
    return Object.fromEntries(kept.map(({ name, value }) => [name, value]))
  }

  async finish(settings: Record<string, number>): Promise<void> {
    const set = this.#db.prepare<[string, number]>(
      `INSERT INTO settings (name, value) VALUES (?, ?)
       ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
    )
    for (const [name, value] of Object.entries(settings)) set.run(name, value)
    for (const text of DERIVED) this.#db.exec(text)
  }

  async ask(sql: string): Promise<Record<string, Value>[]> {
    return this.#db.prepare<[], Record<string, Value>>(sql.replaceAll('%S.', '')).all()
  }

  async commit(): Promise<void> {
    this.#db.exec('COMMIT')
    this.#isOpen = false
    this.#db.close()
    if (this.#file !== this.#path) renameSync(this.#file, this.#path)
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#db.exec('ROLLBACK')
    this.#db.close()
    if (this.#file !== this.#path) remove(this.#file)
  }
}

/** Unique keys are not among it: the ledger finds them by itself, from the first row on. */
const DERIVED: readonly string[] = [
  `DELETE FROM state_counts`,
  `INSERT INTO state_counts (queue, state, count)
    SELECT queue, state, count(*) FROM jobs WHERE state <> 'withdrawn' GROUP BY queue, state
    UNION ALL SELECT queue, 'dead_letter', count(*) FROM jobs WHERE dead_letter = 1 GROUP BY queue
    UNION ALL SELECT queue, 'with_native', count(*) FROM jobs
      WHERE state = 'available' AND holder = 'native' GROUP BY queue
    UNION ALL SELECT queue, 'held', count(*) FROM jobs
      WHERE state = 'available' AND holder = 'ledger' GROUP BY queue`,
  `INSERT INTO concurrency (key, active) SELECT concurrency_key, count(*) FROM jobs
    WHERE concurrency_key IS NOT NULL AND state = 'active' GROUP BY concurrency_key`,
  `INSERT OR IGNORE INTO settings (name, value)
    SELECT 'has_keyed', 1 FROM jobs WHERE concurrency_key IS NOT NULL LIMIT 1`,
  // Above every nonce that was given out.
  `UPDATE settings SET value = max(value, coalesce((SELECT max(outbox) FROM jobs), 0),
      coalesce((SELECT max(registration) FROM schemas), 0))
    WHERE name = 'outbox_ceiling'`,
]
