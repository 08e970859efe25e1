import { SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base'
import amqp from 'amqplib'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type Handler, OJSClient, OJSWorker, type OJSWorkerOptions } from '../../src/sdk/index.ts'
import { amqpSource, NativeProducer } from '../../src/worker/index.ts'
import { fetchOne, freshQueue, gatewayForAll, nack, untilState } from '../operations/harness.ts'
import { createVhost } from '../support/broker/rabbit.ts'
import { eventually } from '../support/gateway/in-process.ts'
import { Spans, traceparentOf } from '../support/spans.ts'

const FOREIGN = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const RETRY = { max_attempts: 2, initial_interval_ms: 100, jitter: false }

const { vhost, gateway } = gatewayForAll()
const spans = new Spans()
const workers: OJSWorker[] = []

afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.stop()))
  spans.clear()
})

function work(options: OJSWorkerOptions, handler: Handler): OJSWorker {
  const worker = new OJSWorker({ logger: false, handleSignals: false, ...options })
  workers.push(worker)
  return worker.register('traced.job', handler)
}

/** Fails at attempt 1, then starts a span of its own. */
const failsOnce: Handler = ({ attempt }) => {
  if (attempt === 1) throw new RangeError('not the first time')
  trace.getTracer('app').startSpan('inner').end()
  return 'done'
}

/** Enqueues within a span named checkout. */
async function checkout(queue: string, options: object = { retry: RETRY }): Promise<string> {
  const client = new OJSClient({ url: gateway.url })
  return await trace.getTracer('app').startActiveSpan('checkout', async (span) => {
    const { id } = await client.enqueue('traced.job', [1], { queue, ...options })
    span.end()
    return id
  })
}

function expectChild(child: ReadableSpan, parent: ReadableSpan): void {
  expect(child.parentSpanContext?.spanId, `${child.name} in ${parent.name}`).toBe(
    parent.spanContext().spanId,
  )
  expect(child.spanContext().traceId).toBe(parent.spanContext().traceId)
}

function firstOf<T>(list: readonly T[]): T {
  const [first] = list
  if (first === undefined) throw new Error('the list is empty')
  return first
}

/** The headers of the messages in a queue, as its next consumer gets them. */
async function headersIn(
  name: string,
  count: number,
  amqpUrl = vhost.url,
): Promise<Record<string, unknown>[]> {
  const connection = await amqp.connect(amqpUrl)
  const channel = await connection.createChannel()
  const messages: Record<string, unknown>[] = []
  await channel.consume(name, (message) => {
    if (message) messages.push({ ...message.properties.headers })
  })
  await eventually(() => messages.length >= count)
  await connection.close()
  return messages
}

