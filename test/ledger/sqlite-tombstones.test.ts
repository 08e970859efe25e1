import { afterEach, beforeEach, expect, it } from 'vitest'
import { prepareStatements } from '../../src/ledger/sqlite/statements.ts'
import { Tombstones } from '../../src/ledger/sqlite/tombstones.ts'
import { openSqliteHarness, type SqliteHarness } from './sqlite-harness.ts'

let harness: SqliteHarness
beforeEach(async () => {
  harness = await openSqliteHarness()
})
afterEach(() => harness.destroy())

it('keeps the newest tombstones, as many as there is room for', () => {
  const statements = prepareStatements(harness.db)
  const tombstones = new Tombstones(statements, 2)
  for (const [at, id] of ['a', 'b', 'a', 'c'].entries()) tombstones.record(id, 'q', at)
  tombstones.commit()
  expect(['a', 'b', 'c'].filter((id) => tombstones.has(id))).toEqual(['a', 'c'])
  expect([tombstones.count, new Tombstones(statements).count]).toEqual([2, 2])
})

it('forgets what a group that failed has counted', () => {
  const tombstones = new Tombstones(prepareStatements(harness.db))
  tombstones.record('a', 'q', 1)
  tombstones.keep()
  tombstones.record('b', 'q', 2)
  tombstones.undo()
  expect(tombstones.count).toBe(1)
  tombstones.discard()
  expect(tombstones.count).toBe(0)
})
