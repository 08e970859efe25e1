import { beforeEach, expect, it, vi } from 'vitest'
import type { PublishOutcome } from '../../../src/broker/broker.ts'
import type { RequestContext } from '../../../src/operations/deps.ts'
import { pushBatch } from '../../../src/operations/enqueue/push-batch.ts'
import { OthersFirst } from '../../../src/operations/enqueue/wait-for-conflicts.ts'
import { NOW } from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage } from '../job-messages/told-broker.ts'

const UNCONFIRMED = { status: 503, details: { reason: 'unconfirmed' } }

const harness = ledgerOfTest()
let stage: ToldStage
let now: number
/** Resolves the outcome of each publish, in order. */
let confirms: ((outcome: PublishOutcome) => void)[]

beforeEach(() => {
  now = NOW
  confirms = []
  stage = onToldBroker(harness, {
    publish: () => new Promise((resolve) => confirms.push(resolve)),
    isQueueGone: async () => false,
  })
  Object.assign(stage.deps, { clock: { now: () => now, wall: () => now } })
})

it.each<[string, object, Partial<RequestContext>, number]>([
  ['unique key', { unique: { on_conflict: 'ignore' } }, {}, 4],
  ['Idempotency-Key', {}, { idempotencyKey: 'k' }, 1],
])(
  'batches with the same %s wait for a stalled RabbitMQ at most one publish timeout each',
  async (_, options, more, written) => {
    const { settledResults } = vi.spyOn(harness.ledger, 'insertAll').mock
    const body = { jobs: [{ type: 'a', args: [], options }] }
    const ask = () => pushBatch(stage.deps, body, { requestId: 'req_1', ...more })
    const answers = [ask(), ask(), ask(), ask()]
    const ends = answers.map((answer) =>
      answer.then(
        () => 'stored',
        (error) => error,
      ),
    )
    // By then all of them wait for the first; on a busy machine they are stored in several commits.
    await expect
      .poll(() => settledResults.filter(({ type }) => type === 'fulfilled'))
      .toHaveLength(written)
    await expect.poll(() => confirms.length).toBe(1)
    now += stage.deps.settings.publishTimeoutMs
    confirms[0]?.('unknown')
    // The second one publishes by itself; those behind it have waited for one timeout and fail.
    expect(await ends[0]).toMatchObject(UNCONFIRMED)
    expect(await ends[2]).toMatchObject(UNCONFIRMED)
    expect(await ends[3]).toMatchObject(UNCONFIRMED)
    await expect.poll(() => confirms.length).toBe(2)
    confirms[1]?.('confirmed')
    expect(await ends[1]).toBe('stored')
  },
)

it('batches with the same unique key are stored in turn as long as RabbitMQ answers in time', async () => {
  const body = { jobs: [{ type: 'a', args: [], options: { unique: { on_conflict: 'ignore' } } }] }
  const answers = [1, 2, 3].map(() => pushBatch(stage.deps, body, { requestId: 'req_1' }))
  await expect.poll(() => confirms.length).toBe(1)
  now += stage.deps.settings.publishTimeoutMs / 4
  confirms[0]?.('nacked')
  await expect(answers[0]).rejects.toMatchObject({ status: 429 })
  await expect.poll(() => confirms.length).toBe(2)
  confirms[1]?.('confirmed')
  expect(await Promise.all(answers.slice(1))).toHaveLength(2)
})

it('OthersFirst waits for 22 quick predecessors before it gives up with 503 unconfirmed', async () => {
  const { publishTimeoutMs } = stage.deps.settings
  const others = new OthersFirst(stage.deps)
  const quick = async () => {
    now += publishTimeoutMs / 11
  }
  for (let i = 0; i < 22; i++) await others.wait(quick())
  // The total wait is bounded as well.
  await expect(others.wait(quick())).rejects.toMatchObject(UNCONFIRMED)
})
