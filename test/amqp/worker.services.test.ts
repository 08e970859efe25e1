import { Registry } from 'prom-client'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { OJSWorker } from '../../src/sdk/worker.ts'
import { amqpSource } from '../../src/worker/index.ts'
import { eventually } from '../support/in-process.ts'
import { type Method, Wire } from '../support/wire.ts'
import {
  amqpStage,
  deliveryOf,
  headersOf,
  METRICS,
  onJobQueues,
  publishesOf,
  settlementsOf,
} from './stage.ts'

const CONCURRENCY = 3

// The wire here is the worker's own; the gateway has another one.
const { vhost, admin, clients } = amqpStage()
const registry = new Registry()
let wire: Wire
let worker: OJSWorker
let finishSlow: () => void = () => undefined

beforeAll(async () => {
  wire = await Wire.start(vhost.url)
  const source = amqpSource({ url: wire.url, logger: false, registry })
  worker = new OJSWorker({
    source,
    queues: ['native'],
    concurrency: CONCURRENCY,
    logger: false,
    handleSignals: false,
  })
  const slow = new Promise<void>((resolve) => {
    finishSlow = resolve
  })
  worker.register('slow', () => slow)
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

/** Pushed over HTTP, and what the worker did with it in the end. */
async function settled(id: string): Promise<{ delivery: Method; settlement: Method }> {
  let settlement: Method | undefined
  await eventually(() => {
    const isHere = wire.all('BasicDeliver', ofJob(id)).length > 0
    settlement = isHere ? settlementsOf(wire, deliveryOf(wire, id))[0] : undefined
    return settlement !== undefined
  })
  if (!settlement) throw new Error('unreachable')
  return { delivery: deliveryOf(wire, id), settlement }
}

const ofJob =
  (id: string) =>
  ({ properties }: Method) =>
    properties?.['messageId'] === id

/** The report that tells of this job's end, and the confirm of it. */
function reportOf(id: string): { report: Method; confirm: Method } {
  const isReport = ({ properties, body }: Method) =>
    properties?.['type'] === 'ojs.control.report' && /"(completed|failed)"/.test(String(body))
  const reports = wire.all('BasicPublish', isReport).filter(({ body }) => body?.includes(id))
  const report = reports.at(-1)
  const confirm = report && wire.confirmOf(report)
  if (!report || !confirm) throw new Error('not reported')
  return { report, confirm }
}

it('AMQP-006 native worker: basic.consume with no_ack=false, never basic.get', async () => {
  const { fields } = await wire.next('BasicConsume', { queue: 'ojs.queue.native' })
  expect(fields).toMatchObject({ noAck: false, exclusive: false })
  expect(wire.all('BasicGet')).toEqual([])
})

it('AMQP-008 native worker: reported, confirmed, then basic.ack with its delivery tag', async () => {
  const id = await clients.push('native', { type: 'ok' })
  const { delivery, settlement } = await settled(id)
  const { deliveryTag } = delivery.fields
  expect(settlement).toMatchObject({ name: 'BasicAck', fields: { deliveryTag, multiple: false } })
  const { report, confirm } = reportOf(id)
  expect(wire.inOrder(delivery, report, confirm, settlement)).toBe(true)
})

it('AMQP-009 native worker: a job that is not retried is basic.nack with requeue=false', async () => {
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

it('AMQP-017 native worker: retries by the same queues, confirmed and reported before the ack', async () => {
  const retry = { max_attempts: 2, initial_interval_ms: 125, jitter: false }
  const id = await clients.push('native', { type: 'fails', options: { retry, tags: ['a'] } })
  const { delivery, settlement } = await settled(id)
  const publish = await wire.next('BasicPublish', ofJob(id))
  expect(publish.fields).toMatchObject({
    exchange: 'ojs.exchange.retry',
    routingKey: 'native.130',
    mandatory: true,
  })
  const confirm = wire.confirmOf(publish)
  if (!confirm) throw new Error('not confirmed')
  expect(settlement.name).toBe('BasicAck')
  expect(wire.inOrder(delivery, publish, confirm, reportOf(id).report, settlement)).toBe(true)
})

it('AMQP-018 native worker: counts in x-ojs-attempt, and discards after the last attempt', async () => {
  const retry = { max_attempts: 2, initial_interval_ms: 125, jitter: false }
  const id = await clients.push('native', { type: 'fails', options: { retry, tags: ['a'] } })
  await eventually(() => wire.all('BasicDeliver', ofJob(id)).length === 2)
  const { delivery, settlement } = await settled(id)
  expect(headersOf(delivery)).toMatchObject({
    'x-ojs-attempt': 2,
    'x-ojs-max-attempts': 2,
    'x-ojs-tags': 'a',
    'x-ojs-error-code': 'handler_error',
    'x-ojs-error-message': 'connection refused',
  })
  expect(settlement).toMatchObject({ name: 'BasicNack', fields: { requeue: false } })
  const [publish, ...others] = publishesOf(wire, id)
  expect(others).toEqual([])
  expect(publish?.properties).toMatchObject({
    deliveryMode: 2,
    contentType: 'application/openjobspec+json',
  })
})

it('AMQP-014 native worker: publishes jobs and reports on confirm channels, mandatory', () => {
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

it('AMQP-024 native worker: the same metrics, in a registry of the program', async () => {
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
