import type { ConsumeMessage } from 'amqplib'
import { describe, expect, it } from 'vitest'
import type { Broker, Reply, ReplyOutcome } from '../../../src/broker/broker.ts'
import { vhostOfTest } from '../fixtures.ts'
import { row, scratch } from '../harness.ts'

const { admin, start } = vhostOfTest()

/** Listens as a worker does, on an exclusive queue of its own. */
async function listen(exchange: string, keys: readonly string[]): Promise<ConsumeMessage[]> {
  const { queue } = await admin.channel.assertQueue('', { exclusive: true, autoDelete: true })
  for (const key of keys) await admin.channel.bindQueue(queue, exchange, key)
  const heard: ConsumeMessage[] = []
  await admin.channel.consume(queue, (message) => message && heard.push(message), { noAck: true })
  return heard
}

const DIRECT = 'amq.rabbitmq.reply-to'
const body = JSON.stringify({ job_id: 'j' })
const cancel = { queue: 'email', type: 'ojs.control.cancel', body }

describe('a broadcast', () => {
  it.each(['', 'tenant1'])(
    'reaches every worker of its queue and no other, prefix %o',
    async (prefix) => {
      const { broker } = await start({ prefix })
      const exchange = prefix === '' ? 'ojs.exchange.direct' : `${prefix}.ojs.exchange.direct`
      const one = await listen(exchange, ['ojs.control.workers.email', 'ojs.control.workers.x'])
      const two = await listen(exchange, ['ojs.control.workers.email'])
      const other = await listen(exchange, ['ojs.control.workers.other'])
      expect(await broker.broadcast(cancel)).toBe('confirmed')
      expect(await broker.broadcast({ ...cancel, queue: 'other' })).toBe('confirmed')
      await expect.poll(() => [one.length, two.length, other.length]).toEqual([1, 1, 1])
      expect(two[0]?.content.toString()).toBe(body)
      expect(two[0]?.properties).toMatchObject({
        type: 'ojs.control.cancel',
        contentType: 'application/openjobspec+json',
        contentEncoding: 'utf-8',
        appId: 'ojs',
      })
    },
  )

  it('is confirmed when nobody listens, and refused when the broker is stopped', async () => {
    const test = await start()
    expect(await test.broker.broadcast(cancel)).toBe('confirmed')
    await test.stop()
    expect(await test.broker.broadcast(cancel)).toBe('refused')
  })
})

