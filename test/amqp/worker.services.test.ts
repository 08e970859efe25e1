import { Registry } from 'prom-client'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { OJSWorker } from '../../src/sdk/worker/worker.ts'
import { amqpSource } from '../../src/worker/index.ts'
import { type Method, Wire } from '../support/broker/wire.ts'
import { eventually } from '../support/gateway/in-process.ts'
import { Spans } from '../support/spans.ts'
import {
  amqpStage,
  headersOf,
  METRICS,
  ofJob,
  onJobQueues,
  publishesOf,
  settlementsOf,
} from './stage.ts'

const CONCURRENCY = 3
const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736'

// This wire is between the worker and RabbitMQ; that of the stage is the gateway's.
const { vhost, gateway, admin, clients } = amqpStage()
const registry = new Registry()
let wire: Wire
let worker: OJSWorker
let finishSlow: () => void = () => undefined

beforeAll(async () => {
  wire = await Wire.start(vhost.url)
  const source = amqpSource({ url: wire.url, logger: false, registry, heartbeatInterval: 100 })
  worker = new OJSWorker({
    source,
    workerId: 'w-native',
    queues: ['native'],
    concurrency: CONCURRENCY,
    logger: false,
    handleSignals: false,
  })
  const slow = new Promise<void>((resolve) => {
    finishSlow = resolve
  })
  worker.register('slow', () => slow)
  worker.register('cancelled', ({ signal }) => {
    return new Promise((resolve) => signal.addEventListener('abort', resolve))
  })
  worker.register('ok', () => ({ sent: true }))
  worker.register('fails', () => {
    throw new Error('connection refused')
  })
  await clients.push('native', { type: 'ok' })
  await worker.start()
})
afterAll(async () => {
  finishSlow()
  await worker.stop()
  await wire.stop()
})

async function stateOf(id: string): Promise<string> {
  return (await gateway.get(id)).body.job.state
}

/** The delivery of this attempt of the job, and its ack or nack by the worker. */
async function settled(id: string, attempt = 1): Promise<{ delivery: Method; settlement: Method }> {
  const isAttempt = (method: Method) =>
    ofJob(id)(method) && headersOf(method)['x-ojs-attempt'] === attempt
  const delivery = await wire.next('BasicDeliver', isAttempt)
  await eventually(() => settlementsOf(wire, delivery).length > 0)
  const [settlement] = settlementsOf(wire, delivery)
  if (!settlement) throw new Error('not settled')
  return { delivery, settlement }
}

/**
 * Returns a job whose first attempt failed and whose next one went into a retry queue. Repeats until one
 * does: as long as RabbitMQ has not written a new retry queue to disk, retries are left to the gateway.
 */
async function retried(): Promise<string> {
  const retry = { max_attempts: 2, initial_interval_ms: 500, jitter: false }
  let id = ''
  await eventually(async () => {
    id = await clients.push('native', { type: 'fails', options: { retry, tags: ['a'] } })
    await settled(id)
    return publishesOf(wire, id).length > 0
  })
  return id
}

/** The report of the end of this attempt, and its confirm. */
function reportOf(id: string, attempt: number): { report: Method; confirm: Method } {
  const isEnd = (event: { job_id: string; attempt: number; event: string }) =>
    event.job_id === id && event.attempt === attempt && event.event !== 'started'
  const [report] = wire
    .all('BasicPublish', ({ properties }) => properties?.['type'] === 'ojs.control.report')
    .filter(({ body }) => JSON.parse(String(body)).events.some(isEnd))
  const confirm = report && wire.confirmOf(report)
  if (!report || !confirm) throw new Error('not reported')
  return { report, confirm }
}

it('AMQP-006 native worker: uses basic.consume with no_ack=false, never basic.get', async () => {
  const { fields } = await wire.next('BasicConsume', { queue: 'ojs.queue.native' })
  expect(fields).toMatchObject({ noAck: false, exclusive: false })
  expect(wire.all('BasicGet')).toEqual([])
})

