import { afterAll, afterEach, beforeEach } from 'vitest'
import { readHistory, type StateChange } from '../../../src/job/history/changes.ts'
import { isTerminal, type RowState } from '../../../src/job/job.ts'
import { canBecome } from '../../../src/job/states.ts'
import { Access } from '../../../src/ledger/sqlite/commit/access.ts'
import { SqliteLedger } from '../../../src/ledger/sqlite/ledger.ts'
import type { Database, SqlValue, Statement } from '../../../src/ledger/sqlite/sql/driver.ts'
import { prepareStatements } from '../../../src/ledger/sqlite/sql/statements.ts'
import { KeptKeys } from '../../../src/ledger/sqlite/state/kept-keys.ts'
import { SqliteIdempotency } from '../../../src/ledger/sqlite/writes/idempotency.ts'
import { late } from '../../support/time/late.ts'
import { SILENT } from '../../support/time/silent.ts'
import type { LedgerHarness, Planted } from '../harness.ts'
import { LedgerFile } from './ledger-file.ts'

export interface SqliteHarness extends LedgerHarness {
  readonly ledger: SqliteLedger
  /** The ledger's own connection, because no other one may open the file. */
  readonly db: Database
}

/** A ledger for each test of the file or `describe` that calls this. */
export function ledgerOfTest(): SqliteHarness {
  const open = sqliteHarnesses()
  let harness: SqliteHarness
  beforeEach(async () => {
    harness = await open()
  })
  afterEach(() => harness.destroy())
  return late(() => harness)
}

/**
 * Opens harnesses for the tests of the file or `describe` that calls this, which use files again.
 * `jobsPerMove`: see `RecentUniqueKeys`.
 */
export function sqliteHarnesses(jobsPerMove?: number): () => Promise<SqliteHarness> {
  const spare: LedgerFile[] = []
  afterAll(() => {
    for (const file of spare) file.remove()
  })
  return async () =>
    new FileHarness(
      spare.pop() ?? (await LedgerFile.create()),
      (file) => {
        if (file.renew()) spare.push(file)
        else file.remove()
      },
      jobsPerMove,
    )
}

/** Opens a harness with a file of its own. */
export async function openSqliteHarness(): Promise<SqliteHarness> {
  return new FileHarness(await LedgerFile.create(), (file) => file.remove())
}

class FileHarness implements SqliteHarness {
  readonly #file: LedgerFile
  readonly #giveBack: (file: LedgerFile) => void
  readonly #jobsPerMove: number | undefined
  #opened: Pick<SqliteHarness, 'db' | 'ledger'>

  constructor(file: LedgerFile, giveBack: (file: LedgerFile) => void, jobsPerMove?: number) {
    this.#file = file
    this.#giveBack = giveBack
    this.#jobsPerMove = jobsPerMove
    this.#opened = this.#open()
  }

  get db(): Database {
    return this.#opened.db
  }

  get ledger(): SqliteLedger {
    return this.#opened.ledger
  }

  async reopen(): Promise<void> {
    await this.ledger.close()
    await this.#file.reopen()
    this.#opened = this.#open()
  }

  async plant(rows: readonly Planted[]): Promise<void> {
    await this.ledger.close()
    plantRows(this.db, rows)
    this.#opened = this.#open()
  }

  async recount(): ReturnType<LedgerHarness['recount']> {
    return this.ledger.recount()
  }

  async inspect(): Promise<string[]> {
    return inspect(this.db)
  }

  async pruneKeys(capacity: number, now: number, limit: number): Promise<number> {
    const { db } = this
    const access = new Access({ db, committedStates: [], logger: SILENT, probe() {} })
    return await new SqliteIdempotency(access, prepareStatements(db), capacity).prune(now, limit)
  }

  async pruneKeptKeys(capacity: number, now: number, limit: number): Promise<number> {
    return new KeptKeys(prepareStatements(this.db), capacity).prune(now, limit)
  }

  async countedQueues(): Promise<string[]> {
    const rows = this.db.prepare<[], { queue: string }>('SELECT queue FROM state_counts').all()
    return [...new Set(rows.map(({ queue }) => queue))]
  }