describe('a reply', () => {
  const answer = { correlationId: 'c-1', type: 'ojs.control.info', body: '{"job":{}}' }

  it('is published to the replyTo queue', async () => {
    const { broker } = await start()
    const channel = await scratch(admin)
    const { queue } = await channel.assertQueue('', { exclusive: true, autoDelete: true })
    expect(await broker.reply({ ...answer, replyTo: queue })).toBe('confirmed')
    const got = await channel.get(queue, { noAck: true })
    if (got === false) throw new Error('no reply')
    expect(got.content.toString()).toBe(answer.body)
    expect(got.properties).toMatchObject({ correlationId: 'c-1', type: 'ojs.control.info' })
  })

  it('is returned when the replyTo queue is gone', async () => {
    const { broker } = await start()
    expect(await broker.reply({ ...answer, replyTo: 'gone' })).toBe('returned')
    expect(await broker.reply({ ...answer, correlationId: null, replyTo: 'gone' })).toBe('returned')
  })

  // An asker without the right to write there must not get the gateway to write for it.
  it('is sent to no queue that others than the asker can use', async () => {
    const { broker } = await start()
    const channel = await scratch(admin)
    await channel.assertQueue('payments', { durable: true })
    const own = await channel.assertQueue('answers.of.one', { exclusive: true })
    const shared = await channel.assertQueue('', { durable: false })
    const to = (replyTo: string) => broker.reply({ ...answer, replyTo })
    expect(await to('payments')).toBe('not-exclusive')
    expect(await admin.takeAll('payments')).toEqual([])
    expect(await to(own.queue)).toBe('confirmed')
    expect(await to(shared.queue)).toBe('confirmed')
    const { messageCount } = await channel.checkQueue(own.queue)
    expect(messageCount).toBe(1)
    expect(await admin.takeAll(shared.queue)).toHaveLength(1)
  })

  it('costs no channel for each answer, and only few for any number of addresses', async () => {
    const { broker } = await start()
    const channel = await scratch(admin)
    await channel.assertQueue('mine', { exclusive: true })
    await channel.assertQueue('payments')
    const before = broker.gauges().channelsActive
    for (let i = 0; i < 50; i++) {
      expect(await broker.reply({ ...answer, replyTo: 'mine' })).toBe('confirmed')
      expect(await broker.reply({ ...answer, replyTo: 'payments' })).toBe('not-exclusive')
    }
    const names = Array.from({ length: 500 }, (_, i) => `none.${i}`)
    const outcomes = names.map((replyTo) => broker.reply({ ...answer, replyTo }))
    expect(broker.gauges().channelsActive).toBeLessThanOrEqual(before + 1)
    const returned = (await Promise.all(outcomes)).filter((outcome) => outcome === 'returned')
    expect(returned.length).toBeLessThanOrEqual(20)
    expect(await broker.reply({ ...answer, replyTo: 'mine' })).toBe('confirmed')
  })

  it('does not go to a queue that has replaced the asker’s under its name', async () => {
    const { broker } = await start()
    const channel = await scratch(admin)
    await channel.assertQueue('mine', { exclusive: true })
    const reply = { ...answer, replyTo: 'mine' }
    expect(await broker.reply(reply)).toBe('confirmed')
    await channel.deleteQueue('mine')
    expect(await broker.reply(reply)).toBe('returned')
    await channel.assertQueue('mine')
    expect(await broker.reply(reply)).toBe('not-exclusive')
  })

  it.each([
    '',
    'ojs.queue.email',
    'ojs.system.owner',
    'tenant1.ojs.queue.email',
    'a.b.ojs.exchange.direct',
    'r'.repeat(256),
    'ü'.repeat(128),
    'reply\nto',
    'reply\u0000',
    'reply\u0085',
  ])('is refused for the replyTo %j', async (replyTo) => {
    const { broker } = await start()
    await broker.ensureQueue('email')
    expect(await broker.reply({ ...answer, replyTo })).toBe('refused')
    expect(await admin.takeAll('ojs.queue.email')).toEqual([])
  })

  it.each([
    'amq.rabbitmq.reply-to',
    'amq.rabbitmq.reply-to.',
    'amq.rabbitmq.reply-to.x',
    'amq.rabbitmq.reply-to.a.b',
    'amq.rabbitmq.reply-to.g2dkAA5ub25leGlzdEBub2RlAAAAAAAAAAAAAAAA.abc',
    `amq.rabbitmq.reply-to.${'A'.repeat(200)}.${'B'.repeat(20)}`,
    'amq.direct',
    '#',
    '\u{1f600}',
  ])(
    'to %j closes no channel or connection that job messages are published on',
    async (replyTo) => {
      const { broker, recorder } = await start()
      await broker.ensureQueue('email')
      const outcome = await openedReply(broker, { ...answer, replyTo })
      expect(['confirmed', 'returned', 'unknown', 'not-exclusive']).toContain(outcome)
      expect(await broker.publish(row())).toBe('confirmed')
      expect(await broker.reply({ ...answer, replyTo: 'gone' })).toBe('returned')
      expect(recorder.all('channelError', 'publish')).toEqual([])
      expect(recorder.all('reconnecting', 'publish')).toEqual([])
    },
  )

  it('reaches a client of direct reply-to, also after an address that RabbitMQ cannot read', async () => {
    const { broker } = await start()
    expect(broker.gauges().connectionsActive).toBe(3)
    const { replyTo, heard } = await askDirectly()
    expect(await openedReply(broker, { ...answer, replyTo })).toBe('confirmed')
    await expect.poll(() => heard.length).toBe(1)
    expect(heard[0]?.properties).toMatchObject({ correlationId: 'c-1' })
    expect(broker.gauges().connectionsActive).toBe(4)
    // RabbitMQ 3 and 4.0 close the connection because of this address, 4.3 drops the answer.
    const unreadable = await broker.reply({ ...answer, replyTo: `${DIRECT}.a.b` })
    expect(['unknown', 'confirmed']).toContain(unreadable)
    await expect.poll(() => broker.reply({ ...answer, replyTo })).toBe('confirmed')
    await expect.poll(() => heard.length).toBe(2)
  })
})

/** The outcome of a reply once the connection for direct replies is open; `refused` until then. */
async function openedReply(broker: Broker, reply: Reply): Promise<ReplyOutcome> {
  let outcome: ReplyOutcome = 'refused'
  const again = async () => {
    outcome = await broker.reply(reply)
    return outcome
  }
  await expect.poll(again).not.toBe('refused')
  return outcome
}

/** A client of direct reply-to, and its address as the readers of its question see it. */
async function askDirectly(): Promise<{ replyTo: string; heard: ConsumeMessage[] }> {
  const channel = await scratch(admin)
  const heard: ConsumeMessage[] = []
  await channel.consume(DIRECT, (message) => message && heard.push(message), { noAck: true })
  const { queue } = await channel.assertQueue('', { exclusive: true })
  channel.sendToQueue(queue, Buffer.from('?'), { replyTo: DIRECT })
  const replyTo = await new Promise<string>((resolve) => {
    const onMessage = (message: ConsumeMessage | null) => resolve(message?.properties.replyTo)
    void channel.consume(queue, onMessage, { noAck: true })
  })
  return { replyTo, heard }
}
