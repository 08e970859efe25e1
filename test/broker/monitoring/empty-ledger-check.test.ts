import type { Channel } from 'amqplib'
import { expect, it } from 'vitest'
import type { ScratchChannel } from '../../../src/broker/connection/temporary-channel.ts'
import { EmptyLedgerCheck } from '../../../src/broker/monitoring/empty-ledger-check.ts'
import { createNames } from '../../../src/broker/names.ts'

type Answer = 'exists' | 'missing' | 'unavailable'

function open(isNew: boolean) {
  const stage = { answer: 'exists' as Answer, asked: [] as string[], lines: [] as object[] }
  const warn = (fields: object) => void stage.lines.push(fields)
  const checkExchange = async (name: string) => {
    stage.asked.push(name)
    if (stage.answer === 'exists') return
    const missing = { code: 404 }
    throw Object.assign(new Error(`no exchange '${name}'`), stage.answer === 'missing' && missing)
  }
  const scratch = {
    run: (use: (channel: Channel) => unknown) => use({ checkExchange } as unknown as Channel),
  } as unknown as ScratchChannel
  const newLedger = new EmptyLedgerCheck({
    names: createNames('tenant1'),
    logger: { debug() {}, info() {}, warn, error() {} },
    hooks: { epochs: { isLedgerNew: () => isNew } },
  })
  return { stage, newLedger, look: () => newLedger.look(scratch) }
}

it('a new ledger is logged and warned of once when RabbitMQ has an origin already', async () => {
  const { stage, newLedger, look } = open(true)
  await look()
  await look()
  expect(stage.asked).toEqual(['tenant1.ojs.system.origin'])
  expect(stage.lines).toEqual([{ code: 'ledger_is_new' }])
  expect(newLedger.warnings()).toMatchObject([{ code: 'ledger_is_new' }])
})

it('a new ledger is no problem when RabbitMQ has no origin, even if it has one later: that is ours', async () => {
  const { stage, newLedger, look } = open(true)
  stage.answer = 'unavailable'
  // Until RabbitMQ has answered, the gateway must not declare its own origin.
  expect(await look()).toBe(false)
  stage.answer = 'missing'
  expect(await look()).toBe(true)
  stage.answer = 'exists'
  expect(await look()).toBe(true)
  expect(stage.asked).toHaveLength(2)
  expect([newLedger.warnings(), stage.lines]).toEqual([[], []])
})

it('the origin is not looked up for a ledger that has served before', async () => {
  const { stage, newLedger, look } = open(false)
  await look()
  expect([stage.asked, newLedger.warnings()]).toEqual([[], []])
})
