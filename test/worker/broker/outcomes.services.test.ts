import { v7 } from 'uuid'
import { describe, expect, test } from 'vitest'
import { pikaConsume } from '../../support/broker/pika.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import {
  benchOfFile,
  broadcast,
  gate,
  publishJob,
  ready,
  until,
  untilHeard,
  untilInRetryQueue,
} from '../harness.ts'

const { vhost, on } = benchOfFile()

/** A retry policy without jitter: every delay is 100 ms, so one retry queue suffices. */
const SOON = { initial_interval: 'PT0.1S', backoff_coefficient: 1, jitter: false }

class Refused extends Error {
  override readonly name = 'Refused'
  readonly retryable: boolean
  constructor(message: string, retryable = true) {
    super(message)
    this.retryable = retryable
  }
}

describe('a failure in a native worker', () => {
  test('is retried as attempt 2, with all members of the job and the error', async () => {
    const seen: unknown[] = []
    const { queue, desk } = await on.setUp({
      'test.job': ({ attempt, job }) => {
        seen.push({ attempt, x: job['x'], error: job.error })
        if (attempt === 1) throw new Refused('not yet')
        return 'ok'
      },
    })
    const id = await untilInRetryQueue(desk, () => {
      seen.length = 0
      return publishJob(on.admin, queue, { envelope: { retry: SOON, x: [1, { y: null }] } })
    })
    await until(desk, id, 2)
    expect(desk.ends(id)).toMatchObject([
      {
        event: 'failed',
        attempt: 1,
        error: { code: 'handler_error', type: 'Refused', message: 'not yet', retryable: true },
        outcome: { decision: 'retry', delay_ms: 100, rung_ms: 100 },
      },
      { event: 'completed', attempt: 2, result: 'ok' },
    ])
    expect(seen).toEqual([
      { attempt: 1, x: [1, { y: null }], error: undefined },
      { attempt: 2, x: [1, { y: null }], error: { code: 'handler_error', message: 'not yet' } },
    ])
    expect(await ready(on.admin, `ojs.queue.${queue}`)).toBe(0)
  })

  test('publishes a retry with the trace and tags that only the body of the job message had', async () => {
    const { queue, desk, worker } = await on.setUp({
      'test.job': () => {
        throw new Refused('no')
      },
    })
    const traceparent = `00-${'4b'.repeat(16)}-${'a1'.repeat(8)}-01`
    const meta = { traceparent, correlation_id: 'order-1' }
    const retry = { ...SOON, initial_interval: 'PT60S' }
    await untilInRetryQueue(desk, async () => {
      const id = v7()
      const body = { id, type: 'test.job', args: [], meta, retry, tags: ['a', 'b'] }
      const content = Buffer.from(JSON.stringify(body))
      on.admin.channel.publish('ojs.exchange.direct', queue, content, { messageId: id })
      return id
    })
    await worker.stop()
    const [message] = await pikaConsume(vhost.url, `ojs.queue.retry.${queue}.60000`, 1)
    expect(message?.properties).toMatchObject({ correlation_id: 'order-1' })
    expect(message?.headers).toMatchObject({
      'x-ojs-trace-id': ['S', traceparent],
      'x-ojs-tags': ['S', 'a,b'],
    })
  })

  test('publishes a retry with the body, properties and headers of the job message and the binding', async () => {
    const { queue, desk, worker } = await on.setUp({
      'test.job': () => {
        throw new Refused('no: ✓')
      },
    })
    // Python takes seconds to start, and the job message must still be in the retry queue then.
    const retry = { ...SOON, initial_interval: 'PT60S' }
    const bodyOf = (id: string) => JSON.stringify({ id, type: 'test.job', args: [], retry })
    const id = await untilInRetryQueue(desk, async () => {
      const messageId = v7()
      on.admin.channel.publish('ojs.exchange.direct', queue, Buffer.from(bodyOf(messageId)), {
        messageId,
        type: 'test.job',
        priority: 7,
        correlationId: 'c-1',
        timestamp: 1_700_000_000,
        appId: 'shop',
        headers: {
          'x-ojs-attempt': 1,
          'x-ojs-max-attempts': 5,
          'x-ojs-trace-id': `00-${'4b'.repeat(16)}-${'a1'.repeat(8)}-01`,
          'x-tenant': 'acme',
          'x-death': [{ queue: 'elsewhere', count: 1 }],
        },
      })
      return messageId
    })
    await worker.stop()
    const [message] = await pikaConsume(vhost.url, `ojs.queue.retry.${queue}.60000`, 1)
    expect(message?.body).toBe(bodyOf(id))
    expect(message?.properties).toMatchObject({
      message_id: id,
      type: 'test.job',
      priority: 7,
      correlation_id: 'c-1',
      timestamp: 1_700_000_000,
      app_id: 'shop',
      delivery_mode: 2,
      content_type: 'application/openjobspec+json',
    })
    expect(message?.headers).toMatchObject({
      'x-ojs-attempt': ['I', 2],
      'x-ojs-max-attempts': ['I', 5],
      'x-ojs-queue': ['S', queue],
      'x-ojs-trace-id': ['S', `00-${'4b'.repeat(16)}-${'a1'.repeat(8)}-01`],
      'x-ojs-error-code': ['S', 'handler_error'],
      'x-ojs-error-message': ['S', 'no: ✓'],
      'x-tenant': ['S', 'acme'],
    })
    expect(message?.headers).not.toHaveProperty('x-death')
  })

  test('of the last attempt is nacked, and RabbitMQ dead-letters the job message', async () => {
    const { queue, desk } = await on.setUp({
      'test.job': () => {
        throw new Refused('never')
      },
    })
    const id = await publishJob(on.admin, queue, {
      envelope: { retry: SOON, max_attempts: 2 },
      attempt: 2,
    })
    await until(desk, id)
    expect(desk.ends(id)).toMatchObject([
      { event: 'failed', attempt: 2, outcome: { decision: 'discard' } },
    ])
    await eventually(async () => (await ready(on.admin, `ojs.queue.dlx.${queue}`)) === 1)
    const copy = await on.admin.channel.get(`ojs.queue.dlx.${queue}`)
    expect(copy === false ? null : copy.properties.headers?.['x-death']?.[0]?.reason).toBe(
      'rejected',
    )
  })

  test.each([
    ['an error that says so', { 'test.job': () => Promise.reject(new Refused('no', false)) }],
    ['a type without a handler', {}],
  ])('is final for %s', async (_name, handlers) => {
    const { queue, desk } = await on.setUp(handlers)
    const id = await publishJob(on.admin, queue)
    await until(desk, id)
    expect(desk.ends(id)).toMatchObject([
      {
        event: 'failed',
        attempt: 1,
        error: { retryable: false },
        outcome: { decision: 'discard' },
      },
    ])
    await eventually(async () => (await ready(on.admin, `ojs.queue.dlx.${queue}`)) === 1)
  })

  test('is judged by the `retry_policy` of a foreign body', async () => {
    const { queue, desk } = await on.setUp({
      'test.job': () => {
        throw new Refused('no')
      },
    })
    const policy = { ...SOON, non_retryable_errors: ['Refused'] }
    const id = await publishJob(on.admin, queue, { envelope: { retry_policy: policy } })
    await until(desk, id)
    expect(desk.ends(id)).toMatchObject([{ attempt: 1, outcome: { decision: 'discard' } }])
  })

  test('leaves the retry to the gateway if the retry queue has other arguments', async () => {
    const { queue, desk } = await on.setUp({
      'test.job': () => {
        throw new Refused('no')
      },
    })
    const retryQueue = `ojs.queue.retry.${queue}.100`
    await on.admin.channel.assertQueue(retryQueue, { arguments: { 'x-message-ttl': 100 } })
    const id = await publishJob(on.admin, queue, { envelope: { retry: SOON } })
    await until(desk, id)
    expect(desk.ends(id)[0]?.outcome).toEqual({ decision: 'retry', delay_ms: 100, rung_ms: null })
    expect(await ready(on.admin, retryQueue)).toBe(0)
  })

  test('by timeout is reported while the handler still runs', async () => {
    const end = gate()
    const { queue, desk } = await on.setUp({ 'test.job': () => end.opened })
    const id = await publishJob(on.admin, queue, { envelope: { timeout_ms: 50, max_attempts: 1 } })
    await until(desk, id)
    expect(desk.ends(id)).toMatchObject([{ event: 'failed', error: { code: 'timeout' } }])
    end.open()
  })

  test('is reported as expired, without a run, if the job had expired before its delivery', async () => {
    const { queue, desk } = await on.setUp({ 'test.job': () => 'ran' })
    const expired = { expires_at: new Date(Date.now() - 1_000).toISOString() }
    const id = await publishJob(on.admin, queue, { envelope: expired })
    await until(desk, id)
    expect(desk.ends(id)).toMatchObject([{ event: 'expired', attempt: 1 }])
  })
})

