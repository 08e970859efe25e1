import type { Options } from 'amqplib'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Method } from '../support/broker/wire.ts'
import { eventually } from '../support/gateway/in-process.ts'
import { isOnPostgres } from '../support/gateway/test-ledger.ts'
import {
  amqpStage,
  answerTo,
  deliveryOf,
  jobPublishes,
  ofJob,
  onJobQueues,
  publishesOf,
  settlementsOf,
} from './stage.ts'

/** Deliveries per consumer of the gateway. */
const PREFETCH = 32

/** The options with which seed 002 §15.1 declares a queue. */
function seedQueue(queue: string): Options.AssertQueue {
  const deadLetter = {
    'x-dead-letter-exchange': 'ojs.exchange.dlx',
    'x-dead-letter-routing-key': queue,
  }
  return { durable: true, arguments: { ...deadLetter, 'x-max-priority': 10 } }
}

const { wire, gateway, admin, clients } = amqpStage()

const declared = () => onJobQueues(wire, 'QueueDeclare', { passive: false })

/** Checks the declare on the wire, and that RabbitMQ accepts it again and refuses other properties. */
async function expectDurableDirect(exchange: string): Promise<void> {
  const { fields } = await wire.next('ExchangeDeclare', { exchange, passive: false })
  expect(fields).toMatchObject({ type: 'direct', durable: true, autoDelete: false })
  const declare = (type: string, options: Options.AssertExchange = {}) =>
    answerTo(admin, (channel) => channel.assertExchange(exchange, type, options))
  expect(await answerTo(admin, (channel) => channel.checkExchange(exchange))).toBe('ok')
  expect(await declare('direct', { durable: true })).toBe('ok')
  expect(await declare('direct', { durable: false })).toBe(406)
  expect(await declare('topic', { durable: true })).toBe(406)
}

it('AMQP-001 declares ojs.exchange.direct as durable direct exchange', async () => {
  await expectDurableDirect('ojs.exchange.direct')
})

it('AMQP-002 declares ojs.exchange.dlx as durable direct exchange', async () => {
  await expectDurableDirect('ojs.exchange.dlx')
})

it('AMQP-003 declares job queues durable, not exclusive, not auto-delete', async () => {
  await clients.push('declared')
  const queue = 'ojs.queue.declared'
  expect(declared().map(({ fields }) => fields['queue'])).toContain(queue)
  for (const { fields } of declared()) {
    expect(fields).toMatchObject({ durable: true, exclusive: false, autoDelete: false })
  }
  const declare = (other: Options.AssertQueue) =>
    answerTo(admin, (channel) => channel.assertQueue(queue, { ...seedQueue('declared'), ...other }))
  expect(await answerTo(admin, (channel) => channel.checkQueue(queue))).toBe('ok')
  expect(await declare({})).toBe('ok')
  expect(await declare({ durable: false })).toBe(406)
  expect(await declare({ autoDelete: true })).toBe(406)
  expect(await declare({ exclusive: true })).toBeOneOf([405, 406])
})

it('declares all other queues alike, but for those that tell who serves, which go with their gateway', async () => {
  await clients.retried('lasting')
  const queues = wire.all('QueueDeclare', { passive: false }).map(({ fields }) => fields)
  // The second: one for each gateway that shares its ledger.
  const isLock = ({ queue }: Method['fields']) =>
    queue === 'ojs.system.owner' || /^ojs\.system\.gateways\.[\w-]+$/.test(String(queue))
  const locks = queues.filter(isLock)
  expect(locks).toHaveLength(isOnPostgres ? 2 : 1)
  for (const lock of locks) expect(lock).toMatchObject({ durable: false, exclusive: true })
  const others = queues.filter((fields) => !isLock(fields))
  const kinds = ['dlx.lasting', 'control.lasting', 'retry.lasting']
  for (const kind of [...kinds.map((name) => `ojs.queue.${name}`), 'ojs.system.dead-letters']) {
    expect(others.some(({ queue }) => String(queue).startsWith(kind))).toBe(true)
  }
  for (const fields of others) {
    expect(fields).toMatchObject({ durable: true, exclusive: false, autoDelete: false })
  }
})

