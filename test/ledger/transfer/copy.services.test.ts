import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { TOUCHABLE } from '../../../src/job/steer.ts'
import { LedgerClock } from '../../../src/ledger/postgres/clock.ts'
import type { Connection } from '../../../src/ledger/postgres/connection.ts'
import { openPostgresLedger } from '../../../src/ledger/postgres/open.ts'
import { schemaOf } from '../../../src/ledger/postgres/schema.ts'
import { standBy } from '../../../src/ledger/postgres/stand-by.ts'
import { openLedgerFile, openSqliteLedger } from '../../../src/ledger/sqlite/open.ts'
import type { Database } from '../../../src/ledger/sqlite/sql/driver.ts'
import { checkLedger } from '../../../src/ledger/transfer/check.ts'
import { copyLedger } from '../../../src/ledger/transfer/copy.ts'
import { postgresStore } from '../../../src/ledger/transfer/postgres-store.ts'
import { sqliteStore } from '../../../src/ledger/transfer/sqlite-store.ts'
import type { Store, Value } from '../../../src/ledger/transfer/store.ts'
import { TABLES, type Table } from '../../../src/ledger/transfer/tables.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { SILENT } from '../../support/time/silent.ts'
import { fenceOf, fetched, NOW, pushed, settleLazily } from '../harness.ts'
import { addressOf, connectTo, rowsOf, sharedPostgres } from '../postgres/server.ts'

const url = sharedPostgres()
const directory = temporaryDirectory()
let admin: Connection
beforeAll(async () => {
  admin = await connectTo(url())
})
afterAll(async () => {
  await admin.close()
  directory.remove()
})

/** Of a ledger that is not there yet. */
function place() {
  const prefix = `t${randomUUID().slice(0, 8)}`
  onTestFinished(async () => {
    await rowsOf(admin, `DROP SCHEMA IF EXISTS ${schemaOf(prefix)} CASCADE`)
  })
  return { address: addressOf(url()), prefix }
}

const VALUES: Readonly<Record<string, readonly Value[]>> = {
  'jobs.state': ['available', 'active'],
  'jobs.holder': [null, 'gateway'],
  'jobs.error': [null, '{"code":"boom","message":"ü \\u0000"}'],
  'workflows.type': ['chain', 'dag'],
  'workflows.state': ['running', 'completed'],
  'workflow_steps.progress': ['started', 'waiting'],
  'workflow_steps.workflow': [1, 2],
  'workflow_steps.node': [0, 7],
  'workflow_steps.depends_on': ['[]', null],
  'workflow_steps.inputs': ['[]', null],
  'workflow_steps.request': ['{}', null],
  'workflow_steps.error': [null, '{"code":"e"}'],
  'workflow_steps.job_id': ['jobs-id-0', null],
  'cron_jobs.overlap': ['skip', 'enqueue'],
  'cron_jobs.template': ['{"type":"a","args":[]}', '{"type":"a","options":{"queue":"q"}}'],
  'bulk_operations.state': ['running', 'completed'],
  'result_ends.job': [1, 2],
  'maintenance.started_at': [7, 8],
}

/** Two rows in each table, with another value in every column. */
function plant(db: Database): void {
  for (const table of TABLES) {
    const { name, sqlite = name, columns } = table
    const types = new Map(
      db
        .prepare<[], { name: string; type: string }>(`PRAGMA table_info(${sqlite})`)
        .all()
        .map((column) => [column.name, column.type]),
    )
    const names = ownColumns(columns)
    const insert = db.prepare<Value[]>(
      `INSERT INTO ${sqlite} (${names.join()}) VALUES (${names.map(() => '?').join()})`,
    )
    for (const i of name === 'maintenance' ? [0] : [0, 1])
      insert.run(...names.map((own, at) => planted(table, own, i, { at, type: types.get(own) })))
  }
}

/** SQLite's. */
function ownColumns(columns: Table['columns']): string[] {
  return columns.flatMap(({ name, sqlite = name, form }) =>
    form ? Object.keys(form.write) : [sqlite],
  )
}

function planted(
  { name, columns }: Table,
  own: string,
  i: number,
  { at, type }: { at: number; type: string | undefined },
): Value {
  const given = VALUES[`${name}.${own}`]
  if (given) return given[i] ?? null
  if (columns.some(({ name, sqlite = name, isFlag }) => sqlite === own && isFlag)) return i
  if (type === 'TEXT') return `${name}-${own}-${i}`
  return type === 'REAL' ? 0.25 + i : i + 1 + (own === 'seq' ? 0 : 100 * at)
}

async function openFile(path: string): Promise<Database> {
  return openLedgerFile({ path, sync: 'normal', logger: SILENT })
}

/** All rows of all tables that are copied, by SQLite's own names. */
async function contentOf(path: string): Promise<Record<string, unknown[]>> {
  const db = await openFile(path)
  try {
    return Object.fromEntries(
      TABLES.map(({ name, sqlite = name, columns }) => {
        const names = ownColumns(columns)
        return [
          name,
          db.prepare(`SELECT ${names.join()} FROM ${sqlite} ORDER BY ${names.join()}`).all(),
        ]
      }),
    )
  } finally {
    db.close()
  }
}

