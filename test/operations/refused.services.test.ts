import { beforeAll, expect, it, type MockContext, vi } from 'vitest'
import type { Ledger } from '../../src/ledger/ledger.ts'
import { push } from '../../src/operations/push.ts'
import { pushBatch } from '../../src/operations/push-batch.ts'
import { eventually } from '../support/in-process.ts'
import { CONTEXT, stageForAll } from './control-stage.ts'

const stage = stageForAll()
const FULL = 'ojs.queue.full'
const JOB = { type: 'test.job', args: [1], options: { queue: 'full' } }

beforeAll(async () => {
  // The gateway takes an operator's queue as it is.
  const limit = { 'x-max-length': 1, 'x-overflow': 'reject-publish' }
  await stage.channel.assertQueue(FULL, { durable: true, arguments: limit })
})

/**
 * From the refusal to the withdrawal the row still owes its token, and by then there is room. Were it
 * published, a job would run that its producer was refused.
 */
it.each([
  ['PUSH', 'withdraw', () => push(stage.deps, JOB, CONTEXT)],
  ['batch', 'withdrawAll', () => pushBatch(stage.deps, { jobs: [JOB, JOB] }, CONTEXT)],
] as const)('the relay leaves a %s alone that is being refused', async (_, method, enqueue) => {
  const { channel, deps } = stage
  const ready = async () => (await channel.checkQueue(FULL)).messageCount
  await stage.pushed('full').catch(() => {})
  await eventually(async () => (await ready()) > 0)
  const original = deps.ledger[method].bind(deps.ledger) as (...args: unknown[]) => Promise<never>
  const looks = vi.spyOn(deps.ledger, 'outboxPage')
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
  // Behind whatever the relay has sent: that would leave no room for it.
  await stage.pushed('full')
  expect(await ready()).toBe(1)
})

/** A look at everything, from the first page to the one that has nothing. */
function isOver({ calls, results }: MockContext<Ledger['outboxPage']>): boolean {
  const last = results.at(-1)
  return calls[0]?.[0] === 0 && last?.type === 'return' && last.value.length === 0
}
