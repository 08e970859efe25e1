import { afterEach, describe, expect, test } from 'vitest'
import { type JobContext, OJSClient, type OJSError, OJSWorker } from '../../../src/sdk/index.ts'
import { NativeWorker } from '../../../src/worker/index.ts'
import { freshQueue, gatewayForAll } from '../../operations/harness.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { gate } from '../harness.ts'

const SOON = { maxAttempts: 3, initialIntervalMs: 100, jitter: false }

const { vhost, gateway } = gatewayForAll()
const workers: { stop(): Promise<unknown> }[] = []
const errors: unknown[] = []
const logger = {
  debug() {},
  info() {},
  warn() {},
  error: (_text: string, { error }: Record<string, unknown>) => void errors.push(error),
}
afterEach(async () => {
  errors.length = 0
  await Promise.all(workers.splice(0).map((worker) => worker.stop()))
})

const WORKERS = {
  http: (queue: string) => new OJSWorker({ url: gateway.url, queues: [queue], logger }),
  native: (queue: string) =>
    new NativeWorker({
      url: vhost.url,
      queues: [queue],
      logger,
      handleSignals: false,
      retryQueueSettleMs: 0,
      answerTimeoutMs: 10_000,
    }),
}

function nestedList(depth: number): unknown {
  return depth === 0 ? null : [nestedList(depth - 1)]
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

  test('goes on from its checkpoint after its worker was stopped and has given it back', async () => {
    const seen: unknown[] = []
    const queue = freshQueue()
    const begin = async (handler: (ctx: JobContext) => unknown) => {
      const worker = WORKERS[kind](queue)
      worker.register('test.job', handler)
      workers.push(worker)
      await worker.start()
      return worker
    }
    const isSaved = gate()
    const first = await begin(async (ctx) => {
      await ctx.checkpoint({ page: 7 })
      isSaved.open()
      await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve))
    })
    const client = new OJSClient({ url: gateway.url })
    const { id } = await client.enqueue('test.job', [], { queue, retry: SOON })
    await isSaved.opened
    await first.stop()
    await begin(async (ctx) => void seen.push([ctx.attempt, await ctx.lastCheckpoint()]))
    await client.result(id, { timeoutMs: 60_000 })
    expect(seen).toEqual([[1, { page: 7 }]])
  })

  test('hears of a checkpoint that is not saved, and goes on from the one before', async () => {
    const refused: unknown[] = []
    const queue = await start(async (ctx) => {
      if (ctx.attempt > 1) return ctx.lastCheckpoint()
      await ctx.checkpoint({ page: 1, text: 'é'.repeat(524_000) })
      for (const [text, depth] of [
        ['é'.repeat(524_288), 1],
        ['', 32],
      ] as const) {
        const state = { page: 2, text, nested: nestedList(depth) }
        await ctx.checkpoint(state).catch((error: OJSError) => {
          refused.push([error.name, error.code, error.status, error.message])
        })
      }
      throw new Error('not yet')
    })
    const client = new OJSClient({ url: gateway.url })
    const { id } = await client.enqueue('test.job', [], { queue, retry: SOON })
    const { result } = await client.result(id, { timeoutMs: 60_000 })
    expect(result).toMatchObject({ page: 1 })
    const name = 'OJSValidationError'
    const large = "The 'state' field is larger than 1048576 bytes."
    const deep = 'The body nests deeper than 32 levels.'
    expect(refused).toEqual([
      [name, 'invalid_request', 413, large],
      [name, 'invalid_request', 400, deep],
    ])
  })

  test('warns of progress that is not kept', async () => {
    const queue = await start(async (ctx) => {
      ctx.progress(0.1, { data: { text: 'x'.repeat(70_000) } })
    })
    const client = new OJSClient({ url: gateway.url })
    const { id } = await client.enqueue('test.job', [], { queue })
    await client.result(id, { timeoutMs: 60_000 })
    await eventually(async () => errors.length > 0)
    expect(String(errors)).toContain("The 'data' field is larger than 65536 bytes.")
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
