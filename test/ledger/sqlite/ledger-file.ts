import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { JOB_STATES } from '../../../src/job/job.ts'
import { canBecome } from '../../../src/job/states.ts'
import { openLedgerFile } from '../../../src/ledger/sqlite/open.ts'
import type { Database, SqlValue, Statement } from '../../../src/ledger/sqlite/sql/driver.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { SILENT } from '../../support/time/silent.ts'

/** Nothing is synced, because no test of these files loses power. */
async function open(path: string): Promise<Database> {
  const db = await openLedgerFile({ path, sync: 'normal', logger: SILENT })
  db.exec(`CREATE TEMP TABLE new_settings AS SELECT * FROM main.settings;
    CREATE TEMP TABLE planting (at_all); ${judgeOfTransitions()}`)
  return db
}

const ROW_STATES = [...JOB_STATES, 'withdrawn'] as const

/** A trigger that refuses every transition that the transition table does not have, but for planted rows. */
function judgeOfTransitions(): string {
  const moves = ROW_STATES.flatMap((from) =>
    ROW_STATES.filter((to) => from !== to && canBecome(from, to)).map((to) => `'${from} → ${to}'`),
  )
  const move = `old.state || ' → ' || new.state`
  return `CREATE TEMP TRIGGER transitions AFTER UPDATE OF state ON main.jobs
    WHEN old.state <> new.state AND ${move} NOT IN (${moves.join(', ')})
      AND NOT EXISTS (SELECT 1 FROM temp.planting)
    BEGIN SELECT RAISE(ABORT, 'no such transition'); END`
}

/** A new file with the schema, made once per process: that saves a third of the CPU of a `LedgerFile`. */
let newFile: Promise<Buffer> | undefined

async function migratedFile(): Promise<Buffer> {
  const directory = temporaryDirectory()
  const path = join(directory.path, 'ojs.db')
  const db = await open(path)
  db.close()
  const file = readFileSync(path)
  directory.remove()
  return file
}

/** A file is removed rather than emptied from this size on: 2 MiB in pages of 4 KiB. */
const MANY_PAGES = 512

/**
 * An open ledger file that serves several tests, one after the other: to open one and to prepare all
 * statements takes more CPU than most tests.
 */
export class LedgerFile {
  readonly #path: string
  readonly #remove: () => void
  readonly #prepared = new Map<string, Statement>()
  #db: Database

  private constructor(path: string, db: Database, remove: () => void) {
    this.#path = path
    this.#db = db
    this.#remove = remove
  }

  static async create(): Promise<LedgerFile> {
    const directory = temporaryDirectory()
    const path = join(directory.path, 'ojs.db')
    newFile ??= migratedFile()
    writeFileSync(path, await newFile)
    return new LedgerFile(path, await open(path), directory.remove)
  }

  /** For one ledger, which cannot close it, and to which a test may do what it likes. */
  lend(): Database {
    const prepare = <P extends readonly SqlValue[], R>(sql: string): Statement<P, R> => {
      const statement = this.#prepared.get(sql) ?? this.#db.prepare(sql)
      this.#prepared.set(sql, statement)
      return statement as Statement<P, R>
    }
    return { ...this.#db, prepare, close() {} }
  }

  /** As a restart of the gateway does. */
  async reopen(): Promise<void> {
    const asNew = this.#db.prepare('SELECT * FROM temp.new_settings').all() as Setting[]
    this.#db.close()
    this.#prepared.clear()
    this.#db = await open(this.#path)
    const set = this.#db.prepare('UPDATE temp.new_settings SET value = ?2 WHERE name = ?1')
    for (const { name, value } of asNew) set.run(name, value)
  }

  /** Makes it a new ledger again. False: it has grown, or the test left more behind than rows. */
  renew(): boolean {
    try {
      const { pages, temporary, tables } = this.lend().prepare(EXTENT).get() as Extent
      if (pages >= MANY_PAGES || temporary !== OWN_TEMPORARY) return false
      this.#db.exec(
        `BEGIN; ${tables}; INSERT INTO settings SELECT * FROM temp.new_settings; COMMIT`,
      )
      return true
    } catch {
      // The test has left a transaction open, for example.
      return false
    }
  }

  remove(): void {
    this.#db.close()
    this.#remove()
  }
}

interface Setting {
  name: string
  value: number
}

/** `new_settings`, `planting` and `transitions`. */
const OWN_TEMPORARY = 3

type Extent = { pages: number; temporary: number; tables: string }

const EXTENT = `SELECT page_count AS pages, (SELECT count(*) FROM sqlite_temp_master) AS temporary,
  (SELECT group_concat('DELETE FROM ' || name, '; ') FROM sqlite_master
    WHERE type = 'table' AND name NOT LIKE 'sqlite_stat%') AS tables FROM pragma_page_count`
