import { describe, expect, onTestFinished, test } from 'vitest'
import type { Handler } from '../../../src/sdk/index.ts'
import {
  fetchOne,
  freshQueue,
  gatewayForAll,
  storyOf,
  untilState,
} from '../../operations/harness.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { benchOfFile, gate, publishJob, workersOfTest } from '../harness.ts'

/** Runs until its signal fires. */
const endless: Handler = ({ signal }) =>
  new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason))
  })

describe('a job whose native worker is shut down', () => {
  const { vhost, gateway } = gatewayForAll()
  const start = workersOfTest(() => vhost.url)

  /** Pushes a job and starts a worker that runs it. The lease is long, so that no job returns by its end. */
  async function pushRunning(queue: string, maxAttempts = 1) {
    const options = { visibility_timeout_ms: 600_000, retry: { max_attempts: maxAttempts } }
    const id: string = (await gateway.push(queue, { options })).body.job.id
    const worker = await start(queue, endless)
    await untilState(gateway, id, 'active')
    return { id, worker }
  }

  test.each([1, 3])(
    'is run by the next native worker at once, again as attempt 1 of %i',
    async (maxAttempts) => {
      const queue = freshQueue()
      const { id, worker } = await pushRunning(queue, maxAttempts)
      expect(await worker.stop()).toEqual({ abandoned: [id] })
      await start(queue, ({ attempt }) => ({ attempt }))
      const job = await untilState(gateway, id, 'completed')
      expect(job).toMatchObject({ attempt: 1, result: { attempt: 1 } })
      expect(job.errors).toBeUndefined()
      const story = await storyOf(gateway, queue, id)
      expect(story.filter((type) => type !== 'job.heartbeat')).toEqual([
        'job.enqueued',
        'job.started',
        'job.enqueued',
        'job.started',
        'job.completed',
      ])
    },
  )

  test('can be given back twice and runs in between, still as attempt 1', async () => {
    const queue = freshQueue()
    const { id, worker } = await pushRunning(queue)
    await worker.stop()
    const next = await start(queue, endless)
    await eventually(async () => (await gateway.get(id)).body.job.worker_id === next.workerId)
    expect((await gateway.get(id)).body.job).toMatchObject({ state: 'active', attempt: 1 })
    await next.stop()
    await start(queue, () => 'third')
    expect(await untilState(gateway, id, 'completed')).toMatchObject({
      attempt: 1,
      result: 'third',
    })
  })

  test('can be fetched and acknowledged over HTTP', async () => {
    const queue = freshQueue()
    const { id, worker } = await pushRunning(queue)
    const fetched = fetchOne(gateway, queue)
    await worker.stop()
    expect(await fetched).toMatchObject({ id, attempt: 1 })
    expect((await gateway.ack(id)).status).toBe(200)
  })

  test('is given back, and run again, while the gateway is stopped', async () => {
    const queue = freshQueue()
    const { id, worker } = await pushRunning(queue)
    await gateway.stop()
    await worker.stop()
    const ran = gate()
    const attempts: number[] = []
    await start(queue, ({ attempt }) => {
      attempts.push(attempt)
      ran.open()
    })
    await ran.opened
    await gateway.restart()
    expect(await untilState(gateway, id, 'completed')).toMatchObject({ attempt: 1 })
    expect(attempts).toEqual([1])
  })
})

describe('a native worker that is stopped', () => {
  const { vhost, on } = benchOfFile()

  test("reports released with the job message's attempt before it requeues the job message", async () => {
    const queue = await on.queue()
    const jobQueue = `ojs.queue.${queue}`
    const id = await publishJob(on.admin, queue)
    const delivered = await on.admin.channel.get(jobQueue)
    if (delivered === false) throw new Error('the job is not there')
    on.admin.channel.nack(delivered)
    const desk = await on.desk(queue)
    desk.claim = ({ attempt }) => ({ decision: 'run', attempt: attempt + 4 })
    const worker = await on.start({ queues: [queue] }, { 'test.job': endless })
    await eventually(() => desk.of(id).length === 1)
    await worker.stop()
    await eventually(() => desk.ends(id).length === 1)
    expect(desk.of(id)).toMatchObject([
      { event: 'started', attempt: 5 },
      { event: 'released', generation: 0, attempt: 5, token_attempt: 1 },
    ])
    expect(await on.admin.takeAll(jobQueue)).toEqual([id])
  })

  test('reports nothing about a job that has not begun, and requeues it', async () => {
    const { queue, desk, worker, jobQueue } = await on.setUp(
      { 'test.job': endless },
      { concurrency: 1 },
    )
    const first = await publishJob(on.admin, queue)
    await eventually(() => desk.of(first).length === 1)
    const second = await publishJob(on.admin, queue)
    await worker.stop()
    await eventually(() => desk.ends(first).length === 1)
    expect(desk.ends(first)).toMatchObject([{ event: 'released', attempt: 1, token_attempt: 1 }])
    expect(desk.of(second)).toEqual([])
    expect(new Set(await on.admin.takeAll(jobQueue))).toEqual(new Set([first, second]))
  })

  test('ends, and names its job as abandoned, while RabbitMQ does not answer', async () => {
    const proxy = await TcpProxy.start(vhost.url)
    onTestFinished(() => proxy.stop())
    const queue = await on.queue()
    const id = await publishJob(on.admin, queue)
    const alone = { url: proxy.url, queues: [queue], answerTimeoutMs: 50 }
    const worker = await on.start(alone, { 'test.job': endless })
    await eventually(() => worker.activeJobs === 1)
    proxy.hold('to-gateway')
    expect(await worker.stop()).toEqual({ abandoned: [id] })
  })
})
