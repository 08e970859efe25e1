import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { Broker, PublishOutcome } from '../../src/broker/broker.ts'
import { cancel } from '../../src/operations/cancel.ts'
import { push } from '../../src/operations/push.ts'
import { sendToken } from '../../src/operations/send-token.ts'
import { prunedRows } from '../ledger/harness.ts'
import { openSqliteHarness, type SqliteHarness } from '../ledger/sqlite-harness.ts'
import { onToldBroker, type ToldStage } from './told-broker.ts'

let harness: SqliteHarness
let stage: ToldStage
const publish = vi.fn<Broker['publish']>()
const broker = {
  publish,
  isQueueGone: async () => true,
  recheckQueue: async () => 'ready' as const,
  ensureQueue: async () => {
    await harness.ledger.close()
    return 'ready' as const
  },
}
beforeEach(async () => {
  harness = await openSqliteHarness()
  stage = onToldBroker(harness, broker)
})
afterEach(() => harness.destroy())

it.each<[PublishOutcome, number]>([
  ['nacked', 1],
  ['confirmed', 0],
  ['unknown', 0],
])('of a job that is cancelled on the way, and then is %s', async (outcome, pruned) => {
  const isQueueGone = async () => false
  stage = onToldBroker(harness, { ...broker, isQueueGone, broadcast: async () => 'confirmed' })
  publish.mockImplementationOnce(async ({ id }) => {
    await cancel(stage.deps, id, { requestId: 'req_2' })
    return outcome
  })
  await push(stage.deps, { type: 'a', args: [] }, { requestId: 'req_1' })
  expect(await prunedRows(harness)).toBe(pruned)
})

it.each<PublishOutcome>(['returned', 'nacked'])(
  'is unknown for a token that was %s behind a ledger that is closed meanwhile',
  async (outcome) => {
    publish.mockResolvedValueOnce('confirmed')
    const { job } = await push(stage.deps, { type: 'a', args: [] }, { requestId: 'req_1' })
    publish.mockResolvedValue(outcome)
    // Most callers have nobody left to tell: a rejection would end the process.
    expect(await sendToken(stage.deps, job)).toEqual({ outcome: 'unknown', row: job })
    expect(stage.deps.sending).toEqual(new Set())
  },
)
