import { expect, onTestFinished, test } from 'vitest'
import { SqliteLedger } from '../../../src/ledger/sqlite/ledger.ts'
import type { Database } from '../../../src/ledger/sqlite/sql/driver.ts'
import { SILENT } from '../../support/time/silent.ts'
import { NOW, pushed } from '../harness.ts'
import { refuseChangesOf } from './harness.ts'
import { LedgerFile } from './ledger-file.ts'

async function create(): Promise<LedgerFile> {
  const file = await LedgerFile.create()
  onTestFinished(() => file.remove())
  return file
}

/** Every row of every table. */
function contentOf(db: Database): unknown[] {
  const tables = db.prepare(`SELECT name FROM sqlite_master WHERE type = 'table'`).all()
  return (tables as { name: string }[]).map(({ name }) => [
    name,
    db.prepare(`SELECT * FROM ${name}`).all(),
  ])
}

test('a renewed ledger file has the content of a new one', async () => {
  const file = await create()
  const asNew = contentOf(file.lend())
  const ledger = new SqliteLedger(file.lend(), SILENT)
  await pushed(ledger)
  await ledger.schemas.insert({ uri: 'a', type: 't', version: 1, content: '{}', createdAt: NOW }, 1)
  await ledger.epochs.noteSeen(NOW)
  await ledger.close()
  await file.reopen()
  expect(contentOf(file.lend())).not.toEqual(asNew)
  expect(file.renew()).toBe(true)
  expect(contentOf(file.lend())).toEqual(asNew)
})

test.each<[string, (db: Database) => unknown]>([
  ['a trigger', (db) => refuseChangesOf(db, 'a')],
  ['a transaction', (db) => db.exec('BEGIN')],
])('a ledger file is not renewed when %s was left behind', async (_, leave) => {
  const file = await create()
  leave(file.lend())
  expect(file.renew()).toBe(false)
})
