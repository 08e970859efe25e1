import { type Channel, type ChannelModel, connect } from 'amqplib'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Vhost } from '../../support/broker/rabbit.ts'
import { eventually, type TestGateway } from '../../support/gateway/in-process.ts'
import { gatewayForAll } from '../harness.ts'

const EXCHANGE = 'ojs.exchange.events'

interface Got {
  key: string
  type: string
  queue: string | undefined
  jobId: string
  id: string
  messageId: unknown
  mode: unknown
}

/** Binds a durable queue to the exchange by this key, and collects what it gets. */
async function listen(vhost: Vhost, key: string, exchange = EXCHANGE) {
  const model = await connect(vhost.url)
  onTestFinished(() => model.close().catch(() => {}))
  const channel = await model.createChannel()
  const { queue } = await channel.assertQueue('')
  await channel.bindQueue(queue, exchange, key)
  const got = await collect(channel, queue)
  const until = (count: number) => eventually(async () => got.length >= count)
  return { got, until, model, channel }
}

async function collect(channel: Channel, queue: string): Promise<Got[]> {
  const got: Got[] = []
  await channel.consume(
    queue,
    (message) => {
      if (message === null) return
      const event = JSON.parse(message.content.toString())
      const { messageId, deliveryMode: mode } = message.properties
      const { job_id: jobId, queue: name } = event.data
      const { routingKey: key } = message.fields
      got.push({ key, type: event.type, queue: name, jobId, id: event.id, messageId, mode })
    },
    { noAck: true },
  )
  return got
}

async function metric(gateway: TestGateway, name: string): Promise<number> {
  const { body } = await gateway.request('GET', '/metrics')
  return Number(new RegExp(`^${name} (\\d+)`, 'm').exec(body)?.[1])
}

async function failed(gateway: TestGateway, queue: string): Promise<string> {
  const pushed = await gateway.push(queue, { options: { retry: { max_attempts: 1 } } })
  const { id } = pushed.body.job
  const path = '/ojs/v1/workers'
  await gateway.request('POST', `${path}/fetch`, {
    queues: [queue],
    worker_id: 'w',
    wait_ms: 20_000,
  })
  const error = { code: 'handler_error', message: 'no' }
  await gateway.request('POST', `${path}/nack`, { job_id: id, worker_id: 'w', error })
  return id
}

