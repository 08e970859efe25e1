import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Handler } from '../../../src/sdk/index.ts'
import {
  NativeProducer,
  NativeWorker,
  type NativeWorkerOptions,
} from '../../../src/worker/index.ts'
import { ack, gatewayForAll } from '../../operations/harness.ts'
import { createVhost } from '../../support/broker/rabbit.ts'
import { jobOf } from '../../support/gateway/client.ts'
import { Gateway } from '../../support/gateway/gateway.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { gate } from '../harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

/** How many handlers run at once, and how many at most did. */
class Running {
  readonly ids: string[] = []
  most = 0
  #now = 0

  /** A handler that takes a moment, so that others would start meanwhile. */
  readonly handler: Handler = async ({ job }) => {
    this.ids.push(job.id)
    await this.during(() => sleep(30))
  }

  async during<T>(run: () => Promise<T>): Promise<T> {
    this.#now += 1
    this.most = Math.max(this.most, this.#now)
    try {
      return await run()
    } finally {
      this.#now -= 1
    }
  }
}

describe.each(['classic', 'quorum'] as const)('concurrency keys, profile %s', (queueType) => {
  const { vhost, gateway } = gatewayForAll({ OJS_QUEUE_TYPE: queueType })
  const workers: NativeWorker[] = []
  let count = 0
  const fresh = () => `${queueType}-${++count}`

  afterEach(async () => {
    await Promise.all(workers.splice(0).map((worker) => worker.stop()))
  })
  const start = async (
    queues: string[],
    handler: Handler,
    given: Partial<NativeWorkerOptions> = {},
  ) => {
    const worker = new NativeWorker({
      ...{ url: vhost.url, queues, queueType, concurrency: 5, gracePeriod: 0 },
      ...{ retryQueueSettleMs: 0, answerTimeoutMs: 10_000, logger: false, handleSignals: false },
      ...given,
    })
    worker.register('test.job', handler)
    workers.push(worker)
    await worker.start()
    return worker
  }
  const push = async (queue: string, key: string, limit: number, options: object = {}) => {
    const answer = await gateway.push(queue, {
      options: { concurrency: { key, limit }, ...options },
    })
    expect(answer.status, JSON.stringify(answer.body)).toBe(201)
    return answer.body.job.id as string
  }
  const infoOf = async (id: string): Promise<Json> => (await gateway.get(id)).body.job
  const untilCompleted = (ids: readonly string[]) =>
    eventually(async () => {
      const states = await Promise.all(ids.map(async (id) => (await infoOf(id))?.state))
      return states.every((state) => state === 'completed')
    }, 30_000)

  test('limits native workers and HTTP workers together, over two queues', async () => {
    const [a, b, key] = [fresh(), fresh(), fresh()]
    const running = new Running()
    await start([a], running.handler)
    await start([b], running.handler)
    const ids: string[] = []
    for (let i = 0; i < 24; i++) ids.push(await push(i % 2 ? a : b, key, 2))
    let isOver = false
    const viaHttp = (async () => {
      while (!isOver) {
        const [job] = await gateway.fetch([a, b], { count: 1, wait_ms: 200 })
        if (job) {
          running.ids.push(job.id)
          await running.during(async () => {
            await sleep(10)
            await ack(gateway, job.id)
          })
        }
      }
    })()
    await untilCompleted(ids)
    isOver = true
    await viaHttp
    expect(running.most).toBe(2)
    expect(new Set(running.ids)).toEqual(new Set(ids))
    expect(running.ids).toHaveLength(ids.length)
  })

  test('is kept with retries that the worker publishes itself', async () => {
    const [queue, key] = [fresh(), fresh()]
    const running = new Running()
    await start([queue], async (context) => {
      await running.handler(context)
      if (context.attempt === 1) throw new Error('once')
    })
    const retry = { max_attempts: 3, initial_interval_ms: 125, jitter: false }
    const ids: string[] = []
    for (let i = 0; i < 6; i++) ids.push(await push(queue, key, 1, { retry }))
    await untilCompleted(ids)
    expect(running.most).toBe(1)
    expect(running.ids).toHaveLength(12)
    expect(await infoOf(ids[0] ?? '')).toMatchObject({ attempt: 2 })
  })

  test('limits jobs that were published natively', async () => {
    const [queue, key] = [fresh(), fresh()]
    const running = new Running()
    const producer = new NativeProducer({ url: vhost.url, queueType, logger: false })
    onTestFinished(() => producer.close())
    const ids: string[] = []
    for (let i = 0; i < 8; i++) {
      const options = { queue, concurrency: { key, limit: 2 } }
      const { id } = await producer.enqueue('test.job', [i], options)
      ids.push(id)
    }
    await start([queue], running.handler)
    await untilCompleted(ids)
    expect(running.most).toBe(2)
  })

  test('gives back a job that the worker has not begun when it stops', async () => {
    const [queue, key] = [fresh(), fresh()]
    const end = gate()
    const worker = await start([queue], async () => void (await end.opened), { concurrency: 2 })
    const first = await push(queue, key, 1)
    await eventually(async () => (await infoOf(first)).state === 'active')
    const second = await push(queue, key, 1)
    expect(await infoOf(second)).toMatchObject({ held_by: { concurrency: key } })
    await worker.stop()
    await start([queue], async () => {})
    await untilCompleted([first, second])
  })
})

test('without a gateway jobs with a key wait, others run; nothing is lost, nothing runs too often', async () => {
  const vhost = await createVhost()
  onTestFinished(() => vhost.drop())
  const gateway = await Gateway.start({ amqpUrl: vhost.url })
  onTestFinished(() => gateway.dispose())
  await gateway.untilHealthy()
  const push = async (options: object) =>
    jobOf(
      await gateway.client.push({
        type: 'test.job',
        args: [],
        options: { queue: 'q', ...options },
      }),
    ).id
  const running = new Running()
  const plain: string[] = []
  const keyed: string[] = []
  for (let i = 0; i < 10; i++) keyed.push(await push({ concurrency: { key: 'k', limit: 1 } }))
  plain.push(await push({}))
  await gateway.kill9()
  const worker = new NativeWorker({
    ...{ url: vhost.url, queues: ['q'], concurrency: 3, logger: false, handleSignals: false },
  })
  const ran: string[] = []
  worker.register('test.job', async (context) => {
    ran.push(context.job.id)
    if (keyed.includes(context.job.id)) await running.handler(context)
  })
  await worker.start()
  onTestFinished(async () => {
    await worker.stop()
  })
  await eventually(() => ran.includes(plain[0] ?? ''), 30_000)
  expect(running.ids).toEqual([])
  await gateway.restart()
  await gateway.untilHealthy()
  await eventually(() => running.ids.length >= 4, 60_000)
  await gateway.kill9()
  await gateway.restart()
  await eventually(async () => {
    const states = await Promise.all(
      keyed.map(async (id) => jobOf(await gateway.client.get(id))['state']),
    )
    return states.every((state) => state === 'completed')
  }, 120_000)
  expect(running.most).toBe(1)
  expect(new Set(running.ids)).toEqual(new Set(keyed))
})
