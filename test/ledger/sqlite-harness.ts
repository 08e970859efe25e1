import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach } from 'vitest'
import { isTerminal, JOB_STATES } from '../../src/job/job.ts'
import { canBecome } from '../../src/job/states.ts'
import {
  type Database,
  openDatabase,
  type SqlValue,
  type Statement,
} from '../../src/ledger/sqlite/driver.ts'
import { SqliteLedger } from '../../src/ledger/sqlite/ledger.ts'
import { openLedgerFile } from '../../src/ledger/sqlite/open.ts'
import type { Logger } from '../../src/logger.ts'
import { late } from '../support/late.ts'
import type { LedgerHarness, Planted } from './harness.ts'

const ROW_STATES = [...JOB_STATES, 'withdrawn'] as const

export const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} }

/** A directory that the caller removes after its test. */
export function temporaryDirectory(): { path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'ojs-ledger-'))
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

export interface SqliteHarness extends LedgerHarness {
  readonly ledger: SqliteLedger
  /** The ledger's own connection, because no other one may open the file. */
  readonly db: Database
  readonly path: string
}

/** A new file with the schema, made once per process: that saves a third of the CPU of a harness. */
let newFile: Promise<Buffer> | undefined

async function migratedFile(): Promise<Buffer> {
  const directory = temporaryDirectory()
  const path = join(directory.path, 'ojs.db')
  const db = await openLedgerFile({ path, sync: 'normal', logger: SILENT })
  db.close()
  const file = readFileSync(path)
  directory.remove()
  return file
}

/** A ledger for each test of the file or `describe` that calls this. */
export function ledgerOfTest(): SqliteHarness {
  let harness: SqliteHarness
  beforeEach(async () => {
    harness = await openSqliteHarness()
  })
  afterEach(() => harness.destroy())
  return late(() => harness)
}

export async function openSqliteHarness(logger: Logger = SILENT): Promise<SqliteHarness> {
  const directory = temporaryDirectory()
  const path = join(directory.path, 'ojs.db')
  newFile ??= migratedFile()
  writeFileSync(path, await newFile)
  const open = async () => {
    const db = await openLedgerFile({ path, sync: 'full', logger })
    db.exec(judgeOfTransitions())
    return db
  }
  let db = await open()
  let ledger = new SqliteLedger(db, logger)
  const reopen = async () => {
    await ledger.close()
    db = await open()
    ledger = new SqliteLedger(db, logger)
  }
  return {
    get ledger() {
      return ledger
    },
    get db() {
      return db
    },
    path,
    reopen,
    async plant(rows) {
      await ledger.close()
      await plantRows(path, rows)
      await reopen()
    },
    recount: () => ledger.recount(),
    inspect: () => inspect(db),
    async destroy() {
      await ledger.close()
      directory.remove()
    },
  }
}

/** Lets every write to this job fail from now on, like an unknown bug of the ledger would. */
export function refuseChangesOf(db: Database, id: string): void {
  db.exec(`CREATE TEMP TRIGGER refused BEFORE UPDATE ON main.jobs WHEN old.id = '${id}'
    BEGIN SELECT RAISE(ABORT, 'not this one'); END`)
}

/** A trigger that refuses every transition that the transition table does not have. */
function judgeOfTransitions(): string {
  const moves = ROW_STATES.flatMap((from) =>
    ROW_STATES.filter((to) => from !== to && canBecome(from, to)).map((to) => `'${from} → ${to}'`),
  )
  const move = `old.state || ' → ' || new.state`
  return `CREATE TEMP TRIGGER transitions AFTER UPDATE OF state ON main.jobs
    WHEN old.state <> new.state AND ${move} NOT IN (${moves.join(', ')})
    BEGIN SELECT RAISE(ABORT, 'no such transition'); END`
}