it('AMQP-004 sets x-dead-letter-exchange on all job queues', async () => {
  const id = await clients.push('mortal')
  for (const { fields } of declared()) {
    const name = String(fields['queue']).slice('ojs.queue.'.length)
    expect(fields['arguments']).toMatchObject({
      'x-dead-letter-exchange': 'ojs.exchange.dlx',
      'x-dead-letter-routing-key': name,
    })
  }
  const message = await admin.channel.get('ojs.queue.mortal')
  if (message === false) throw new Error('no message')
  admin.channel.nack(message, false, false)
  const dead: string[] = []
  await eventually(async () => {
    dead.push(...(await admin.takeAll('ojs.queue.dlx.mortal')))
    return dead.length > 0
  })
  expect(dead).toEqual([id])
})

it('AMQP-005 maps PUSH to basic.publish on ojs.exchange.direct, one for each job', async () => {
  const id = await clients.push('pushed')
  const jobs = [1, 2, 3].map((n) => ({ type: 'a.b', args: [n], options: { queue: 'pushed' } }))
  const batch = await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })
  expect(batch.status, JSON.stringify(batch.body)).toBe(201)
  const ids = [id, ...batch.body.jobs.map((job: { id: string }) => job.id)]
  for (const each of ids) {
    const publishes = publishesOf(wire, each)
    expect(publishes.map(({ fields }) => fields)).toMatchObject([
      { exchange: 'ojs.exchange.direct', routingKey: 'pushed' },
    ])
  }
  const channels = new Set(ids.map((each) => publishesOf(wire, each)[0]?.channel))
  expect(channels.size).toBe(1)
  expect(await admin.takeAll('ojs.queue.pushed')).toEqual(ids)
})

it('AMQP-006 maps FETCH to basic.consume with no_ack=false, never to basic.get', async () => {
  const id = await clients.push('fetched')
  expect(await clients.fetch('fetched')).toMatchObject([{ id }])
  expect(await gateway.fetch(['fetched'])).toEqual([])
  const { fields } = await wire.next('BasicConsume', { queue: 'ojs.queue.fetched' })
  expect(fields).toMatchObject({ noAck: false, exclusive: false })
  const delivery = deliveryOf(wire, id)
  expect(delivery.fields['consumerTag']).toBe(fields['consumerTag'])
  expect(settlementsOf(wire, delivery)).toEqual([])
  expect((await gateway.ack(id)).status).toBe(200)
  await eventually(() => settlementsOf(wire, delivery).length === 1)
  expect(wire.all('BasicGet')).toEqual([])
})

it('AMQP-007 sets the prefetch count before it consumes', async () => {
  const job = { type: 'test.job', args: [], options: { queue: 'measured' } }
  const jobs = Array.from({ length: PREFETCH + 8 }, () => job)
  expect((await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })).status).toBe(201)
  await clients.fetch('measured')
  const consumes = onJobQueues(wire, 'BasicConsume')
  expect(consumes.length).toBeGreaterThan(0)
  for (const consume of consumes) {
    const before = wire.onChannelOf(consume).slice(0, wire.onChannelOf(consume).indexOf(consume))
    const qos = before.filter(({ name }) => name.startsWith('BasicQos'))
    expect(qos).toMatchObject([
      { name: 'BasicQos', fields: { prefetchCount: PREFETCH, prefetchSize: 0, global: false } },
      { name: 'BasicQosOk' },
    ])
  }
  // RabbitMQ delivers no more than the prefetch until the consumer settles one.
  await eventually(async () => {
    const { messageCount } = await admin.channel.checkQueue('ojs.queue.measured')
    return messageCount === 8
  })
})