it('AMQP-008 native worker: sends basic.ack with the delivery tag after its report is confirmed', async () => {
  const id = await clients.push('native', { type: 'ok' })
  const { delivery, settlement } = await settled(id)
  const { deliveryTag } = delivery.fields
  expect(settlement).toMatchObject({ name: 'BasicAck', fields: { deliveryTag, multiple: false } })
  const { report, confirm } = reportOf(id, 1)
  expect(wire.inOrder(delivery, report, confirm, settlement)).toBe(true)
  await eventually(async () => (await stateOf(id)) === 'completed')
})

it('AMQP-009 native worker: sends basic.nack with requeue=false for a job that is not retried', async () => {
  const id = await clients.push('native', { type: 'nobody.handles' })
  const { delivery, settlement } = await settled(id)
  const { deliveryTag } = delivery.fields
  expect(settlement).toMatchObject({
    name: 'BasicNack',
    fields: { deliveryTag, multiple: false, requeue: false },
  })
  const dead: string[] = []
  await eventually(async () => {
    dead.push(...(await admin.takeAll('ojs.queue.dlx.native')))
    return dead.includes(id)
  })
})

it('AMQP-017 native worker: retries by the same retry queues, and acks after the confirm and the report', async () => {
  const id = await retried()
  const { delivery, settlement } = await settled(id)
  const [publish, ...others] = publishesOf(wire, id)
  const confirm = publish && wire.confirmOf(publish)
  if (!confirm) throw new Error('not confirmed')
  expect(others).toEqual([])
  expect(publish.fields).toMatchObject({
    exchange: 'ojs.exchange.retry',
    routingKey: 'native.500',
    mandatory: true,
  })
  expect(settlement.name).toBe('BasicAck')
  expect(wire.inOrder(delivery, publish, confirm, reportOf(id, 1).report, settlement)).toBe(true)
})

it('AMQP-018 native worker: tracks the attempt in x-ojs-attempt, and discards after the last one', async () => {
  const id = await retried()
  const { delivery, settlement } = await settled(id, 2)
  expect(headersOf(delivery)).toMatchObject({
    'x-ojs-attempt': 2,
    'x-ojs-max-attempts': 2,
    'x-ojs-tags': 'a',
    'x-ojs-error-code': 'handler_error',
    'x-ojs-error-message': 'connection refused',
  })
  expect(settlement).toMatchObject({ name: 'BasicNack', fields: { requeue: false } })
  const [publish] = publishesOf(wire, id)
  expect(publish?.properties).toMatchObject({
    deliveryMode: 2,
    contentType: 'application/openjobspec+json',
  })
  await eventually(async () => (await stateOf(id)) === 'discarded')
})

it('AMQP-014 native worker: publishes jobs and reports as mandatory on confirm channels', () => {
  const publishes = wire.all(
    'BasicPublish',
    ({ properties }) => properties?.['replyTo'] === undefined,
  )
  expect(publishes.length).toBeGreaterThan(3)
  for (const publish of publishes) {
    expect(publish.fields['mandatory']).toBe(true)
    expect(wire.onChannelOf(publish).map(({ name }) => name)).toContain('ConfirmSelectOk')
  }
})

it('AMQP-019 native worker: aborts a cancelled job, and reports only that its job message was dropped', async () => {
  const id = await clients.push('native', { type: 'cancelled' })
  await eventually(async () => (await stateOf(id)) === 'active')
  const from = wire.methods.length
  expect((await gateway.cancel(id)).status).toBe(200)
  expect((await settled(id)).settlement).toMatchObject({ name: 'BasicAck' })
  const reported = () =>
    wire
      .all('BasicPublish', ({ properties }) => properties?.['type'] === 'ojs.control.report', from)
      .flatMap(({ body }): { job_id: string; event: string }[] => JSON.parse(String(body)).events)
      .filter((event) => event.job_id === id)
      .map(({ event }) => event)
  await eventually(() => reported().length > 0)
  expect(reported()).toEqual(['dropped'])
  expect(await stateOf(id)).toBe('cancelled')
})

