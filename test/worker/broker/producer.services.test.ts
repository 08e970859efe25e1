import { getEventListeners } from 'node:events'
import { v7 } from 'uuid'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { OJSBackendError, OJSNotFoundError, OJSRateLimitError } from '../../../src/sdk/index.ts'
import { type AmqpOptions, NativeProducer } from '../../../src/worker/index.ts'
import { adminForAll } from '../../broker/fixtures.ts'
import { connectAdmin } from '../../broker/harness.ts'
import { pikaConsume } from '../../support/broker/pika.ts'
import { createVhost, vhostForAll } from '../../support/broker/rabbit.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { eventually, startTestGateway, type TestGateway } from '../../support/gateway/in-process.ts'

const UNKNOWN = '0197a2b4-0000-7000-8000-0000000000ff'
const TRACEPARENT = `00-${'4b'.repeat(16)}-${'a1'.repeat(8)}-01`

const vhost = vhostForAll()
const admin = adminForAll(vhost)
let producer: NativeProducer

function open(given: Partial<AmqpOptions> = {}): void {
  const options = { url: vhost.url, logger: false, publishTimeoutMs: 15_000 } as const
  producer = new NativeProducer({ ...options, ...given })
}

describe('NativeProducer without a gateway', () => {
  beforeAll(() => open())
  afterAll(() => producer.close())

  test('publishes a job with every property and header of the binding', async () => {
    const job = await producer.enqueue('email.send', ['a@example.com', { n: 1 }], {
      queue: 'mail',
      priority: 7,
      tags: ['x', 'y'],
      timeoutMs: 5_000,
      retry: { maxAttempts: 4, initialInterval: 'PT2S' },
      meta: { traceparent: TRACEPARENT, tenant: 'acme' },
    })
    expect(job).toMatchObject({ type: 'email.send', queue: 'mail', state: 'available', attempt: 0 })
    const [message] = await pikaConsume(vhost.url, 'ojs.queue.mail', 1)
    expect(message).toMatchObject({ exchange: 'ojs.exchange.direct', routing_key: 'mail' })
    expect(message?.properties).toStrictEqual({
      message_id: job.id,
      type: 'email.send',
      content_type: 'application/openjobspec+json',
      content_encoding: 'utf-8',
      timestamp: Math.floor(Date.parse(String(job.created_at)) / 1000),
      delivery_mode: 2,
      priority: 7,
      correlation_id: '4b'.repeat(16),
      app_id: 'ojs',
    })
    expect(message?.headers).toStrictEqual({
      'x-ojs-queue': ['S', 'mail'],
      'x-ojs-attempt': ['I', 1],
      'x-ojs-max-attempts': ['I', 4],
      'x-ojs-created-at': ['S', job.created_at],
      'x-ojs-enqueued-at': ['S', job.enqueued_at],
      'x-ojs-tags': ['S', 'x,y'],
      'x-ojs-trace-id': ['S', TRACEPARENT],
      'x-ojs-native': ['t', true],
    })
    expect(JSON.parse(message?.body ?? '')).toMatchObject({
      specversion: '1.0',
      id: job.id,
      args: ['a@example.com', { n: 1 }],
      timeout_ms: 5_000,
      retry: { max_attempts: 4, initial_interval: 'PT2S' },
    })
  })

  test('rejects an invalid type, an invalid priority and a pending job', async () => {
    const wrong = producer.enqueue('no spaces', [], { queue: 'strict' })
    await expect(wrong).rejects.toMatchObject({ name: 'OJSValidationError' })
    const urgent = producer.enqueue('ok', [], { queue: 'strict', priority: 1_000 })
    await expect(urgent).rejects.toMatchObject({ name: 'OJSValidationError' })
    await producer.enqueue('ok', [1.6e18], { queue: 'numbers' })
    const staged = producer.enqueue('ok', [], { pending: true })
    await expect(staged).rejects.toMatchObject({ name: 'OJSUnsupportedError' })
  })

  test('rejects unique jobs, and publishes nothing of a batch that has one', async () => {
    const options = { queue: 'strict', unique: { keys: ['type'] } }
    const once = producer.enqueue('ok', [], options)
    await expect(once).rejects.toMatchObject({ name: 'OJSUnsupportedError' })
    const all = producer.enqueueBatch([
      { type: 'ok', options: { queue: 'strict' } },
      { type: 'ok', options },
    ])
    await expect(all).rejects.toMatchObject({ name: 'OJSUnsupportedError' })
    await producer.enqueue('ok', [], { queue: 'strict', unique: undefined })
    expect(await admin.takeAll('ojs.queue.strict')).toHaveLength(1)
  })

  test('treats options that are undefined as absent', async () => {
    const vague = new NativeProducer({
      url: vhost.url,
      logger: false,
      prefix: undefined,
      publishTimeoutMs: undefined,
    })
    const [job] = await vague.enqueueBatch([
      { type: 'ok', id: '0197a2b4-0000-7000-8000-000000000042', options: { queue: 'vague' } },
    ])
    expect(await admin.takeAll('ojs.queue.vague')).toEqual([job?.id])
    await vague.close()
  })

  test('rejects every call after close(), which may be called twice', async () => {
    const closed = new NativeProducer({ url: vhost.url, logger: false })
    await closed.enqueue('ok', [], { queue: 'closed' })
    await Promise.all([closed.close(), closed.close()])
    const error = new Error('The producer was closed; make a new one.')
    await expect(closed.enqueue('ok', [], { queue: 'closed' })).rejects.toThrow(error)
    await expect(closed.enqueueBatch([{ type: 'ok' }])).rejects.toThrow(error)
    await expect(closed.cancelJob('0197a2b4-0000-7000-8000-000000000042')).rejects.toThrow(error)
  })

  test.each([
    ['that is not connected yet', false],
    ['that has a queue to declare', true],
  ])('waits in close() for calls under way of a producer %s', async (_what, isConnected) => {
    const ending = new NativeProducer({ url: vhost.url, logger: false })
    if (isConnected) await ending.enqueue('ok', [], { queue: 'ending' })
    const queue = `ending.${isConnected}`
    const calls = [
      ending.enqueue('ok', [], { queue }),
      ending.enqueueBatch([{ type: 'ok', options: { queue } }]),
    ]
    await ending.close()
    const notYet = new Promise((resolve) => setImmediate(resolve, 'not yet'))
    const over = await Promise.race([Promise.allSettled(calls), notYet])
    expect(over).toMatchObject([{ status: 'fulfilled' }, { status: 'fulfilled' }])
    expect(await admin.takeAll(`ojs.queue.${queue}`)).toHaveLength(2)
  })

  test('closes at once without RabbitMQ, and rejects its waiting calls', async () => {
    const lost = new NativeProducer({ url: 'amqp://127.0.0.1:1/x', logger: false })
    const call = expect(lost.enqueue('ok', [])).rejects.toBeInstanceOf(OJSBackendError)
    const since = performance.now()
    await lost.close()
    await call
    // Waiting for the call under way would take 10 s.
    expect(performance.now() - since).toBeLessThan(9_000)
  })

  test('rejects a cancellation without an id with TypeError', async () => {
    const none = producer.cancelJob(undefined as unknown as string)
    await expect(none).rejects.toBeInstanceOf(TypeError)
  })

  test('declares the control queue for a cancellation, also on a new broker', async () => {
    const own = await createVhost()
    const canceller = new NativeProducer({ url: own.url, logger: false, publishTimeoutMs: 15_000 })
    const there = await connectAdmin(own.url)
    await canceller.cancelJob(v7(), { queue: 'first' })
    await canceller.cancelJob(v7(), { queue: 'fresh' })
    expect(await there.takeAll('ojs.queue.control.first')).toHaveLength(1)
    expect(await there.takeAll('ojs.queue.control.fresh')).toHaveLength(1)
    await canceller.close()
    await there.close()
    await own.drop()
  })

  test('declares a deleted exchange again', async () => {
    await producer.enqueue('ok', [1], { queue: 'exchanged' })
    await admin.channel.deleteExchange('ojs.exchange.direct')
    const again = () => producer.enqueue('ok', [2], { queue: 'exchanged' })
    await eventually(() =>
      again().then(
        () => true,
        () => false,
      ),
    )
    expect(await admin.takeAll('ojs.queue.exchanged')).toHaveLength(2)
  })

  test('publishes a scheduled job that the next gateway stores', async () => {
    const scheduled = { queue: 'later', delayUntil: new Date(Date.now() + 3_600_000) }
    const job = await producer.enqueue('ok', [], scheduled)
    expect(job).toMatchObject({ state: 'scheduled', queue: 'later' })
    expect(job.scheduled_at).toBe(scheduled.delayUntil.toISOString())
    expect(await admin.takeAll('ojs.queue.later')).toEqual([])
    const gateway = await startTestGateway(vhost.url)
    await eventually(async () => (await gateway.get(job.id)).status === 200)
    const { body } = await gateway.get(job.id)
    expect(body.job).toMatchObject({ state: 'scheduled', scheduled_at: job.scheduled_at })
    await gateway.destroy()
  })

  test('publishes a scheduled job to the exchange of the delay plugin with delayMode plugin', async () => {
    const own = await createVhost()
    const there = await connectAdmin(own.url)
    // A direct exchange in place of the plugin's, which is not installed: it delays nothing.
    await there.channel.assertExchange('ojs.exchange.delayed', 'direct')
    const planned = new NativeProducer({ url: own.url, logger: false, delayMode: 'plugin' })
    try {
      const delayUntil = new Date(Date.now() + 3_600_000)
      const job = await planned.enqueue('ok', [], { queue: 'later', delayUntil })
      expect(job).toMatchObject({ state: 'scheduled' })
      const [message] = await pikaConsume(own.url, 'ojs.queue.later', 1)
      expect(message).toMatchObject({ exchange: 'ojs.exchange.delayed', routing_key: 'later' })
      const [, delayMs] = message?.headers['x-delay'] ?? []
      expect(delayMs).toBeGreaterThan(3_500_000)
      expect(delayMs).toBeLessThanOrEqual(3_600_000)
    } finally {
      await planned.close()
      await there.close()
      await own.drop()
    }
  })

  test('rejects a scheduled job as retryable if the queue ojs.system.due does not exist', async () => {
    await admin.channel.deleteQueue('ojs.system.due')
    const lost = producer.enqueue('ok', [], { delayUntil: '2999-01-01T00:00:00Z' })
    await expect(lost).rejects.toMatchObject({ name: 'OJSBackendError', retryable: true })
  })

  test('publishes a batch of 300 jobs in order', async () => {
    const specs = Array.from({ length: 300 }, (_, n) => ({
      type: 'batch.job',
      args: [n],
      options: { queue: 'batch' },
    }))
    const jobs = await producer.enqueueBatch(specs)
    expect(await admin.takeAll('ojs.queue.batch')).toEqual(jobs.map(({ id }) => id))
  })

  test('rejects with OJSRateLimitError for a full queue, and names the jobs of a batch that are not in it', async () => {
    const limits = { 'x-queue-type': 'classic', 'x-max-length': 2, 'x-overflow': 'reject-publish' }
    await admin.channel.assertQueue('ojs.queue.full', { arguments: limits })
    await producer.enqueue('ok', [1], { queue: 'full' })
    const specs = [2, 3, 4].map((n) => ({ type: 'ok', args: n, options: { queue: 'full' } }))
    const error = await producer.enqueueBatch(specs).then(
      () => null,
      (reason: unknown) => reason,
    )
    expect(error).toBeInstanceOf(OJSRateLimitError)
    const inside = await admin.takeAll('ojs.queue.full')
    expect(inside).toHaveLength(2)
    const { failed_job_ids: failed } = (error as OJSRateLimitError).details ?? {}
    expect(failed).toHaveLength(2)
    expect(inside.filter((id) => (failed as string[]).includes(id))).toEqual([])
  })

  test('declares a deleted queue again', async () => {
    await producer.enqueue('ok', [1], { queue: 'gone' })
    await admin.channel.deleteQueue('ojs.queue.gone')
    const { id } = await producer.enqueue('ok', [2], { queue: 'gone' })
    expect(await admin.takeAll('ojs.queue.gone')).toEqual([id])
  })

  test('runs its middleware around an enqueue', async () => {
    const loud = new NativeProducer({ url: vhost.url, logger: false })
    loud.use('stamp', (request, next) => {
      request.meta = { ...request.meta, stamped: true }
      return next()
    })
    expect((await loud.enqueue('ok', [], { queue: 'mw' })).meta).toEqual({ stamped: true })
    await loud.close()
  })

  test('rejects getJob with OJSBackendError', async () => {
    const asked = producer.getJob('0197a2b4-0000-7000-8000-000000000001', { timeout: 200 })
    await expect(asked).rejects.toBeInstanceOf(OJSBackendError)
  })

  test.each([
    ['before the call', 0],
    ['while it waits for RabbitMQ', 100],
  ])('rejects getJob with kind aborted when its signal fires %s', async (_when, ms) => {
    const lost = new NativeProducer({
      url: 'amqp://127.0.0.1:1/x',
      publishTimeoutMs: 600_000,
      logger: false,
    })
    const signal = ms === 0 ? AbortSignal.abort() : AbortSignal.timeout(ms)
    const id = '0197a2b4-0000-7000-8000-000000000001'
    const failure = await lost.getJob(id, { signal }).catch((error: unknown) => error)
    expect(failure).toMatchObject({
      name: 'OJSTransportError',
      kind: 'aborted',
      cause: signal.reason,
    })
    await lost.close()
  })

  test('has one listener for 20 calls of getJob with one signal, and removes it', async () => {
    const { signal } = new AbortController()
    const id = '0197a2b4-0000-7000-8000-000000000001'
    const ask = () => producer.getJob(id, { signal, timeout: 50 }).catch(() => {})
    const asked = Array.from({ length: 20 }, ask)
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    await Promise.all(asked)
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  test('rejects with a retryable OJSBackendError if RabbitMQ cannot be reached', async () => {
    const lost = new NativeProducer({
      url: 'amqp://127.0.0.1:1/x',
      publishTimeoutMs: 100,
      logger: false,
    })
    await expect(lost.enqueue('ok', [])).rejects.toMatchObject({
      name: 'OJSBackendError',
      retryable: true,
    })
    await lost.close()
  })

  test('rejects with a retryable OJSBackendError if RabbitMQ stops answering before a new queue is declared', async () => {
    const proxy = await TcpProxy.start(vhost.url)
    const cutOff = new NativeProducer({
      url: proxy.url,
      logger: false,
      publishTimeoutMs: 5_000,
      // No gateway runs that could answer.
      answerTimeoutMs: 50,
    })
    await cutOff.enqueue('ok', [], { queue: 'known' })
    proxy.hold('to-gateway')
    await expect(cutOff.enqueue('ok', [], { queue: 'new' })).rejects.toMatchObject({
      name: 'OJSBackendError',
      retryable: true,
    })
    await proxy.stop()
    await cutOff.close()
  })

  test('throws for an http:// URL without showing its password', () => {
    const url = 'http://user:secret@localhost:8080'
    expect(() => new NativeProducer({ url })).toThrow(TypeError)
    expect(() => new NativeProducer({ url })).not.toThrow(/secret/)
  })
})

describe('NativeProducer with a gateway', () => {
  let gateway: TestGateway

  beforeAll(async () => {
    gateway = await startTestGateway(vhost.url)
    // After an unanswered question the producer would ask nothing for half a minute.
    open({ answerTimeoutMs: 10_000 })
    // The gateway opens a connection for its first answer, and gives up after a second.
    const ask = () => producer.getJob(UNKNOWN, { timeout: 2_000 })
    await vi.waitFor(() => expect(ask()).rejects.toBeInstanceOf(OJSNotFoundError), 30_000)
  })
  afterAll(async () => {
    await producer.close()
    await gateway.destroy()
  })

  test('enqueues the same job as a POST', async () => {
    const options = { queue: 'same', priority: 3, retry: { maxAttempts: 2 }, tags: ['t'] }
    const native = await producer.enqueue('same.job', [{ deep: [1] }], options)
    const posted = await gateway.push('same', {
      type: 'same.job',
      args: [{ deep: [1] }],
      options: { priority: 3, retry: { max_attempts: 2 }, tags: ['t'] },
    })
    const own = ['id', 'created_at', 'enqueued_at', 'started_at']
    const rest = (job: object) =>
      Object.fromEntries(Object.entries(job).filter(([name]) => !own.includes(name)))
    expect(rest(native)).toEqual(rest(posted.body.job))
    const fetched = await gateway.fetch(['same'], { count: 2, wait_ms: 15_000 })
    const more = fetched.length < 2 ? await gateway.fetch(['same'], { wait_ms: 15_000 }) : []
    const [one, other] = [...fetched, ...more]
    expect(rest(one)).toEqual(rest(other))
    expect((await gateway.ack(native.id, { result: 1 })).status).toBe(200)
  })

  test('has the gateway declare a new queue, and is not counted as a worker', async () => {
    const workers = async () => (await gateway.request('GET', '/ojs/v1/admin/workers')).body.summary
    const before = await workers()
    await producer.enqueue('asked.job', [], { queue: 'asked-for' })
    const { body } = await gateway.request('GET', '/ojs/v1/queues?limit=100')
    expect(body.queues.map(({ name }: { name: string }) => name)).toContain('asked-for')
    expect(await workers()).toEqual(before)
  })

  test('enqueues a scheduled job that can be fetched at its time', async () => {
    const delayUntil = new Date(Date.now() + 2_000)
    const { id } = await producer.enqueue('later.job', [1], { queue: 'due', delayUntil })
    const [job] = await gateway.fetch(['due'], { wait_ms: 20_000 })
    expect(job).toMatchObject({ id, scheduled_at: delayUntil.toISOString(), attempt: 1 })
    expect(Date.now()).toBeGreaterThanOrEqual(delayUntil.getTime())
  })

  test('reads a job with getJob, and cancels it', async () => {
    const { body } = await gateway.push('asked')
    const get = () => producer.getJob(body.job.id, { queue: 'asked' })
    expect(await get()).toEqual((await gateway.get(body.job.id)).body.job)
    await producer.cancelJob(body.job.id, { queue: 'asked' })
    await eventually(async () => (await get()).state === 'cancelled')
  })

  test('rejects getJob with OJSNotFoundError for an unknown id', async () => {
    await expect(producer.getJob(UNKNOWN)).rejects.toBeInstanceOf(OJSNotFoundError)
  })
})