it('AMQP-008 maps ACK to basic.ack with the delivery tag of that job, multiple=false', async () => {
  const ids = [
    await clients.push('acked'),
    await clients.push('acked'),
    await clients.push('acked'),
  ]
  expect((await clients.fetch('acked', 3)).map(({ id }) => id)).toEqual(ids)
  const [first = '', second = '', third = ''] = ids
  expect((await gateway.ack(second)).status).toBe(200)
  await eventually(() => settlementsOf(wire, deliveryOf(wire, second)).length > 0)
  const { deliveryTag } = deliveryOf(wire, second).fields
  expect(settlementsOf(wire, deliveryOf(wire, second))).toMatchObject([
    { name: 'BasicAck', fields: { deliveryTag, multiple: false } },
  ])
  for (const other of [first, third])
    expect(settlementsOf(wire, deliveryOf(wire, other))).toEqual([])
  for (const other of [first, third]) expect((await gateway.ack(other)).status).toBe(200)
})

it('AMQP-009 maps FAIL (discard) to basic.nack with requeue=false', async () => {
  const id = await clients.push('failed')
  await clients.fetch('failed')
  expect(await clients.fail(id, { retryable: false })).toMatchObject({ state: 'discarded' })
  const delivery = deliveryOf(wire, id)
  await eventually(() => settlementsOf(wire, delivery).length > 0)
  const { deliveryTag } = delivery.fields
  expect(settlementsOf(wire, delivery)).toMatchObject([
    { name: 'BasicNack', fields: { deliveryTag, requeue: false, multiple: false } },
  ])
  const dead: (string | undefined)[] = []
  await eventually(async () => {
    const message = await admin.channel.get('ojs.queue.dlx.failed', { noAck: true })
    if (message === false) return false
    const { messageId, headers } = message.properties
    dead.push(String(messageId), headers?.['x-death']?.[0]?.reason)
    return true
  })
  expect(dead).toEqual([id, 'rejected'])
})

describe('every job message: of a PUSH, a batch, a schedule and a retry', () => {
  const ARGS = ['ключ ✓ 🐇', { deep: [1, -2.5e-3, null, true, '\u0000"\\'] }]
  const ids: string[] = []
  let publishes: Method[]

  beforeAll(async () => {
    const retry = { initial_interval_ms: 500, jitter: false }
    const { id: failing } = await clients.retried('wire', { args: ARGS, options: { retry } })
    const from = wire.methods.indexOf(await wire.next('BasicPublish', ofJob(failing)))
    const scheduled = await clients.push('wire', {
      args: ARGS,
      options: { scheduled_at: new Date(Date.now() + 200).toISOString() },
    })
    const job = { type: 'test.job', args: ARGS, options: { queue: 'wire' } }
    const batch = await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs: [job] })
    ids.push(failing, failing, scheduled, batch.body.jobs[0].id)
    await clients.fetch('wire', 3)
    publishes = jobPublishes(wire, from).filter(({ body }) => body?.includes('"wire"'))
    const exchanges = publishes.map(({ fields }) => fields['exchange'])
    expect(exchanges.filter((name) => name === 'ojs.exchange.retry')).toHaveLength(1)
    expect(exchanges.filter((name) => name === 'ojs.exchange.direct')).toHaveLength(3)
  })

  it('AMQP-010 sets content_type to application/openjobspec+json', () => {
    for (const { properties } of publishes) {
      expect(properties).toMatchObject({
        contentType: 'application/openjobspec+json',
        contentEncoding: 'utf-8',
      })
    }
    for (const id of ids) {
      const { contentType } = deliveryOf(wire, id).properties ?? {}
      expect(contentType).toBe('application/openjobspec+json')
    }
  })

  it('AMQP-011 sets delivery_mode=2 on all job messages', () => {
    expect(jobPublishes(wire).length).toBeGreaterThan(PREFETCH)
    for (const { properties } of jobPublishes(wire)) expect(properties?.['deliveryMode']).toBe(2)
    for (const id of ids) expect(deliveryOf(wire, id).properties?.['deliveryMode']).toBe(2)
  })

  it('AMQP-012 sets message_id to the OJS job id', () => {
    const named = publishes.map(({ properties }) => properties?.['messageId'])
    expect(named).toHaveLength(ids.length)
    expect(new Set(named)).toEqual(new Set(ids))
    for (const { properties, body } of publishes) {
      expect(JSON.parse(String(body)).id).toBe(properties?.['messageId'])
    }
  })

  it('AMQP-013 serializes the message body as JSON per ojs-json-format', () => {
    for (const { properties, body } of publishes) {
      const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)
      const job = JSON.parse(text)
      expect(job).toMatchObject({
        specversion: '1.0',
        id: properties?.['messageId'],
        type: 'test.job',
        queue: 'wire',
        args: ARGS,
      })
      expect(job.created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      for (const member of Object.keys(job)) expect(member).toMatch(/^[a-z]+(_[a-z]+)*$/)
    }
  })
})