it('AMQP-020 native worker: sends heartbeats for its running jobs via the control queue', async () => {
  const id = await clients.push('native', { type: 'cancelled' })
  const isBeat = ({ properties, body }: Method) =>
    properties?.['type'] === 'ojs.control.heartbeat' && body?.includes(id) === true
  const beat = await wire.next('BasicPublish', isBeat)
  expect(beat.fields).toMatchObject({
    exchange: 'ojs.exchange.direct',
    routingKey: 'ojs.queue.control.native',
    mandatory: true,
  })
  const body = JSON.parse(String(beat.body))
  expect(body).toMatchObject({ worker_id: 'w-native', job_ids: [id], state: 'running' })
  expect((await gateway.cancel(id)).status).toBe(200)
})

it('AMQP-023 native worker: continues the trace in a child span, linked to its parent', async () => {
  const spans = new Spans()
  spans.register()
  try {
    const body = { type: 'ok', args: [], options: { queue: 'native' } }
    const headers = { traceparent: `00-${TRACE_ID}-00f067aa0ba902b7-01` }
    const { id } = (await gateway.request('POST', '/ojs/v1/jobs', body, headers)).body.job
    const { delivery } = await settled(id)
    const span = await spans.one('native process')
    const [, traceId, parentId] = String(headersOf(delivery)['x-ojs-trace-id']).split('-')
    expect(traceId).toBe(TRACE_ID)
    expect(span.spanContext().traceId).toBe(TRACE_ID)
    expect(span.parentSpanContext?.spanId).toBe(parentId)
    expect(span.links.map(({ context }) => context.spanId)).toEqual([parentId])
  } finally {
    spans.unregister()
  }
})

it('AMQP-024 native worker: exposes the same metrics in a registry of the program', async () => {
  const lines = (await registry.metrics()).split('\n')
  for (const [name, type] of Object.entries(METRICS)) {
    expect(lines).toContain(`# TYPE ${name} ${type}`)
  }
})

it('AMQP-026 native worker: consumes again after a lost connection, with the same prefetch', async () => {
  const from = wire.methods.length
  wire.proxy.cut()
  const again = await wire.next('BasicConsume', { queue: 'ojs.queue.native' }, from)
  const before = wire.onChannelOf(again).slice(0, wire.onChannelOf(again).indexOf(again))
  expect(before.find(({ name }) => name === 'BasicQos')?.fields).toMatchObject({
    prefetchCount: CONCURRENCY,
  })
  await wire.next('ExchangeDeclare', { exchange: 'ojs.exchange.direct' }, from)
  const id = await clients.push('native', { type: 'ok' })
  expect((await settled(id)).settlement.name).toBe('BasicAck')
})

it('AMQP-007 native worker: sets the prefetch count to its concurrency before it consumes', async () => {
  for (const consume of onJobQueues(wire, 'BasicConsume')) {
    const before = wire.onChannelOf(consume).slice(0, wire.onChannelOf(consume).indexOf(consume))
    expect(before.filter(({ name }) => name.startsWith('BasicQos'))).toMatchObject([
      { name: 'BasicQos', fields: { prefetchCount: CONCURRENCY, global: false } },
      { name: 'BasicQosOk' },
    ])
  }
  const pushes = Array.from({ length: CONCURRENCY + 2 }, () =>
    clients.push('native', { type: 'slow' }),
  )
  const ids = await Promise.all(pushes)
  const delivered = () => ids.filter((id) => wire.all('BasicDeliver', ofJob(id)).length > 0)
  await eventually(async () => {
    const { messageCount } = await admin.channel.checkQueue('ojs.queue.native')
    return delivered().length === CONCURRENCY && messageCount === 2
  })
  finishSlow()
  await eventually(() => delivered().length === ids.length)
})
