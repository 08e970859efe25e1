import { afterEach, expect, it, vi } from 'vitest'
import { writePromptly } from '../../src/broker/gathered-writes.ts'
import { SqliteLedger } from '../../src/ledger/sqlite/ledger.ts'
import { freshQueue, gatewayForAll } from './harness.ts'

vi.mock('../../src/broker/gathered-writes.ts', { spy: true })

const { gateway } = gatewayForAll()
const insert = vi.spyOn(SqliteLedger.prototype, 'insert')

afterEach(() => void insert.mockClear())

async function enoughOf(options: object): Promise<unknown> {
  const { status } = await gateway.push(freshQueue(), { options })
  expect(status).toBe(201)
  return insert.mock.calls.map(([, , terms]) => terms?.enough)
}

it('PUSH has a group committed as soon as it is worth its sync, and RabbitMQ has no more to do', async () => {
  expect(await enoughOf({})).toEqual([24])
})

it.each([{ delay_until: '2199-01-01T00:00:00Z' }, { pending: true }])(
  'PUSH of a job that RabbitMQ does not get yet is in no hurry: %o',
  async (options) => {
    expect(await enoughOf(options)).toEqual([Number.POSITIVE_INFINITY])
  },
)

it('one connection of the gateway, and amqplib as it is, write in the middle of a turn', () => {
  expect(vi.mocked(writePromptly).mock.results.map(({ value }) => value)).toEqual([true])
})
