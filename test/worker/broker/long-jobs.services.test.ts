import { afterEach, describe, expect, test } from 'vitest'
import { type JobContext, OJSClient, OJSWorker } from '../../../src/sdk/index.ts'
import { NativeWorker } from '../../../src/worker/index.ts'
import { freshQueue, gatewayForAll } from '../../operations/harness.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { gate } from '../harness.ts'

const SOON = { maxAttempts: 3, initialIntervalMs: 100, jitter: false }

const { vhost, gateway } = gatewayForAll()
const workers: { stop(): Promise<unknown> }[] = []
afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.stop()))
})

const WORKERS = {
  http: (queue: string) => new OJSWorker({ url: gateway.url, queues: [queue], logger: false }),
  native: (queue: string) =>
    new NativeWorker({
      url: vhost.url,
      queues: [queue],
      logger: false,
      handleSignals: false,
      retryQueueSettleMs: 0,
      answerTimeoutMs: 10_000,
    }),
}

describe.each(['http', 'native'] as const)('a handler of the %s worker', (kind) => {
  async function start(handler: (ctx: JobContext) => unknown): Promise<string> {
    const queue = freshQueue()
    const worker = WORKERS[kind](queue)
    worker.register('test.job', handler)
    workers.push(worker)
    await worker.start()
    return queue
  }

  test('goes on from its checkpoint in the next attempt', async () => {
    const seen: unknown[] = []
    const queue = await start(async (ctx) => {
      seen.push([ctx.attempt, await ctx.lastCheckpoint()])
      if (ctx.attempt > 2) return seen.length
      await ctx.checkpoint({ page: ctx.attempt })
      expect(await ctx.lastCheckpoint()).toEqual({ page: ctx.attempt })
      throw new Error('not yet')
    })
    const client = new OJSClient({ url: gateway.url })
    const { id } = await client.enqueue('test.job', [], { queue, retry: SOON })
    expect(await client.result(id, { timeoutMs: 60_000 })).toMatchObject({
      state: 'completed',
      result: 3,
    })
    expect(seen).toEqual([
      [1, undefined],
      [2, { page: 1 }],
      [3, { page: 2 }],
    ])
  })

  test('tells how far it is', async () => {
    const end = gate()
    const queue = await start(async (ctx) => {
      ctx.progress(0.4, { message: 'page 2 of 5', data: { page: 2 } })
      await end.opened
    })
    const client = new OJSClient({ url: gateway.url })
    const { id } = await client.enqueue('test.job', [], { queue })
    await eventually(async () => (await client.getJob(id)).progress === 0.4)
    expect(await client.getJob(id)).toMatchObject({
      progress_message: 'page 2 of 5',
      progress_data: { page: 2 },
    })
    end.open()
    await client.result(id, { timeoutMs: 60_000 })
    expect((await client.getJob(id)).progress).toBe(1)
  })
})

test('client.result rejects when the time is over, and the job goes on', async () => {
  const client = new OJSClient({ url: gateway.url })
  const { id } = await client.enqueue('test.job', [], { queue: freshQueue() })
  await expect(client.result(id, { timeoutMs: 300 })).rejects.toMatchObject({ kind: 'timeout' })
  expect((await client.getJob(id)).state).toBe('available')
})