describe('a cancellation broadcast to a native worker', () => {
  test('of a running job fires its signal, drops its job message and is reported as dropped', async () => {
    const begun = gate()
    const aborted = gate()
    const { queue, desk, jobQueue, worker } = await on.setUp({
      'test.job': async ({ signal }) => {
        begun.open()
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        aborted.open()
      },
      'test.next': () => 1,
    })
    const id = await publishJob(on.admin, queue)
    await begun.opened
    await broadcast(on.admin, queue, 'ojs.control.cancel', { job_id: id })
    await aborted.opened
    const next = await publishJob(on.admin, queue, { envelope: { type: 'test.next' } })
    await until(desk, next)
    await until(desk, id)
    expect(desk.ends(id)).toMatchObject([{ event: 'dropped', generation: 0, attempt: 1 }])
    await worker.stop()
    expect(await on.admin.takeAll(jobQueue)).toEqual([])
  })

  test('of a queued job keeps it from running', async () => {
    const end = gate()
    const ran: string[] = []
    const { queue, desk, jobQueue } = await on.setUp(
      {
        'test.job': async ({ job }) => {
          ran.push(job.id)
          if (ran.length === 1) await end.opened
        },
      },
      { concurrency: 1 },
    )
    const first = await publishJob(on.admin, queue)
    const cancelled = await publishJob(on.admin, queue)
    const last = await publishJob(on.admin, queue)
    await broadcast(on.admin, queue, 'ojs.control.cancel', { job_id: cancelled })
    await eventually(() => ran.length === 1)
    await untilHeard(on.admin, queue)
    end.open()
    await until(desk, last)
    expect(ran).toEqual([first, last])
    expect(await ready(on.admin, jobQueue)).toBe(0)
  })

  test('of generation 1 drops generation 1 and lets generation 2 run', async () => {
    const { queue, desk } = await on.setUp({ 'test.job': () => 1 })
    const id = '0197a2b4-0000-7000-8000-0000000000aa'
    await broadcast(on.admin, queue, 'ojs.control.cancel', { job_id: id, generation: 1 })
    await untilHeard(on.admin, queue)
    await publishJob(on.admin, queue, { id, generation: 1 })
    await publishJob(on.admin, queue, { id, generation: 2 })
    await until(desk, id, 2)
    const said = desk.ends(id).map(({ generation, event }) => [generation, event])
    expect(new Map(said as [number, string][])).toEqual(
      new Map([
        [1, 'dropped'],
        [2, 'completed'],
      ]),
    )
  })

  test('that was missed takes effect by the answer to sync', async () => {
    const { queue, desk, worker } = await on.setUp({ 'test.job': () => 1 })
    await worker.stop()
    const cancelled = await publishJob(on.admin, queue)
    const other = await publishJob(on.admin, queue)
    desk.sync = { ...desk.sync, tombstones: [cancelled] }
    await on.start({ queues: [queue] }, { 'test.job': () => 1 })
    await until(desk, other)
    await until(desk, cancelled)
    expect(desk.of(cancelled)).toMatchObject([{ event: 'dropped' }])
    const synced = desk.questions.filter(({ type }) => type === 'ojs.control.sync')
    expect(synced.at(-1)?.body.queues).toEqual([queue])
  })
})

