import { afterEach, beforeEach, expect, it } from 'vitest'
import { NOW, pushed, rowOf } from './harness.ts'
import { openSqliteHarness, refuseChangesOf, type SqliteHarness } from './sqlite-harness.ts'

const TERMS = { now: NOW, wall: NOW + 1, limit: 10 }

let harness: SqliteHarness
beforeEach(async () => {
  harness = await openSqliteHarness()
})
afterEach(() => harness.destroy())

it('expires the others where the ledger refuses one of them', async () => {
  const { ledger, db } = harness
  const ids: string[] = []
  for (let n = 0; n < 3; n++) ids.push((await pushed(ledger, { expiresAt: NOW })).id)
  const [first, second = '', third] = ids
  refuseChangesOf(db, second)
  const expired = await ledger.expire(TERMS)
  expect(expired.map(({ job }) => job.id)).toEqual([first, third])
  expect(ids.map((id) => rowOf(ledger, id).state)).toEqual(['discarded', 'available', 'discarded'])
  await expect(ledger.expire(TERMS)).rejects.toMatchObject({ status: 500 })
  expect(harness.inspect()).toEqual([])
  expect(ledger.counts('default')).toMatchObject({ available: 1, discarded: 2 })
})
