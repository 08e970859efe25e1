import { afterEach, expect, it, vi } from 'vitest'
import { writePromptly } from '../../../src/broker/amqplib/batched-writes.ts'
import { PostgresLedger } from '../../../src/ledger/postgres/ledger.ts'
import { SqliteLedger } from '../../../src/ledger/sqlite/ledger.ts'
import { isOnPostgres } from '../../support/gateway/test-ledger.ts'
import { freshQueue, gatewayForAll } from '../harness.ts'

vi.mock('../../../src/broker/amqplib/batched-writes.ts', { spy: true })

const { gateway } = gatewayForAll()
const insert = vi.spyOn((isOnPostgres ? PostgresLedger : SqliteLedger).prototype, 'insert')

afterEach(() => void insert.mockClear())

async function pushAndReadEnough(options: object): Promise<unknown> {
  const { status } = await gateway.push(freshQueue(), { options })
  expect(status).toBe(201)
  return insert.mock.calls.map(([, , terms]) => terms?.enough)
}

it('PUSH lets the ledger commit a group early, as soon as 32 writes wait', async () => {
  expect(await pushAndReadEnough({})).toEqual([32])
})

it.each([{ delay_until: '2199-01-01T00:00:00Z' }, { pending: true }])(
  'PUSH of a job that is not published yet asks for no early commit: %o',
  async (options) => {
    expect(await pushAndReadEnough(options)).toEqual([Number.POSITIVE_INFINITY])
  },
)

it('the installed amqplib lets one connection of the gateway write in the middle of a turn', () => {
  expect(vi.mocked(writePromptly).mock.results.map(({ value }) => value)).toEqual([true])
})
