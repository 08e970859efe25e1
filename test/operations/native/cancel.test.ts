import { afterEach, beforeEach, expect, it } from 'vitest'
import type { BrokerStatus, PublishOutcome } from '../../../src/broker/broker.ts'
import { controlCancel } from '../../../src/operations/native/cancel.ts'
import { openSqliteHarness, type SqliteHarness } from '../../ledger/sqlite-harness.ts'
import { onToldBroker, type ToldStage } from '../told-broker.ts'

let harness: SqliteHarness
let stage: ToldStage
let outcome: PublishOutcome
let status: BrokerStatus['state']

beforeEach(async () => {
  harness = await openSqliteHarness()
  outcome = 'confirmed'
  status = 'up'
  stage = onToldBroker(harness, {
    broadcast: async () => outcome,
    status: () => (status === 'up' ? { state: status } : { state: status, reason: 'alarm' }),
  })
})
afterEach(() => harness.destroy())

const cancel = (id: string) =>
  controlCancel(stage.deps, { job_id: id, queue: 'q' }, { requestId: 'req_1' })
const AGAIN = { status: 503, retryable: true }

it.each<[PublishOutcome, BrokerStatus['state']]>([
  ['refused', 'blocked'],
  ['refused', 'up'],
  ['denied', 'up'],
  ['unknown', 'down'],
])('of an unknown id comes again until the workers are told: %s while %s', async (what, state) => {
  outcome = what
  status = state
  await expect(cancel('a')).rejects.toMatchObject(AGAIN)
  expect(harness.ledger.isTombstoned('a')).toBe(true)
  await expect(cancel('a')).rejects.toMatchObject(AGAIN)
  outcome = 'confirmed'
  status = 'up'
  await cancel('a')
  expect(harness.ledger.tombstones(['q'], 9).cancelled).toEqual([{ id: 'a', generation: 0 }])
})

it.each<PublishOutcome>(['unknown', 'nacked', 'forbidden'])(
  'of an unknown id does not come again for ever: %s while RabbitMQ takes publishes',
  async (what) => {
    outcome = what
    await cancel('a')
    expect(harness.ledger.isTombstoned('a')).toBe(true)
  },
)

it('of an unknown id does not wait for RabbitMQ longer than what is behind it can', async () => {
  stage.deps.broker.broadcast = () => new Promise(() => {})
  await cancel('a')
  expect(harness.ledger.isTombstoned('a')).toBe(true)
})

it('leaves room for what is behind it, however many workers cannot be told of', async () => {
  outcome = 'refused'
  const ids = Array.from({ length: 40 }, (_, i) => `job-${i}`)
  const untold = async () => {
    const results = await Promise.allSettled(ids.map(cancel))
    return results.flatMap((result, i) => (result.status === 'rejected' ? [ids[i]] : []))
  }
  const first = await untold()
  expect(first).toHaveLength(16)
  // Those come again, and no others with them.
  expect(await untold()).toEqual(first)
  expect(ids.filter((id) => !harness.ledger.isTombstoned(id))).toEqual([])
  outcome = 'confirmed'
  await cancel('job-0')
  outcome = 'refused'
  await expect(cancel('one more')).rejects.toMatchObject(AGAIN)
})
