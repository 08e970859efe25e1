import { afterAll, describe, expect, test } from 'vitest'
import type { JobContext } from '../../../src/sdk/index.ts'
import { inOrder } from '../../support/broker/order.ts'
import { createVhost } from '../../support/broker/rabbit.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import {
  benchIn,
  type ControlDesk,
  gate,
  publishJob,
  type ReportedEvent,
  ready,
  until,
} from '../harness.ts'

const vhost = await createVhost()
let connections = 0
const proxy = await TcpProxy.start(vhost.url, (connection) => {
  connections = Math.max(connections, connection)
})
afterAll(async () => {
  await proxy.stop()
  await vhost.drop()
})
const on = benchIn(vhost)

/** For workers whose connections the test cuts, while all other connections live on. */
function throughProxy(): { url: string } {
  return { url: proxy.url }
}

/** Publishes jobs and takes their job messages once, so that RabbitMQ marks them as redelivered. */
async function publishRedelivered(queue: string, ...envelopes: object[]): Promise<string[]> {
  const ids: string[] = []
  for (const envelope of envelopes) ids.push(await publishJob(on.admin, queue, { envelope }))
  const channel = await on.admin.model.createChannel()
  for (const _ of ids) await channel.get(`ojs.queue.${queue}`)
  await channel.close()
  return ids
}

function claims(desk: ControlDesk, id: string) {
  return desk.questions.filter(({ type, body }) => /claim/.test(type) && body.job_id === id)
}

describe('a native worker claims a redelivered job message', () => {
  test('and runs it as the attempt that the gateway says, after reporting its start', async () => {
    const seen: { attempt: number; inJob: number; onRecord: readonly ReportedEvent[] }[] = []
    const queue = await on.queue()
    const desk = await on.desk(queue)
    desk.claim = ({ attempt }) => ({ decision: 'run', attempt: attempt + 4 })
    const [id = ''] = await publishRedelivered(queue, { max_attempts: 9 })
    const handler = async ({ attempt, job }: JobContext) => {
      // The report reaches the desk through another connection, so it may take a moment.
      await eventually(() => desk.of(job.id).length > 0)
      seen.push({ attempt, inJob: job.attempt, onRecord: desk.of(job.id) })
    }
    const worker = await on.start({ queues: [queue] }, { 'test.job': handler })
    await until(desk, id)
    expect(seen).toMatchObject([
      { attempt: 5, inJob: 5, onRecord: [{ event: 'started', attempt: 5 }] },
    ])
    expect(desk.ends(id)).toMatchObject([{ event: 'completed', attempt: 5 }])
    expect(claims(desk, id)).toMatchObject([
      { body: { job_id: id, generation: 0, attempt: 1, worker_id: worker.workerId } },
    ])
  })

  test('and asks until a gateway knows where it had stopped', async () => {
    const seen: unknown[] = []
    const queue = await on.queue()
    const desk = await on.desk(queue)
    let asked = 0
    desk.info = () => {
      asked += 1
      if (asked === 1) return { error: { code: 'backend_error', details: { reason: 'busy' } } }
      return { job: { checkpoint: { state: { page: 3 } } } }
    }
    const [id = ''] = await publishRedelivered(queue, {})
    const handler = async (ctx: JobContext) => void seen.push(await ctx.lastCheckpoint())
    await on.start({ queues: [queue] }, { 'test.job': handler })
    await until(desk, id)
    expect([asked, seen]).toEqual([2, [{ page: 3 }]])
    expect(claims(desk, id)).toMatchObject([{ body: { redelivered: true } }])
  })

  test('and drops or discards it if the gateway says so', async () => {
    const queue = await on.queue()
    const desk = await on.desk(queue)
    const [dropped = '', discarded = ''] = await publishRedelivered(queue, {}, {})
    desk.claim = ({ job_id: id }) => ({ decision: id === dropped ? 'drop' : 'discard', attempt: 1 })
    const ran: string[] = []
    const handler = ({ job }: JobContext) => ran.push(job.id)
    const worker = await on.start({ queues: [queue] }, { 'test.job': handler })
    await eventually(async () => (await ready(on.admin, `ojs.queue.dlx.${queue}`)) === 1)
    expect(await on.admin.takeAll(`ojs.queue.dlx.${queue}`)).toEqual([discarded])
    await eventually(() => claims(desk, dropped).length === 1)
    const last = await publishJob(on.admin, queue)
    await until(desk, last)
    await worker.stop()
    expect(ran).toEqual([last])
    expect(await ready(on.admin, `ojs.queue.${queue}`)).toBe(0)
  })

  test('and returns it to the queue while the gateway says that the queue is paused', async () => {
    const queue = await on.queue()
    const desk = await on.desk(queue)
    const [id = ''] = await publishRedelivered(queue, {})
    desk.claim = ({ attempt }) => ({
      decision: claims(desk, id).length <= 2 ? 'requeue' : 'run',
      attempt,
    })
    await on.start({ queues: [queue] }, { 'test.job': () => 1 })
    await until(desk, id)
    expect(claims(desk, id).length).toBe(3)
    expect(desk.ends(id)).toMatchObject([{ event: 'completed', attempt: 1 }])
  })

  test('and runs it if nobody answers, without claiming the next one', async () => {
    const queue = await on.queue()
    const desk = await on.desk(queue)
    desk.claim = () => null
    const [first = '', second = ''] = await publishRedelivered(queue, {}, {})
    const given = { queues: [queue], concurrency: 1, answerTimeoutMs: 8_000 }
    await on.start(given, { 'test.job': () => 1 })
    await until(desk, first)
    await until(desk, second)
    expect([claims(desk, first).length, claims(desk, second).length]).toEqual([1, 0])
  })

  test('and all first deliveries too, until the queue is drained, if the list of cancelled jobs was truncated', async () => {
    const queue = await on.queue()
    const desk = await on.desk(queue)
    desk.sync = { ...desk.sync, truncated: true }
    const id = await publishJob(on.admin, queue)
    await on.start({ queues: [queue], heartbeatInterval: 50 }, { 'test.job': () => 1 })
    await until(desk, id)
    expect(claims(desk, id)).toHaveLength(1)
    // Jobs that arrive once the queue was empty were published after the answer, which therefore covers them.
    await eventually(async () => {
      const later = await publishJob(on.admin, queue)
      await until(desk, later)
      return claims(desk, later).length === 0
    })
  })
})