async function copied(from: Store, to: Store) {
  try {
    return await copyLedger(from, to)
  } finally {
    await to.close()
    await from.close()
  }
}

it('every column of every table comes to PostgreSQL and back as it was', async () => {
  const [first, second] = [join(directory.path, 'a.db'), join(directory.path, 'b.db')]
  const db = await openFile(first)
  plant(db)
  db.close()
  const there = place()
  const toPostgres = await postgresStore(there, SILENT, true)
  const tables = await copied(await sqliteStore(first, SILENT, false), toPostgres)
  expect(tables.map(({ table, rows }) => [table, rows])).toEqual(
    TABLES.map(({ name }) => [name, name === 'maintenance' ? 1 : 2]),
  )
  const back = await sqliteStore(second, SILENT, true)
  await copied(await postgresStore(there, SILENT, true), back)
  expect(await contentOf(second)).toEqual(await contentOf(first))
  const [job] = await rowsOf(
    admin,
    `SELECT error_code FROM ${schemaOf(there.prefix)}.jobs ORDER BY error_code DESC`,
  )
  expect(job).toMatchObject({ error_code: 'boom' })
  const again = sqliteStore(second, SILENT, true)
  await expect(again).rejects.toThrow('exists already')
  const full = await postgresStore(there, SILENT, true)
  await expect(copied(await sqliteStore(first, SILENT, false), full)).rejects.toThrow('not empty')
})

it('work goes on after a copy, with the counts and the order of before', async () => {
  const path = join(directory.path, 'work.db')
  const before = await openSqliteLedger({ path, sync: 'normal', logger: SILENT })
  await before.recordQueue('default', NOW)
  const running = await fetched(before)
  const waiting = await pushed(before)
  const ended = await fetched(before)
  await before.complete(ended.id, fenceOf(ended), { now: NOW, result: '{"ok":1}' } as never)
  const deleted = await fetched(before)
  await before.complete(deleted.id, fenceOf(deleted), { now: NOW, result: null } as never)
  const how = {
    states: TOUCHABLE.delete,
    deadLettersOnly: false,
    sparesRetried: false,
    scope: null,
  }
  const terms = { now: NOW, wall: NOW, cause: { requestId: 'r' }, maxMs: 1_000 }
  await before.bulk.act([deleted.id], { action: 'delete', ...how }, terms)
  await before.epochs.record(NOW, 1)
  await before.close()

  const there = place()
  const target = await postgresStore(there, SILENT, true)
  await copied(await sqliteStore(path, SILENT, false), target)
  const checked = await postgresStore(there, SILENT, false)
  const { problems, ...numbers } = await checkLedger(checked)
  await checked.close()
  expect({ problems, ...numbers }).toEqual({ problems: [], jobs: 3, erased: 1, owedMessages: 1 })

  const after = await openPostgresLedger({ ...there, logger: SILENT })
  onTestFinished(() => after.close())
  expect(after.known.counts('default')).toMatchObject({ active: 1, available: 1, completed: 1 })
  expect(await after.read.find(ended.id)).toMatchObject({ result: '{"ok":1}' })
  expect(await after.read.epochs.all()).toEqual([NOW, 1])
  expect((await after.read.outboxPage(0, 10)).map(({ id }) => id)).toEqual([waiting.id])
  after.confirmed(waiting.outbox)
  await settleLazily(after)
  expect(await after.read.owedMessages(10)).toBe(0)
  expect(await after.complete(running.id, fenceOf(running), { now: NOW } as never)).toMatchObject({
    state: 'completed',
  })
  // A new job comes after those that were copied.
  const next = await pushed(after)
  const [{ seq } = { seq: 0 }] = await rowsOf(
    admin,
    `SELECT seq FROM ${schemaOf(there.prefix)}.jobs WHERE id = $1`,
    [next.id],
  )
  expect(Number(seq)).toBeGreaterThan(3)
  const wrong = `UPDATE ${schemaOf(there.prefix)}.state_counts SET count = count + 1 WHERE state = 'active'`
  await rowsOf(admin, wrong)
  const store = await postgresStore(there, SILENT, false)
  onTestFinished(() => store.close())
  expect((await checkLedger(store)).problems).toEqual(['default active: 1 kept, 0 counted'])
})

it('nothing is copied from or to a ledger that a gateway uses', async () => {
  const there = place()
  const clock = new LedgerClock()
  const { leadership } = await standBy(there, { url: () => 'http://a', clock, logger: SILENT })
  onTestFinished(() => leadership.close())
  await leadership.take()
  await expect(postgresStore(there, SILENT, true)).rejects.toThrow('stop all of them')
  await leadership.resign()
  const store = await postgresStore(there, SILENT, true)
  expect(await leadership.take()).toBe(false)
  await store.close()
  expect(await leadership.take()).toBe(true)
})
