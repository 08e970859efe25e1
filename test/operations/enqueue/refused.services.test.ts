import { beforeAll, expect, it, type MockContext, vi } from 'vitest'
import type { Reads } from '../../../src/ledger/reads.ts'
import { push } from '../../../src/operations/enqueue/push.ts'
import { pushBatch } from '../../../src/operations/enqueue/push-batch.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { CONTEXT, stageForAll } from '../native/control-stage.ts'

const stage = stageForAll()
const FULL = 'ojs.queue.full'
const JOB = { type: 'test.job', args: [1], options: { queue: 'full' } }

beforeAll(async () => {
  // The gateway uses a queue as it is if an operator has declared it.
  const limit = { 'x-max-length': 1, 'x-overflow': 'reject-publish' }
  await stage.channel.assertQueue(FULL, { durable: true, arguments: limit })
})

/**
 * Between the refusal and the withdrawal the row still owes its job message, and the queue has room by then.
 * If the relay published it, a job would run although its producer was told that it was refused.
 */
it.each([
  ['PUSH', 'withdraw', () => push(stage.deps, JOB, CONTEXT)],
  ['batch', 'withdrawAll', () => pushBatch(stage.deps, { jobs: [JOB, JOB] }, CONTEXT)],
] as const)(
  'the relay does not publish the jobs of a %s that is being refused',
  async (_, method, enqueue) => {
    const { channel, deps } = stage
    const ready = async () => (await channel.checkQueue(FULL)).messageCount
    await stage.pushed('full').catch(() => {})
    await eventually(async () => (await ready()) > 0)
    const original = deps.ledger[method].bind(deps.ledger) as (...args: unknown[]) => Promise<never>
    const looks = vi.spyOn(deps.ledger.read, 'outboxPage')
    const withdrawals = vi
      .spyOn(deps.ledger, method)
      .mockImplementation(async (...args: unknown[]) => {
        await channel.purgeQueue(FULL)
        looks.mockClear()
        deps.wakeRelay('all')
        await eventually(() => isOver(looks.mock))
        return await original(...args)
      })
    await eventually(async () => {
      // The limit is soft: RabbitMQ takes one or two more.
      const outcome = await enqueue().catch((error: { code: string }) => error.code)
      return outcome === 'rate_limited'
    })
    expect(withdrawals).toHaveBeenCalledOnce()
    vi.restoreAllMocks()
    // If the relay had published a job message, the queue would have no room for this one.
    await stage.pushed('full')
    expect(await ready()).toBe(1)
  },
)

/** The relay has read the whole outbox, from the first page to an empty one. */
function isOver({ calls, settledResults }: MockContext<Reads['outboxPage']>): boolean {
  const last = settledResults.at(-1)
  return calls[0]?.[0] === 0 && last?.type === 'fulfilled' && last.value.length === 0
}