describe('with OJS_EVENTS_EXCHANGE', () => {
  const { gateway, vhost } = gatewayForAll({ OJS_EVENTS_EXCHANGE: '1' })

  test('a consumer gets what it has bound to, as GET /events has it', async () => {
    const failures = await listen(vhost, 'job.failed.*')
    const all = await listen(vhost, '#')
    const dotted = await listen(vhost, '*.*.eve.#')
    const id = await failed(gateway, 'evx')
    const other = await failed(gateway, 'eve.nts')
    await all.until(10)
    await dotted.until(5)
    await failures.until(1)
    const keys = (got: readonly Got[]) => got.map(({ key }) => key)
    expect(keys(all.got)).toEqual([
      'job.enqueued.evx',
      'job.started.evx',
      'job.failed.evx',
      'job.discarded.evx',
      'dead_letter.added.evx',
      'job.enqueued.eve.nts',
      'job.started.eve.nts',
      'job.failed.eve.nts',
      'job.discarded.eve.nts',
      'dead_letter.added.eve.nts',
    ])
    expect(failures.got).toMatchObject([{ jobId: id, queue: 'evx', type: 'job.failed', mode: 2 }])
    expect(dotted.got.every(({ jobId }) => jobId === other)).toBe(true)
    const { body } = await gateway.request('GET', '/ojs/v1/events?types=job.failed&queues=evx')
    expect(failures.got[0]).toMatchObject({ id: body.events[0].id, messageId: body.events[0].id })
  })

  test('an event without a queue has _ in its place', async () => {
    const { got, until } = await listen(vhost, 'system.#')
    const body = { enabled: true, reason: 'test' }
    await gateway.request('POST', '/ojs/v1/admin/system/maintenance', body)
    await gateway.request('POST', '/ojs/v1/admin/system/maintenance', { enabled: false })
    await until(2)
    expect(got.map(({ key }) => key)).toEqual([
      'system.maintenance.started._',
      'system.maintenance.ended._',
    ])
  })

  test('after a lost connection it goes on, and misses nothing', async () => {
    const { model, channel } = await listen(vhost, 'nothing')
    await channel.assertQueue('kept-events')
    await channel.bindQueue('kept-events', EXCHANGE, 'job.enqueued.evl')
    model.on('error', () => {})
    const before = await gateway.push('evl')
    await vhost.closeConnections()
    await eventually(async () => (await gateway.push('evl')).status === 201)
    const last = await gateway.push('evl')
    const again = await connected(vhost)
    const got = await collect(again, 'kept-events')
    await eventually(async () => got.some(({ jobId }) => jobId === last.body.job.id))
    const ids = new Set(got.map(({ jobId }) => jobId))
    expect(ids.has(before.body.job.id)).toBe(true)
    expect(ids.size).toBe(3)
    await eventually(async () => (await metric(gateway, 'ojs_events_pending')) === 0)
    expect(await metric(gateway, 'ojs_events_dropped_total')).toBe(0)
  })

  test('an exchange that is deleted comes back, and events go on', async () => {
    const admin = await connected(vhost)
    await admin.deleteExchange(EXCHANGE)
    const { job } = (await gateway.push('evd')).body
    await eventually(async () => (await vhost.exchanges()).includes(EXCHANGE))
    const { got } = await listen(vhost, 'job.enqueued.evd')
    await eventually(async () => {
      await gateway.push('evd')
      return got.length > 0
    })
    expect((await gateway.get(job.id)).status).toBe(200)
  })

  test('events that a full queue refuses are counted, and jobs go on', async () => {
    const admin = await connected(vhost)
    const limits = { 'x-max-length': 1, 'x-overflow': 'reject-publish' }
    await admin.assertQueue('full-events', { arguments: limits })
    await admin.bindQueue('full-events', EXCHANGE, '*.*.evf')
    const before = await metric(gateway, 'ojs_events_dropped_total')
    for (let i = 0; i < 4; i++) expect((await gateway.push('evf')).status).toBe(201)
    await eventually(async () => (await metric(gateway, 'ojs_events_dropped_total')) > before)
    await admin.deleteQueue('full-events')
  })

  test('a graceful stop publishes what there is', async () => {
    const { got } = await listen(vhost, 'job.enqueued.evs')
    const ids = await Promise.all(
      Array.from({ length: 50 }, async () => (await gateway.push('evs')).body.job.id),
    )
    await gateway.restart()
    await eventually(async () => got.length >= 50)
    expect(new Set(got.map(({ jobId }) => jobId))).toEqual(new Set(ids))
  })
})

describe('with a prefix', () => {
  const { gateway, vhost } = gatewayForAll({ OJS_EVENTS_EXCHANGE: '1', OJS_PREFIX: 'tenant1' })

  test('the exchange has it in front', async () => {
    const { got, until } = await listen(vhost, '#', `tenant1.${EXCHANGE}`)
    await gateway.push('evp')
    await until(1)
    expect(got[0]?.key).toBe('job.enqueued.evp')
    expect(await vhost.exchanges()).not.toContain(EXCHANGE)
  })
})

describe('without the setting', () => {
  const { gateway, vhost } = gatewayForAll()

  test('there is no exchange and nothing is published', async () => {
    await gateway.push('evo')
    expect(await vhost.exchanges()).not.toContain(EXCHANGE)
    expect(await metric(gateway, 'ojs_events_published_total')).toBe(0)
    expect(await metric(gateway, 'ojs_events_pending')).toBe(0)
  })
})

async function connected(vhost: Vhost): Promise<Channel> {
  const model: ChannelModel = await connect(vhost.url)
  onTestFinished(() => model.close().catch(() => {}))
  return await model.createChannel()
}