  async destroy(): Promise<void> {
    await this.ledger.close()
    this.#giveBack(this.#file)
  }

  #open(): Pick<SqliteHarness, 'db' | 'ledger'> {
    const db = this.#file.lend()
    return { db, ledger: new SqliteLedger(db, SILENT, Date.now, undefined, this.#jobsPerMove) }
  }
}

/** Lets every write to this job fail from now on, like an unknown bug of the ledger would. */
export function refuseChangesOf(db: Database, id: string): void {
  db.exec(`CREATE TEMP TRIGGER refused BEFORE UPDATE ON main.jobs WHEN old.id = '${id}'
    BEGIN SELECT RAISE(ABORT, 'not this one'); END`)
}

function plantRows(db: Database, rows: readonly Planted[]): void {
  db.exec('BEGIN; INSERT INTO temp.planting VALUES (1)')
  for (const { id, ...change } of rows) {
    db.prepare(`UPDATE jobs SET history = '' WHERE id = ?`).run(id)
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
    WHERE state = 'available' AND holder = 'native' GROUP BY queue
    UNION ALL
    SELECT queue, 'held', count(*) FROM jobs
    WHERE state = 'available' AND holder = 'ledger' GROUP BY queue`)
  db.exec(`DELETE FROM concurrency; INSERT INTO concurrency
    SELECT concurrency_key, count(*) FROM jobs
    WHERE concurrency_key IS NOT NULL AND state = 'active' GROUP BY 1`)
  db.exec('DELETE FROM temp.planting; COMMIT')
}

/** Columns whose names are older than the words that the code uses. */
const OLD_COLUMNS: Readonly<Record<string, string>> = {
  messageOut: 'token_out',
  messageAttempt: 'token_attempt',
  retryQueueMs: 'rung_ms',
}

function snakeCase(name: string): string {
  if (name === 'isDeadLetter') return 'dead_letter'
  const column = OLD_COLUMNS[name]
  if (column !== undefined) return column
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/**
 * Finds damage of the file, rows that have `ended_at` (which most indexes use) without having ended or
 * the other way round, dead letters that are not discarded, workflows that contradict their jobs, and rows with
 * a unique key that would not be found by it after a restart, or the other way round.
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
       UNION ALL ${WRONG_KEYS}
       UNION ALL ${WRONG_WORKFLOWS}`,
    )
    .all() as { wrong: string }[]
  return [...rows.map(({ wrong }) => wrong), ...wrongHistories(db)]
}

/** Rows whose recorded changes do not lead to their state, or not by way of the transition table. */
function wrongHistories(db: Database): string[] {
  const rows = db.prepare(`SELECT id, state, history FROM jobs WHERE history <> ''`).all() as {
    id: string
    state: RowState
    history: string
  }[]
  return rows.flatMap(({ id, state, history }) => {
    const { changes } = readHistory(history)
    const isOff = ({ from, to }: StateChange) =>
      from !== null && from !== to && !canBecome(from, to)
    const wrong = changes.filter(isOff).map(({ from, to }) => `${id} went from ${from} to ${to}`)
    const last = changes.at(-1)?.to
    return last === state ? wrong : [...wrong, `${id} is ${state}, by its history ${last}`]
  })
}

const WRONG_KEYS = `
  SELECT id || ' is not found by its key ' || unique_key FROM jobs
  WHERE unique_key IS NOT NULL AND crowded = 0
    AND seq <= (SELECT value FROM settings WHERE name = 'unique_keys_to')
    AND NOT EXISTS (SELECT 1 FROM unique_keys k
      WHERE k.beginning = substr(unique_key, 1, 10) AND k.seq = jobs.seq)
  UNION ALL
  SELECT 'row ' || k.seq || ' does not have the key ' || k.beginning FROM unique_keys k
  WHERE NOT EXISTS (SELECT 1 FROM jobs
    WHERE k.beginning = substr(unique_key, 1, 10) AND k.seq = jobs.seq AND crowded = 0)`

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