test('a native worker claims all 200 jobs of a queue after a truncated sync, with 500 free slots and a heartbeat due', async () => {
  const queue = await on.queue()
  const desk = await on.desk(queue)
  desk.sync = { ...desk.sync, truncated: true }
  const payload = { envelope: { args: ['x'.repeat(10_000)] } }
  const ids = await Promise.all(
    Array.from({ length: 200 }, () => publishJob(on.admin, queue, payload)),
  )
  await on.start({ queues: [queue], concurrency: 500 }, { 'test.job': () => 1 })
  for (const id of ids) await until(desk, id)
  expect(ids.filter((id) => claims(desk, id).length !== 1)).toEqual([])
})

describe('a native worker that loses its connections or its consumer', () => {
  test('runs no job twice, and settles the redelivered job messages', async () => {
    const end = gate()
    const runs: string[] = []
    const { queue, jobQueue, desk, worker } = await on.setUp(
      {
        'test.job': async ({ job }) => {
          runs.push(job.id)
          await end.opened
        },
      },
      { ...throughProxy(), concurrency: 5 },
    )
    const ids = await Promise.all(Array.from({ length: 5 }, () => publishJob(on.admin, queue)))
    await eventually(() => runs.length === 5)
    proxy.cut()
    await untilBack(jobQueue)
    end.open()
    await eventually(() => ids.every((id) => desk.ends(id).length === 1))
    // The queue keeps its order, so the other job messages have been redelivered before this one.
    const last = await publishJob(on.admin, queue)
    await until(desk, last)
    await worker.stop()
    expect(inOrder(runs)).toEqual(inOrder([...ids, last]))
    expect(await ready(on.admin, jobQueue)).toBe(0)
  })

  test('reports an end once after the reconnect, and acknowledges its job message, if the loss came during the report', async () => {
    const end = gate()
    const begun = gate()
    const { queue, jobQueue, desk, worker } = await on.setUp(
      {
        'test.job': async () => {
          begun.open()
          await end.opened
          return 'late'
        },
      },
      throughProxy(),
    )
    const id = await publishJob(on.admin, queue)
    await begun.opened
    proxy.hold('to-broker')
    end.open()
    // Long enough for the worker to send its report, which the proxy holds back.
    await new Promise((resolve) => setTimeout(resolve, 50))
    const isBack = untilBack(jobQueue)
    proxy.cut()
    proxy.release('to-broker')
    await until(desk, id)
    await isBack
    const last = await publishJob(on.admin, queue, { envelope: { type: 'test.other' } })
    await until(desk, last)
    expect(desk.ends(id)).toMatchObject([{ event: 'completed', result: 'late' }])
    await worker.stop()
    expect(await ready(on.admin, jobQueue)).toBe(0)
  })

  test('does not run attempt 2 without its job message, but releases it, if the loss came while its start was reported', async () => {
    const ran: string[] = []
    const here = { 'test.job': () => ran.push('here') }
    const { queue, jobQueue, desk, worker } = await on.setUp(here, throughProxy())
    proxy.hold('to-broker')
    const id = await publishJob(on.admin, queue, { attempt: 2 })
    await eventually(async () => (await ready(on.admin, jobQueue)) === 0)
    proxy.refuse(true)
    proxy.cut()
    proxy.release('to-broker')
    await on.start({ queues: [queue] }, { 'test.job': () => ran.push('elsewhere') })
    await until(desk, id)
    proxy.refuse(false)
    const starts = () => desk.of(id).filter(({ event }) => event === 'started')
    await eventually(() => starts().length === 2)
    await worker.stop()
    expect(ran).toEqual(['elsewhere'])
    expect(desk.of(id).at(-1)).toMatchObject({ event: 'released', attempt: 2, token_attempt: 2 })
  })

  test('declares a deleted queue again and consumes it', async () => {
    const { queue, jobQueue, desk } = await on.setUp({ 'test.job': () => 1 })
    await on.admin.channel.deleteQueue(jobQueue)
    await eventually(async () => (await countConsumers(jobQueue)) === 1)
    const id = await publishJob(on.admin, queue)
    await until(desk, id)
  })
})

/** Resolves when the worker has both connections again and consumes its queue. */
async function untilBack(jobQueue: string): Promise<void> {
  const before = connections
  await eventually(() => connections >= before + 2)
  await eventually(async () => (await on.admin.channel.checkQueue(jobQueue)).consumerCount === 1)
}

async function countConsumers(queue: string): Promise<number> {
  const channel = await on.admin.model.createChannel()
  channel.on('error', () => {})
  const counted = await channel.checkQueue(queue).catch(() => null)
  if (counted === null) return 0
  await channel.close()
  return counted.consumerCount
}