describe('tracing with a tracer provider', () => {
  beforeAll(() => spans.register())
  afterAll(() => spans.unregister())

  async function expectOneTrace(queue: string, id: string): Promise<void> {
    const [first, second] = await spans.ended(`${queue} process`, 2)
    if (first === undefined || second === undefined) throw new Error('two attempts were expected')
    const app = await spans.one('checkout')
    const producer = await spans.one(`${queue} enqueue`)
    expectChild(producer, app)
    expect(producer.kind).toBe(SpanKind.PRODUCER)
    expect(producer.attributes).toMatchObject({
      'messaging.system': 'ojs',
      'messaging.operation.type': 'publish',
      'messaging.destination.name': queue,
      'messaging.message.id': id,
      'ojs.job.id': id,
      'ojs.job.type': 'traced.job',
      'ojs.job.queue': queue,
      'ojs.job.attempt': 0,
      'ojs.job.state': 'available',
      'ojs.job.priority': 0,
      'ojs.backend.type': 'rabbitmq',
    })
    expect(producer.attributes['messaging.message.body.size']).toBeGreaterThan(100)
    for (const [index, span] of [first, second].entries()) {
      expectChild(span, producer)
      expect(span.links.map((link) => link.context.spanId)).toEqual([producer.spanContext().spanId])
      expect(span.kind).toBe(SpanKind.CONSUMER)
      expect(span.attributes).toMatchObject({
        'messaging.operation.type': 'process',
        'messaging.message.id': id,
        'ojs.job.attempt': index + 1,
        'ojs.worker.id': firstOf(workers).workerId,
      })
    }
    expect(first.status).toEqual({ code: SpanStatusCode.ERROR, message: 'not the first time' })
    expect(first.attributes).toMatchObject({
      'error.type': 'RangeError',
      'error.message': 'not the first time',
      'ojs.job.error.attempt': 1,
    })
    expect(first.events.map((event) => event.name)).toEqual(['exception'])
    expect(second.status.code).toBe(SpanStatusCode.OK)
    expect(second.attributes['ojs.job.state']).toBe('completed')
    expectChild(await spans.one('inner'), second)
  }

  test('has one trace from the producer through RabbitMQ and a retry to an HTTP worker', async () => {
    const queue = freshQueue()
    await work({ url: gateway.url, queues: [queue] }, failsOnce).start()
    const id = await checkout(queue)
    await untilState(gateway, id, 'completed')
    await expectOneTrace(queue, id)
    const attempts = spans.all(`${queue} process`)
    const nacked = await spans.one('ojs.nack')
    expectChild(nacked, firstOf(attempts))
    expect(nacked.kind).toBe(SpanKind.CLIENT)
    expect(nacked.status.code).toBe(SpanStatusCode.ERROR)
    expect(nacked.attributes).toMatchObject({
      'ojs.job.state': 'retryable',
      'error.type': 'handler_error',
      'ojs.job.error.attempt': 1,
    })
    expectChild(await spans.one('ojs.retry.evaluate'), nacked)
    const acked = await spans.one('ojs.ack')
    expectChild(acked, firstOf(attempts.slice(1)))
    expect(acked.attributes).toMatchObject({ 'ojs.job.id': id, 'ojs.job.state': 'completed' })
  })

  test('has one trace from the producer through RabbitMQ and a retry to a native worker', async () => {
    const queue = freshQueue()
    const source = amqpSource({ url: vhost.url })
    await work({ source, queues: [queue] }, failsOnce).start()
    const id = await checkout(queue)
    await expectOneTrace(queue, id)
  })

  test('has one trace from a native producer to a native worker without a gateway', async () => {
    const own = await createVhost()
    const queue = freshQueue()
    const source = amqpSource({ url: own.url, retryQueueSettleMs: 0 })
    const worker = work({ source, queues: [queue] }, failsOnce)
    await worker.start()
    const producer = new NativeProducer({ url: own.url })
    const id = await trace.getTracer('app').startActiveSpan('checkout', async (span) => {
      const job = await producer.enqueue('traced.job', [1], { queue, retry: RETRY })
      span.end()
      return job.id
    })
    await expectOneTrace(queue, id)
    spans.clear()
    await producer.enqueueBatch([{ type: 'other', options: { queue: `${queue}-2` } }])
    const batch = await spans.one(`${queue}-2 enqueue_batch`)
    const [jobMessage] = await headersIn(`ojs.queue.${queue}-2`, 1, own.url)
    expect(jobMessage?.['x-ojs-trace-id']).toBe(traceparentOf(batch.spanContext()))
    await Promise.all([producer.close(), worker.stop()])
    await own.drop()
  })

  test('puts the context of the enqueue span into the message, its retry and its dead letter', async () => {
    const queue = freshQueue()
    const parent = { traceparent: FOREIGN, tracestate: 'vendor=kept' }
    const body = { type: 'traced.job', args: [], options: { queue, retry: RETRY } }
    const { body: pushed } = await gateway.request('POST', '/ojs/v1/jobs', body, parent)
    const producer = await spans.one(`${queue} enqueue`)
    expect(producer.parentSpanContext?.spanId).toBe('b7ad6b7169203331')
    const traceparent = traceparentOf(producer.spanContext())
    expect(traceparent).not.toBe(FOREIGN)
    const carried = { 'x-ojs-trace-id': traceparent, 'x-ojs-trace-state': 'vendor=kept' }
    const { id } = pushed.job

    expect(await fetchOne(gateway, queue)).toMatchObject({
      meta: { traceparent, tracestate: 'vendor=kept' },
    })
    await nack(gateway, id)
    const [again] = await headersIn(`ojs.queue.${queue}`, 1)
    expect(again).toMatchObject({ ...carried, 'x-ojs-attempt': 2 })
    await fetchOne(gateway, queue)
    await nack(gateway, id)
    const [dead] = await headersIn(`ojs.queue.dlx.${queue}`, 1)
    expect(dead).toMatchObject(carried)
    expect((await gateway.get(id)).body.job.meta.traceparent).toBe(traceparent)
  })

  test('makes one span for a batch, which is the parent of each job without a traceparent of its own', async () => {
    const queue = freshQueue()
    const own = { meta: { traceparent: FOREIGN } }
    const job = { type: 'traced.job', args: [], options: { queue } }
    const jobs = [job, { ...job, options: { queue, ...own } }]
    expect((await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })).status).toBe(201)
    const batch = await spans.one(`${queue} enqueue_batch`)
    expect(batch.kind).toBe(SpanKind.PRODUCER)
    expect(batch.attributes['messaging.batch.message_count']).toBe(2)
    const jobMessages = await headersIn(`ojs.queue.${queue}`, 2)
    expect(jobMessages.map((headers) => headers['x-ojs-trace-id'])).toEqual([
      traceparentOf(batch.spanContext()),
      FOREIGN,
    ])
  })

  test("keeps a traceparent in the producer's meta, and makes the span its child", async () => {
    const queue = freshQueue()
    const meta = { traceparent: FOREIGN, tracestate: 'vendor=own' }
    const { body } = await gateway.push(queue, { options: { meta } })
    const producer = await spans.one(`${queue} enqueue`)
    expect(producer.parentSpanContext?.spanId).toBe('b7ad6b7169203331')
    expect(body.job.meta).toEqual(meta)
    const [jobMessage] = await headersIn(`ojs.queue.${queue}`, 1)
    expect(jobMessage).toMatchObject({
      'x-ojs-trace-id': FOREIGN,
      'x-ojs-trace-state': 'vendor=own',
    })
  })

  test('makes spans for fetch, get and cancel, and an error span for a refused ack', async () => {
    const queue = freshQueue()
    await gateway.fetch([queue], { worker_id: 'w1' })
    const [empty] = await spans.ended(`${queue} fetch`)
    expect(empty).toMatchObject({ kind: SpanKind.CONSUMER, status: { code: SpanStatusCode.OK } })
    expect(empty?.attributes).toMatchObject({
      'ojs.worker.id': 'w1',
      'messaging.batch.message_count': 0,
    })
    spans.clear()

    const { body } = await gateway.push(queue)
    const { id } = body.job
    await fetchOne(gateway, queue)
    const producer = await spans.one(`${queue} enqueue`)
    const fetched = await spans.one(`${queue} fetch`)
    expect(fetched.links.map((link) => link.context.spanId)).toEqual([
      producer.spanContext().spanId,
    ])
    expect(fetched.attributes['ojs.job.id']).toBe(id)
    await gateway.get(id)
    expect((await spans.one('ojs.get_job')).attributes['ojs.job.state']).toBe('active')
    await gateway.cancel(id)
    expect((await spans.one('ojs.cancel')).status.code).toBe(SpanStatusCode.OK)
    await gateway.ack(id)
    const refused = await spans.one('ojs.ack')
    expect(refused.status.code).toBe(SpanStatusCode.ERROR)
    expect(refused.attributes['error.type']).toBe('invalid_request')
  })

  test('makes root spans for passes of scheduler and reaper that find work', async () => {
    const queue = freshQueue()
    // Far enough in the future not to be due when the gateway reads it.
    await checkout(queue, { scheduled_at: new Date(Date.now() + 2_000).toISOString() })
    const [poll] = await spans.ended('ojs.scheduler.poll')
    expect(poll).toMatchObject({ kind: SpanKind.INTERNAL, parentSpanContext: undefined })
    const job = await fetchOne(gateway, queue, { visibility_timeout_ms: 100 })
    const [check] = await spans.ended('ojs.reaper.check')
    expect(check?.parentSpanContext).toBeUndefined()
    expect(check?.attributes['messaging.batch.message_count']).toBe(1)
    await gateway.cancel(job.id)
  })
})

describe('tracing without a tracer provider', () => {
  test("passes the request's trace context on unchanged", async () => {
    const queue = freshQueue()
    const body = { type: 'traced.job', args: [], options: { queue, meta: { tenant: 'a' } } }
    const headers = { traceparent: FOREIGN, tracestate: 'vendor=kept' }
    await gateway.request('POST', '/ojs/v1/jobs', body, headers)
    const { meta, id } = await fetchOne(gateway, queue)
    expect(meta).toEqual({ tenant: 'a', ...headers })
    await nack(gateway, id)
    const [jobMessage] = await headersIn(`ojs.queue.${queue}`, 1)
    expect(jobMessage).toMatchObject({
      'x-ojs-trace-id': FOREIGN,
      'x-ojs-trace-state': 'vendor=kept',
    })
    expect(spans.all()).toEqual([])
  })

  test('adds no trace context to a job without one', async () => {
    const queue = freshQueue()
    await gateway.push(queue)
    const [jobMessage] = await headersIn(`ojs.queue.${queue}`, 1)
    expect(jobMessage).not.toHaveProperty('x-ojs-trace-id')
    expect((await fetchOne(gateway, queue)).meta).toEqual({})
  })
})