async function plantRows(path: string, rows: readonly Planted[]): Promise<void> {
  const db = await openDatabase(path)
  db.exec('BEGIN')
  for (const { id, ...change } of rows) {
    const columns = Object.entries(change).map(([name, value]) => [snakeCase(name), value] as const)
    const ended = change.state && isTerminal(change.state) ? [['ended_at', 1] as const] : []
    for (const [column, value] of [...columns, ...ended]) {
      const bound: SqlValue = typeof value === 'boolean' ? Number(value) : value
      db.prepare(`UPDATE jobs SET ${column} = ? WHERE id = ?`).run(bound, id)
    }
  }
  db.exec(`DELETE FROM state_counts; INSERT INTO state_counts
    SELECT queue, state, count(*) FROM jobs WHERE state <> 'withdrawn' GROUP BY queue, state
    UNION ALL
    SELECT queue, 'dead_letter', count(*) FROM jobs WHERE dead_letter = 1 GROUP BY queue
    UNION ALL
    SELECT queue, 'with_native', count(*) FROM jobs
    WHERE state = 'available' AND holder = 'native' GROUP BY queue`)
  db.exec('COMMIT')
  db.close()
}

function snakeCase(name: string): string {
  if (name === 'isDeadLetter') return 'dead_letter'
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/**
 * Finds damage of the file, rows that have `ended_at` (which most indexes use) without having ended or
 * the other way round, dead letters that are not discarded, and workflows that contradict their jobs.
 */
export function inspect(db: Database): string[] {
  const rows = db
    .prepare(
      `SELECT integrity_check AS wrong FROM pragma_integrity_check WHERE integrity_check <> 'ok'
       UNION ALL
       SELECT id || ' is ' || state || ', ended at ' || ifnull(ended_at, 'never') FROM jobs
       WHERE (ended_at IS NULL) =
         (state IN ('completed', 'cancelled', 'discarded', 'withdrawn'))
       UNION ALL
       SELECT id || ' is ' || state || ' and a dead letter' FROM jobs
       WHERE dead_letter = 1 AND state <> 'discarded'
       UNION ALL ${WRONG_WORKFLOWS}`,
    )
    .all() as { wrong: string }[]
  return rows.map(({ wrong }) => wrong)
}

/** Workflows that cannot go on, or that contradict their steps and jobs. */
const WRONG_WORKFLOWS = `
  SELECT 'workflow ' || id || ' is ' || state || ' and has steps that '
    || iif(state = 'running', 'are all over', 'go on')
  FROM workflows w
  WHERE (state = 'running') <> EXISTS (
    SELECT 1 FROM workflow_steps s WHERE s.workflow = w.seq AND progress = 'started')
  UNION ALL
  SELECT 'workflow ' || w.id || ' is ' || w.state || ' and step ' || s.id || ' waits'
  FROM workflows w JOIN workflow_steps s ON s.workflow = w.seq
  WHERE w.state <> 'running' AND s.progress = 'waiting'
  UNION ALL
  SELECT 'step ' || s.id || ' is ' || s.progress || ' and its job ' || j.state
  FROM workflow_steps s JOIN jobs j ON j.id = s.job_id
  WHERE s.progress = 'started' AND j.ended_at IS NOT NULL
  UNION ALL
  SELECT 'workflow ' || w.id || ' counts wrongly' FROM workflows w
  WHERE (w.open, w.completed, w.failed) <> (
    SELECT sum(progress IN ('waiting', 'started')), sum(progress = 'completed'),
      sum(progress = 'failed')
    FROM workflow_steps s WHERE s.workflow = w.seq AND type IS NOT NULL AND is_callback = 0)`

/** The same database, which notes the text of each statement that it prepares. */
export function withTexts(db: Database): { noted: Database; texts: ReadonlyMap<unknown, string> } {
  const texts = new Map<unknown, string>()
  const prepare = <P extends readonly SqlValue[], R>(sql: string): Statement<P, R> => {
    const statement = db.prepare<P, R>(sql)
    texts.set(statement, sql)
    return statement
  }
  return { noted: { ...db, prepare }, texts }
}
