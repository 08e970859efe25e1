import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, expect, it, vi } from 'vitest'
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
  const spy = vi.spyOn(deps.ledger, method).mockImplementation(async (...args: unknown[]) => {
    await channel.purgeQueue(FULL)
    deps.wakeRelay('all')
    await sleep(500)
    return await original(...args)
  })
  await eventually(async () => {
    // The limit is soft: RabbitMQ takes one or two more.
    const outcome = await enqueue().catch((error: { code: string }) => error.code)
    return outcome === 'rate_limited'
  })
  expect(spy).toHaveBeenCalledOnce()
  spy.mockRestore()
  expect(await ready()).toBe(0)
})
