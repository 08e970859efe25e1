import { beforeEach, expect, it } from 'vitest'
import type { BrokerStatus, PublishOutcome } from '../../../src/broker/broker.ts'
import { controlCancel } from '../../../src/operations/native/cancel.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage } from '../job-messages/told-broker.ts'

const harness = ledgerOfTest()
let stage: ToldStage
let outcome: PublishOutcome
let status: BrokerStatus['state']

beforeEach(() => {
  outcome = 'confirmed'
  status = 'up'
  stage = onToldBroker(harness, {
    broadcast: async () => outcome,
    status: () => (status === 'up' ? { state: status } : { state: status, reason: 'alarm' }),
  })
})

const cancel = (id: string) =>
  controlCancel(stage.deps, { job_id: id, queue: 'q' }, { requestId: 'req_1' })
const AGAIN = { status: 503, retryable: true }

it.each<[PublishOutcome, BrokerStatus['state']]>([
  ['refused', 'blocked'],
  ['refused', 'up'],
  ['denied', 'up'],
  ['unknown', 'down'],
])(
  'a native cancel of an unknown id is redelivered until the broadcast is confirmed: %s while %s',
  async (what, state) => {
    outcome = what
    status = state
    await expect(cancel('a')).rejects.toMatchObject(AGAIN)
    expect(await harness.ledger.read.isTombstoned('a')).toBe(true)
    await expect(cancel('a')).rejects.toMatchObject(AGAIN)
    outcome = 'confirmed'
    status = 'up'
    await cancel('a')
    expect((await harness.ledger.read.tombstones(['q'], 9)).cancelled).toEqual([
      { id: 'a', generation: 0 },
    ])
  },
)

it.each<PublishOutcome>(['unknown', 'nacked', 'forbidden'])(
  'a native cancel of an unknown id is not redelivered when its broadcast is %s',
  async (what) => {
    outcome = what
    await cancel('a')
    expect(await harness.ledger.read.isTombstoned('a')).toBe(true)
  },
)

it('a native cancel of an unknown id ends although RabbitMQ never answers its broadcast', async () => {
  stage.deps.broker.broadcast = () => new Promise(() => {})
  await cancel('a')
  expect(await harness.ledger.read.isTombstoned('a')).toBe(true)
})

it('at most 16 native cancels are redelivered at a time; the others are done without a broadcast', async () => {
  outcome = 'refused'
  const ids = Array.from({ length: 40 }, (_, i) => `job-${i}`)
  const untold = async () => {
    const results = await Promise.allSettled(ids.map(cancel))
    return results.flatMap((result, i) => (result.status === 'rejected' ? [ids[i]] : []))
  }
  const first = await untold()
  expect(first).toHaveLength(16)
  // The same 16 are redelivered, and no others.
  expect(await untold()).toEqual(first)
  const left = await Promise.all(ids.map((id) => harness.ledger.read.isTombstoned(id)))
  expect(left).not.toContain(false)
  outcome = 'confirmed'
  await cancel('job-0')
  outcome = 'refused'
  await expect(cancel('one more')).rejects.toMatchObject(AGAIN)
})
