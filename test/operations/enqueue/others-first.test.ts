import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { PublishOutcome } from '../../../src/broker/broker.ts'
import type { RequestContext } from '../../../src/operations/deps.ts'
import { OthersFirst } from '../../../src/operations/enqueue/others-first.ts'
import { pushBatch } from '../../../src/operations/push-batch.ts'
import { NOW } from '../../ledger/harness.ts'
import { openSqliteHarness, type SqliteHarness } from '../../ledger/sqlite-harness.ts'
import { onToldBroker, type ToldStage } from '../told-broker.ts'

const UNCONFIRMED = { status: 503, details: { reason: 'unconfirmed' } }

let harness: SqliteHarness
let stage: ToldStage
let now: number
/** What RabbitMQ says to each publish, in their order. */
let confirms: ((outcome: PublishOutcome) => void)[]

beforeEach(async () => {
  harness = await openSqliteHarness()
  now = NOW
  confirms = []
  stage = onToldBroker(harness, {
    publish: () => new Promise((resolve) => confirms.push(resolve)),
    isQueueGone: async () => false,
  })
  Object.assign(stage.deps, { clock: { now: () => now, wall: () => now } })
})
afterEach(() => harness.destroy())

it.each<[string, object, Partial<RequestContext>, number]>([
  ['unique key', { unique: { on_conflict: 'ignore' } }, {}, 4],
  ['Idempotency-Key', {}, { idempotencyKey: 'k' }, 1],
])(
  'of one %s nobody waits again and again for a RabbitMQ that stalls',
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
    // All of them have heard by then what they wait for: on a busy machine not in one commit.
    await expect
      .poll(() => settledResults.filter(({ type }) => type === 'fulfilled'))
      .toHaveLength(written)
    await expect.poll(() => confirms.length).toBe(1)
    now += stage.deps.settings.publishTimeoutMs
    confirms[0]?.('unknown')
    // The second one tries itself; those behind it have waited as long.
    expect(await ends[0]).toMatchObject(UNCONFIRMED)
    expect(await ends[2]).toMatchObject(UNCONFIRMED)
    expect(await ends[3]).toMatchObject(UNCONFIRMED)
    await expect.poll(() => confirms.length).toBe(2)
    confirms[1]?.('confirmed')
    expect(await ends[1]).toBe('stored')
  },
)

it('but as long as it confirms in time, everybody waits for those before him', async () => {
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

it('nor is it a stall where many are before him, each of them quick', async () => {
  const { publishTimeoutMs } = stage.deps.settings
  const others = new OthersFirst(stage.deps)
  const quick = async () => {
    now += publishTimeoutMs / 11
  }
  for (let i = 0; i < 22; i++) await others.wait(quick())
  // But nobody waits for ever.
  await expect(others.wait(quick())).rejects.toMatchObject(UNCONFIRMED)
})
