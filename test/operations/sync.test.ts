import { afterEach, beforeEach, expect, it } from 'vitest'
import { sync } from '../../src/operations/sync.ts'
import { died, NOW, pushed } from '../ledger/harness.ts'
import { openSqliteHarness, type SqliteHarness } from '../ledger/sqlite-harness.ts'
import { onToldBroker } from './told-broker.ts'

let harness: SqliteHarness
beforeEach(async () => {
  harness = await openSqliteHarness()
})
afterEach(() => harness.destroy())

it('names the life of a cancelled job that has had more than one', async () => {
  const { ledger } = harness
  const [first, second] = [await pushed(ledger), await died(ledger)]
  await ledger.revive(second.id, second.generation, NOW)
  await ledger.cancel(first.id, NOW)
  await ledger.cancel(second.id, NOW + 1)
  const { deps } = onToldBroker(harness, { recheckQueue: async () => 'ready' as const })
  expect(await sync(deps, { queues: ['default'] })).toMatchObject({
    tombstones: [second.id, first.id],
    generations: { [second.id]: 1 },
  })
})
