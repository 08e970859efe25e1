import { expect, it } from 'vitest'
import { prepareStatements } from '../../../src/ledger/sqlite/sql/statements.ts'
import type { Store } from '../../../src/ledger/sqlite/state/store.ts'
import { Tombstones } from '../../../src/ledger/sqlite/state/tombstones.ts'
import { cancelledMessages } from '../../../src/ledger/sqlite/writes/tombstones.ts'
import { ledgerOfTest } from './harness.ts'

const harness = ledgerOfTest()

it('tombstones beyond the limit replace the oldest ones', () => {
  const statements = prepareStatements(harness.db)
  const tombstones = new Tombstones(statements, 2)
  for (const [at, id] of ['a', 'b', 'a', 'c'].entries()) tombstones.record(id, 'q', at)
  tombstones.commit()
  expect(['a', 'b', 'c'].filter((id) => tombstones.has(id, null))).toEqual(['a', 'c'])
  expect([tombstones.count, new Tombstones(statements).count]).toEqual([2, 2])
})

it('the count of tombstones leaves out undone writes and failed group commits', () => {
  const tombstones = new Tombstones(prepareStatements(harness.db))
  tombstones.record('a', 'q', 1)
  tombstones.keep()
  tombstones.record('b', 'q', 2)
  tombstones.undo()
  expect(tombstones.count).toBe(1)
  tombstones.discard()
  expect(tombstones.count).toBe(0)
})

it('cancelledMessages reads about as many rows for many queues as its limit', () => {
  const statements = prepareStatements(harness.db)
  let rows = 0
  const counted = (name: 'cancelledMessages' | 'tombstonesOf') => ({
    all: (queue: string, limit: number) => {
      const found = statements[name].all(queue, limit)
      rows += found.length
      return found
    },
  })
  const store = {
    statements: {
      cancelledMessages: counted('cancelledMessages'),
      tombstonesOf: counted('tombstonesOf'),
    },
  } as unknown as Store
  const queues = Array.from({ length: 20 }, (_, i) => `q${i}`)
  const newest: string[] = []
  const record = (id: string, queue: string, at: number) => {
    statements.recordTombstone.run(id, queue, at, 0)
    newest.unshift(id)
  }
  harness.db.exec('BEGIN')
  for (let i = 0; i < 2_000; i++) record(`a${i}`, `q${i % 20}`, i)
  // One queue has all of the newest except one.
  for (let i = 0; i < 100; i++) record(`b${i}`, i === 50 ? 'q3' : 'q7', 2_000 + i)
  harness.db.exec('COMMIT')
  for (const limit of [1, 7, 99, 100, 101, 500, 2_099, 2_100, 3_000]) {
    rows = 0
    const { cancelled, truncated } = cancelledMessages(store, queues, limit)
    expect(cancelled.map(({ id }) => id)).toEqual(newest.slice(0, limit))
    expect(truncated).toBe(limit < newest.length)
    expect(rows).toBeLessThanOrEqual(4 * (limit + queues.length))
  }
})
