import { beforeEach, expect, it, vi } from 'vitest'
import type { PublishOutcome } from '../../../src/broker/broker.ts'
import { cancel } from '../../../src/operations/cancel.ts'
import { pushBatch } from '../../../src/operations/enqueue/push-batch.ts'
import { eventOf, REPORT } from '../../ledger/contract/reports.ts'
import { NOW, prunedRows, rowOf, settleLazily } from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage } from '../job-messages/told-broker.ts'

const JOB = { type: 'a', args: [] }

const harness = ledgerOfTest()
let stage: ToldStage
let publish: (id: string) => Promise<PublishOutcome>
let unparked: string[]

beforeEach(() => {
  publish = async () => 'confirmed'
  unparked = []
  stage = onToldBroker(harness, {
    publish: ({ id }) => publish(id),
    broadcast: async () => 'confirmed',
    isQueueGone: async () => false,
    unpark: (id) => unparked.push(id) > 0,
  })
})

const push = (ids: readonly string[]) =>
  pushBatch(stage.deps, { jobs: ids.map((id) => ({ ...JOB, id })) }, { requestId: 'req_1' })
const instant = (ms: number) => new Date(ms).toISOString()
const newIds = () => [stage.deps.newId(), stage.deps.newId()] as const

it('a batch keeps its job messages staged, out of reach of FETCH, until the last is confirmed', async () => {
  const ids = newIds()
  const staged: string[][] = []
  publish = async () => {
    staged.push([...stage.deps.jobMessages.staging])
    return 'confirmed'
  }
  await push(ids)
  expect(staged).toEqual([ids, ids])
  expect([[...stage.deps.jobMessages.staging], unparked]).toEqual([[], ids])
})

it('a refused batch leaves only rows that can be pruned when a schedule in it comes due meanwhile', async () => {
  publish = async () => {
    await harness.ledger.promote(NOW + 2_000, NOW + 2_000, 500)
    return 'nacked'
  }
  const jobs = [{ ...JOB, options: { delay_until: instant(NOW + 1_000) } }, JOB]
  const refused = pushBatch(stage.deps, { jobs }, { requestId: 'req_1' })
  await expect(refused).rejects.toMatchObject({ status: 429 })
  expect(await prunedRows(harness)).toBe(2)
})

it('a refused batch leaves only rows that can be pruned when its jobs are cancelled meanwhile', async () => {
  publish = async () => {
    await harness.ledger.promote(NOW + 2_000, NOW + 2_000, 500)
    return 'nacked'
  }
  const [published, scheduled] = newIds()
  const later = { ...JOB, id: scheduled, options: { delay_until: instant(NOW + 1_000) } }
  const withdrawAll = harness.ledger.withdrawAll.bind(harness.ledger)
  vi.spyOn(harness.ledger, 'withdrawAll').mockImplementationOnce((rows, key) => {
    for (const { id } of rows) void cancel(stage.deps, id, { requestId: 'req_2' })
    return withdrawAll(rows, key)
  })
  const jobs = [{ ...JOB, id: published }, later]
  const refused = pushBatch(stage.deps, { jobs }, { requestId: 'req_1' })
  const details = { started: [published, scheduled] }
  await expect(refused).rejects.toMatchObject({ status: 429, details })
  expect(await prunedRows(harness)).toBe(2)
})

it('a batch refused for a duplicate id does not unstage the job that has this id', async () => {
  const [mine, his] = newIds()
  await push([his])
  stage.deps.jobMessages.staging.add(his)
  unparked = []
  await expect(push([mine, his])).rejects.toMatchObject({ code: 'duplicate' })
  expect([[...stage.deps.jobMessages.staging], unparked]).toEqual([[his], [mine]])
})

it('a refused batch does not withdraw a job that a native worker has started meanwhile', async () => {
  const [started, other] = newIds()
  publish = async (id) => {
    if (id === other) return 'nacked'
    await harness.ledger.applyReports([eventOf(id, { event: 'started' })], REPORT)
    return 'unknown'
  }
  const details = { started: [started] }
  await expect(push([started, other])).rejects.toMatchObject({ details })
  await settleLazily(harness.ledger)
  expect(await rowOf(harness.ledger, started)).toMatchObject({ state: 'active', messageOut: true })
  expect(await rowOf(harness.ledger, other)).toMatchObject({
    state: 'withdrawn',
    messageOut: false,
  })
  const enqueued = stage.events.filter(({ type }) => type === 'job.enqueued')
  expect(enqueued).toMatchObject([{ job: { id: started } }])
})

it('a batch has one budget for the members its unique policies compare; the 413 names the job', async () => {
  const names = Object.fromEntries(Array.from({ length: 150_000 }, (_, i) => [`m${i}`, 1]))
  const unique = { type: 'a', args: [names], options: { unique: {} } }
  const batch = (...jobs: object[]) => pushBatch(stage.deps, { jobs }, { requestId: 'req_1' })
  const details = { reason: 'too_many_members', index: 2 }
  await expect(batch(unique, JOB, unique)).rejects.toMatchObject({ status: 413, details })
  expect((await batch(unique, { type: 'a', args: [names] })).jobs).toHaveLength(2)
})

it('a batch with a job too large for RabbitMQ fails with 413 and the index of that job', async () => {
  const ids = newIds()
  const [, large] = ids
  publish = async (id) => (id === large ? 'too-large' : 'unknown')
  const refusal = await push(ids).catch((error: unknown) => error)
  const details = { reason: 'message_too_large', queue: 'default', index: 1 }
  expect(refusal).toMatchObject({ status: 413, retryable: false })
  expect(refusal).toHaveProperty('details', details)
})

it.each([
  ['confirmed', 'unconfirmed'],
  ['unknown', 'unconfirmed'],
  ['refused', 'broker_busy'],
] as const)(
  'a batch of which one job could not be sent and another was %s is 503 %s',
  async (other, reason) => {
    const ids = newIds()
    const [unsent] = ids
    publish = async (id) => (id === unsent ? 'refused' : other)
    const index = other === 'unknown' ? 1 : 0
    await expect(push(ids)).rejects.toMatchObject({
      status: 503,
      details: { reason, index },
    })
  },
)

it('a batch declares several new queues at a time, and names the first of its jobs whose queue is refused', async () => {
  let open = 0
  let most = 0
  const ensureQueue = async (queue: string) => {
    most = Math.max(most, ++open)
    // The refusal of the later queue is known first.
    const looks = queue === 'q13' ? 2 : 5
    for (let i = 0; i < looks; i++) await new Promise((resolve) => setImmediate(resolve))
    open--
    return queue === 'q11' || queue === 'q13' ? 'access-refused' : 'ready'
  }
  Object.assign(stage.deps.broker, { isDeclared: () => false, ensureQueue })
  const jobs = Array.from({ length: 20 }, (_, i) => ({ ...JOB, options: { queue: `q${i}` } }))
  const details = { reason: 'access_refused', index: 11 }
  const refused = pushBatch(stage.deps, { jobs }, { requestId: 'req_1' })
  await expect(refused).rejects.toMatchObject({ status: 503, details })
  expect(most).toBe(8)
})
