import { afterEach, beforeEach, expect, it, vi } from 'vitest'
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

it('looks for a retry queue that a worker has found missing', async () => {
  const recheckQueue = async () => 'ready' as const
  const recheckRung = vi.fn(async () => 'ready' as const)
  const { deps } = onToldBroker(harness, { recheckQueue, recheckRung })
  await sync(deps, { queues: ['a'] })
  expect(recheckRung).not.toHaveBeenCalled()
  await sync(deps, { queues: ['a', 'b'], rung_ms: 500 })
  expect(recheckRung.mock.calls).toEqual([
    ['a', 500],
    ['b', 500],
  ])
})
