import { beforeEach, expect, it, vi } from 'vitest'
import type { Broker, PublishOutcome } from '../../../src/broker/broker.ts'
import { cancel } from '../../../src/operations/cancel.ts'
import { push } from '../../../src/operations/enqueue/push.ts'
import { sendJobMessage } from '../../../src/operations/job-messages/send.ts'
import { prunedRows } from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { deferred } from '../../support/time/deferred.ts'
import { onToldBroker, type ToldStage } from './told-broker.ts'

const harness = ledgerOfTest()
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
beforeEach(() => {
  stage = onToldBroker(harness, broker)
})

it.each<[PublishOutcome, number]>([
  ['nacked', 1],
  ['confirmed', 0],
  ['unknown', 0],
])(
  'after a publish that was %s while its job was cancelled, retention may prune %i row(s)',
  async (outcome, pruned) => {
    const isQueueGone = async () => false
    stage = onToldBroker(harness, { ...broker, isQueueGone, broadcast: async () => 'confirmed' })
    publish.mockImplementationOnce(async ({ id }) => {
      await cancel(stage.deps, id, { requestId: 'req_2' })
      return outcome
    })
    await push(stage.deps, { type: 'a', args: [] }, { requestId: 'req_1' })
    expect(await prunedRows(harness)).toBe(pruned)
  },
)

it('after a nack the row of a cancelled job stays if an earlier publish may have succeeded', async () => {
  const isQueueGone = async () => false
  stage = onToldBroker(harness, { ...broker, isQueueGone, broadcast: async () => 'confirmed' })
  publish.mockImplementationOnce(async ({ id }) => {
    stage.deps.jobMessages.unsure.add(id)
    await cancel(stage.deps, id, { requestId: 'req_2' })
    return 'nacked'
  })
  await push(stage.deps, { type: 'a', args: [] }, { requestId: 'req_1' })
  expect(await prunedRows(harness)).toBe(0)
})

it('after a nack the row of a job that is cancelled with its withdrawal may be pruned', async () => {
  const isQueueGone = async () => false
  stage = onToldBroker(harness, { ...broker, isQueueGone, broadcast: async () => 'confirmed' })
  publish.mockResolvedValueOnce('nacked')
  const withdraw = harness.ledger.withdraw.bind(harness.ledger)
  vi.spyOn(harness.ledger, 'withdraw').mockImplementationOnce((id, ...fence) => {
    void cancel(stage.deps, id, { requestId: 'req_2' })
    return withdraw(id, ...fence)
  })
  const { job } = await push(stage.deps, { type: 'a', args: [] }, { requestId: 'req_1' })
  expect((await harness.ledger.read.find(job.id))?.state).toBe('cancelled')
  expect(await prunedRows(harness)).toBe(1)
})

it('the job message of a job that is cancelled while its queue is declared again is not published', async () => {
  const broadcast = vi.fn<Broker['broadcast']>(async () => 'refused')
  const ensureQueue = async () => {
    const [row] = await harness.ledger.read.outboxPage(0, 1)
    await cancel(stage.deps, row?.id ?? '', { requestId: 'req_2' })
    return 'ready' as const
  }
  stage = onToldBroker(harness, { ...broker, ensureQueue, broadcast })
  publish.mockReset().mockResolvedValue('returned')
  const { job } = await push(stage.deps, { type: 'a', args: [] }, { requestId: 'req_1' })
  expect(publish).toHaveBeenCalledTimes(1)
  // The broadcast failed, so the relay has to tell the workers.
  expect(await harness.ledger.read.outboxPage(0, 9)).toMatchObject([
    { id: job.id, state: 'cancelled' },
  ])
})

it('a job message counts as being sent until the last of two concurrent publishes is done', async () => {
  publish.mockReset().mockResolvedValue('confirmed')
  const { job } = await push(stage.deps, { type: 'a', args: [] }, { requestId: 'req_1' })
  const first = deferred<PublishOutcome>()
  publish.mockReturnValueOnce(first.promise).mockResolvedValueOnce('refused')
  const sent = sendJobMessage(stage.deps, { ...job, outbox: 99 })
  await sendJobMessage(stage.deps, { ...job, outbox: 99 })
  expect(stage.deps.jobMessages.sending.has(job.id)).toBe(true)
  first.resolve('confirmed')
  await sent
  expect(stage.deps.jobMessages.sending.has(job.id)).toBe(false)
})

it.each<PublishOutcome>(['returned', 'nacked'])(
  'sendJobMessage resolves to unknown when the job message was %s and the ledger is closed',
  async (outcome) => {
    publish.mockResolvedValueOnce('confirmed')
    const { job } = await push(stage.deps, { type: 'a', args: [] }, { requestId: 'req_1' })
    publish.mockResolvedValue(outcome)
    // Most callers do not await the result, so a rejection would end the process.
    expect(await sendJobMessage(stage.deps, job)).toEqual({ outcome: 'unknown', row: job })
    expect(stage.deps.jobMessages.sending.size).toBe(0)
  },
)