describe('names of exchanges and queues', () => {
  // The last two are declared some seconds after a queue, on a slow machine before this test.
  const EXCHANGES =
    /^ojs\.(exchange\.(direct|dlx|retry|delayed)|system\.(gateways|ledger\.[\w.:-]+|origin|marker\.[\w-]+))$/
  const QUEUES =
    /^ojs\.(queue\.[a-z]+|queue\.(dlx|control)\.[a-z]+|queue\.retry\.[a-z]+\.\d+|system\.[a-z-]+(\.dlx)?|system\.gateways\.[\w-]+)$/

  it('AMQP-031 follows the OJS entity naming conventions', async () => {
    const named = (name: string, field: string) =>
      new Set(wire.all(name).map(({ fields }) => String(fields[field])))
    for (const exchange of named('ExchangeDeclare', 'exchange')) expect(exchange).toMatch(EXCHANGES)
    for (const queue of named('QueueDeclare', 'queue')) expect(queue).toMatch(QUEUES)
    const patterns = ['', 'dlx.', 'control.'].map((kind) => `ojs.queue.${kind}wire`)
    for (const queue of [...patterns, 'ojs.queue.retry.wire.500']) {
      expect([queue, await answerTo(admin, (channel) => channel.checkQueue(queue))]).toEqual([
        queue,
        'ok',
      ])
    }
    // One AMQP queue for each OJS queue: its routing key is bound to no other queue.
    for (const { fields } of wire.all('QueueBind', { exchange: 'ojs.exchange.direct' })) {
      const { queue, routingKey } = fields
      expect(queue).toBeOneOf([`ojs.queue.${routingKey}`, routingKey])
      if (queue === routingKey) expect(queue).toMatch(/^ojs\.queue\.control\./)
    }
  })

  describe('of a gateway with OJS_PREFIX', () => {
    const tenant = amqpStage({ OJS_PREFIX: 'tenant1' })

    it('AMQP-031 puts OJS_PREFIX before every name', async () => {
      expect((await tenant.gateway.push('email')).status).toBe(201)
      const names = [
        ...tenant.wire.all('ExchangeDeclare').map(({ fields }) => String(fields['exchange'])),
        ...tenant.wire.all('QueueDeclare').map(({ fields }) => String(fields['queue'])),
      ]
      expect(names).toContain('tenant1.ojs.queue.email')
      for (const name of names) expect(name).toMatch(/^tenant1\.ojs\./)
      const { fields } = await tenant.wire.next('BasicPublish', { routingKey: 'email' })
      expect(fields['exchange']).toBe('tenant1.ojs.exchange.direct')
      expect(await tenant.admin.takeAll('tenant1.ojs.queue.email')).toHaveLength(1)
    })
  })
})

it('lists amqp among the protocols of its manifest', async () => {
  const { body } = await gateway.request('GET', '/ojs/manifest')
  expect(body).toMatchObject({ protocols: ['http', 'amqp'], backend: 'rabbitmq' })
})