describe('orders of a gateway to a native worker', () => {
  test('pause: the worker stops consuming the queue until resume', async () => {
    const { queue, desk, jobQueue } = await on.setUp({ 'test.job': () => 1 })
    await broadcast(on.admin, queue, 'ojs.control.pause', { queue })
    await eventually(async () => (await on.admin.channel.checkQueue(jobQueue)).consumerCount === 0)
    const id = await publishJob(on.admin, queue)
    expect(await ready(on.admin, jobQueue)).toBe(1)
    await broadcast(on.admin, queue, 'ojs.control.resume', { queue })
    await until(desk, id)
  })

  test('cancel: a quiet worker obeys after its connection was lost', async () => {
    const proxy = await TcpProxy.start(vhost.url)
    const reasons: unknown[] = []
    const { queue, desk, worker } = await on.setUp(
      {
        'test.job': ({ signal }) =>
          new Promise((resolve) => {
            signal.addEventListener('abort', () => resolve(reasons.push(signal.reason.reason)))
          }),
      },
      { url: proxy.url },
    )
    const id = await publishJob(on.admin, queue)
    await eventually(() => worker.activeJobs === 1)
    worker.quiet()
    const asked = () => desk.questions.filter(({ type }) => type === 'ojs.control.sync').length
    const before = asked()
    proxy.cut()
    await eventually(() => asked() > before)
    await broadcast(on.admin, queue, 'ojs.control.cancel', { job_id: id })
    await eventually(() => reasons.length > 0)
    expect(reasons).toEqual(['cancelled'])
    await worker.stop()
    await proxy.stop()
  })

  test('quiet and terminate: one worker obeys if it is named, all if none is', async () => {
    const { queue, jobQueue, worker } = await on.setUp({ 'test.job': () => 1 })
    const other = await on.start({ queues: [queue] }, { 'test.job': () => 1 })
    const directive = { worker_id: worker.workerId, state: 'quiet' }
    await broadcast(on.admin, queue, 'ojs.control.directive', directive)
    await eventually(async () => (await on.admin.channel.checkQueue(jobQueue)).consumerCount === 1)
    expect([worker.state, other.state]).toEqual(['quiet', 'running'])
    await broadcast(on.admin, queue, 'ojs.control.directive', { state: 'terminate' })
    await Promise.all([worker.stopped, other.stopped])
  })

  test('sync: the worker obeys the paused queues and the directive of the answer', async () => {
    const { queue, desk, jobQueue, worker } = await on.setUp({})
    await worker.stop()
    desk.sync = { ...desk.sync, paused: [queue] }
    await on.start({ queues: [queue] }, { 'test.job': () => 1 })
    expect((await on.admin.channel.checkQueue(jobQueue)).consumerCount).toBe(0)
    desk.sync = { ...desk.sync, paused: [], directive: 'quiet' }
    expect((await on.start({ queues: [queue] }, {})).state).toBe('quiet')
  })
})

describe('a heartbeat of a native worker', () => {
  test('names the worker, its queues and its running jobs', async () => {
    const end = gate()
    const { queue, desk, worker } = await on.setUp(
      { 'test.job': () => end.opened },
      { heartbeatInterval: 50, concurrency: 3 },
    )
    const id = await publishJob(on.admin, queue)
    await eventually(() => desk.heartbeats.some(({ job_ids }) => job_ids.includes(id)))
    expect(desk.heartbeats.at(-1)).toMatchObject({
      worker_id: worker.workerId,
      job_ids: [id],
      state: 'running',
      queues: [queue],
      concurrency: 3,
      pid: process.pid,
    })
    end.open()
    await until(desk, id)
    const after = desk.heartbeats.length
    await eventually(() => desk.heartbeats.length > after + 1)
    expect(desk.heartbeats.at(-1).job_ids).toEqual([])
  })
})
