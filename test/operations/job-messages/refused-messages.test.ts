import { beforeEach, describe, expect, it } from 'vitest'
import type { Broadcast, PublishOutcome } from '../../../src/broker/broker.ts'
import { push } from '../../../src/operations/enqueue/push.ts'
import { pushBatch } from '../../../src/operations/enqueue/push-batch.ts'
import { NOW, settleLazily } from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage } from './told-broker.ts'

const CONTEXT = { requestId: 'req_1' }
const JOB = { type: 'a', args: [] }
/** Cutoffs with which retention prunes the withdrawn rows. */
const OLD = { completed: 0, cancelled: 0, discarded: 0, deadLetters: 0, withdrawn: NOW + 1 }

const harness = ledgerOfTest()
let stage: ToldStage
let outcome: PublishOutcome
let told: Broadcast[]
beforeEach(() => {
  told = []
  const broker = {
    publish: async () => outcome,
    broadcast: async (message: Broadcast) => {
      told.push(message)
      return 'confirmed' as const
    },
    isQueueGone: async () => false,
    ensureQueue: async () => 'missing' as const,
  }
  stage = onToldBroker(harness, broker)
})

const prune = async () => {
  await settleLazily(harness.ledger)
  return await harness.ledger.prune(OLD, NOW, 10)
}

it('a job too large for RabbitMQ is withdrawn, and its row may be pruned', async () => {
  outcome = 'too-large'
  await expect(push(stage.deps, JOB, CONTEXT)).rejects.toMatchObject({ status: 413 })
  expect(await prune()).toBe(1)
})

describe.each<[PublishOutcome, boolean]>([
  ['nacked', true],
  ['returned', true],
  ['denied', true],
  ['refused', true],
  ['unknown', false],
  ['forbidden', false],
])('a job whose publish ends as %s', (how, isLost) => {
  beforeEach(() => {
    outcome = how
  })

  it(`is withdrawn; its row ${isLost ? 'may be pruned' : 'stays, since the job message may exist'}`, async () => {
    await expect(push(stage.deps, JOB, CONTEXT)).rejects.toMatchObject({ retryable: true })
    expect(harness.ledger.known.counts('default').available).toBe(0)
    expect(await prune()).toBe(isLost ? 1 : 0)
  })

  it(`is ${isLost ? 'not ' : ''}cancelled on native workers`, async () => {
    const id = stage.deps.newId()
    await expect(push(stage.deps, { ...JOB, id }, CONTEXT)).rejects.toThrow()
    const body = JSON.stringify({ job_id: id, generation: 0 })
    const broadcast = { queue: 'default', type: 'ojs.control.cancel', body }
    expect(told).toEqual(isLost ? [] : [broadcast])
  })

  it('is not kept as unsure, since its job is withdrawn', async () => {
    const [one, other] = [stage.deps.newId(), stage.deps.newId()]
    await expect(push(stage.deps, { ...JOB, id: one }, CONTEXT)).rejects.toThrow()
    const jobs = { jobs: [{ ...JOB, id: other }] }
    await expect(pushBatch(stage.deps, jobs, CONTEXT)).rejects.toThrow()
    expect([one, other].filter((id) => stage.deps.jobMessages.unsure.has(id))).toEqual([])
  })

  it('makes the whole batch withdrawn', async () => {
    const jobs = { jobs: [JOB, JOB] }
    await expect(pushBatch(stage.deps, jobs, CONTEXT)).rejects.toMatchObject({ retryable: true })
    expect(harness.ledger.known.counts('default').available).toBe(0)
    expect(await prune()).toBe(isLost ? 2 : 0)
    expect(stage.deps.jobMessages.staging).toEqual(new Set())
  })

  it('stores no Idempotency-Key and emits no event', async () => {
    const once = { ...CONTEXT, idempotencyKey: 'k' }
    await expect(push(stage.deps, JOB, once)).rejects.toThrow()
    await expect(pushBatch(stage.deps, { jobs: [JOB] }, once)).rejects.toThrow()
    expect(stage.events).toEqual([])
    outcome = 'confirmed'
    expect(await push(stage.deps, JOB, once)).not.toHaveProperty('isReplay')
    expect(await pushBatch(stage.deps, { jobs: [JOB] }, once)).not.toHaveProperty('isReplay')
    expect(stage.events.map(({ type }) => type)).toEqual(['job.enqueued', 'job.enqueued'])
  })
})
