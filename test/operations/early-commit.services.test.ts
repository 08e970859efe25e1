import { afterEach, expect, it, vi } from 'vitest'
import { SqliteLedger } from '../../src/ledger/sqlite/ledger.ts'
import { freshQueue, gatewayForAll } from './harness.ts'

const { gateway } = gatewayForAll()

afterEach(() => void vi.restoreAllMocks())

it('PUSH has a group committed as soon as it is worth its sync, and RabbitMQ has no more to do', async () => {
  const insert = vi.spyOn(SqliteLedger.prototype, 'insert')
  const { status } = await gateway.push(freshQueue())
  expect(status).toBe(201)
  expect(insert.mock.calls.map(([, , terms]) => terms?.enough)).toEqual([24])
})
