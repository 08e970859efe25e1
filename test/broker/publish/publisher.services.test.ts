import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { BrokerOptions } from '../../../src/broker/options.ts'
import { type PrivateNode, startPrivateNode } from '../../support/broker/rabbit.ts'
import { brokersOfTest } from '../fixtures.ts'
import { type Admin, connectAdmin, row } from '../harness.ts'

/** Publishing through the whole broker layer, on a private node, because alarms are node-wide. */
let node: PrivateNode
let admin: Admin
const startAt = brokersOfTest()

beforeAll(async () => {
  node = await startPrivateNode()
  admin = await connectAdmin(node.url())
})

afterAll(async () => {
  await admin?.close()
  await node?.stop()
})

function start(given: Partial<BrokerOptions> = {}) {
  return startAt(node.url(), given)
}

describe.each(['classic', 'quorum'] as const)('publish, profile %s', (queueType) => {
  it('confirms a job message that is in the queue by then, with its properties', async () => {
    const { broker, recorder } = await start({ queueType })
    const queue = `plain-${queueType}`
    await broker.ensureQueue(queue)
    const job = row({ queue, priority: 3 })
    const sent = broker.publish(job)
    expect(await sent).toBe('confirmed')
    const message = await admin.channel.get(`ojs.queue.${queue}`, { noAck: true })
    if (message === false) throw new Error('the queue is empty')
    expect(message.content.toString()).toBe(job.envelope)
    expect(message.fields).toMatchObject({ exchange: 'ojs.exchange.direct', routingKey: queue })
    expect(message.properties).toMatchObject({
      contentType: 'application/openjobspec+json',
      contentEncoding: 'utf-8',
      deliveryMode: 2,
      messageId: job.id,
      type: job.type,
      appId: 'ojs',
      priority: 3,
      timestamp: 1_700_000_000,
      expiration: undefined,
      replyTo: undefined,
    })
    expect(recorder.count('confirmed', queue)).toBe(1)
  })

  it('answers nacked for a full queue, and confirmed when there is room again', async () => {
    const queue = `full-${queueType}`
    await declareBounded(queue, queueType, 1)
    const { broker, recorder } = await start({ queueType })
    expect(await broker.ensureQueue(queue)).toBe('ready')
    const outcomes: string[] = []
    // A quorum queue overshoots its limit softly.
    for (let i = 0; i < 50 && !outcomes.includes('nacked'); i++) {
      outcomes.push(await broker.publish(row({ queue })))
    }
    expect(outcomes).toContain('nacked')
    expect(recorder.count('publishNacked', queue)).toBe(1)
    await admin.channel.purgeQueue(`ojs.queue.${queue}`)
    expect(await broker.publish(row({ queue }))).toBe('confirmed')
  })

  it('answers returned for a deleted queue, which ensureQueue() reports missing and declares again', async () => {
    const { broker, recorder } = await start({ queueType })
    const queue = `gone-${queueType}`
    await broker.ensureQueue(queue)
    await admin.channel.deleteQueue(`ojs.queue.${queue}`)
    const job = row({ queue })
    expect(await broker.publish(job)).toBe('returned')
    expect(recorder.count('returned', queue)).toBe(1)
    expect(await broker.ensureQueue(queue)).toBe('ready')
    expect(recorder.count('onQueueMissing', queue)).toBe(2)
    expect(await broker.publish(job)).toBe('confirmed')
  })
})

it('publishing goes on when the limit of a full quorum queue is removed', async () => {
  const { broker } = await start({ queueType: 'quorum', publishTimeoutMs: 1_000 })
  await broker.ensureQueue('unlimited')
  const limit = ['limit', '^ojs\\.queue\\.unlimited$', '{"max-length":1}', '--apply-to', 'queues']
  await node.ctl(['set_policy', '-p', '/ojs', ...limit])
  await expect.poll(() => broker.publish(row({ queue: 'unlimited' }))).toBe('nacked')
  await node.ctl(['clear_policy', '-p', '/ojs', 'limit'])
  const publishing = () => broker.publish(row({ queue: 'unlimited' }))
  await expect.poll(publishing, { interval: 200 }).toBe('confirmed')
})

it('5,000 publishes at once are all confirmed, and all in the queue', async () => {
  const { broker } = await start()
  await broker.ensureQueue('many')
  const sent = Array.from({ length: 5_000 }, () => broker.publish(row({ queue: 'many' })))
  expect(new Set(await Promise.all(sent))).toEqual(new Set(['confirmed']))
  expect(broker.gauges().confirmsPending).toBe(0)
  const { messageCount } = await admin.channel.checkQueue('ojs.queue.many')
  expect(messageCount).toBe(5_000)
})

it('isQueueGone() is true for a deleted queue, and for one that was missing a moment ago', async () => {
  const { broker } = await start()
  for (const queue of ['here', 'gone']) await broker.ensureQueue(queue)
  await admin.channel.deleteQueue('ojs.queue.gone')
  expect([await broker.isQueueGone('here'), await broker.isQueueGone('gone')]).toEqual([
    false,
    true,
  ])
  expect(await broker.recheckQueue('gone')).toBe('ready')
  // A publish that the dying queue has nacked may be looked into only now.
  expect(await broker.isQueueGone('gone')).toBe(true)
})

it('publishing survives a deleted exchange: the channel is closed, the exchange declared again', async () => {
  const { broker, recorder } = await start()
  await broker.ensureQueue('email')
  await admin.channel.deleteExchange('ojs.exchange.direct')
  expect(await broker.publish(row())).toBe('unknown')
  await recorder.until('channelError', 1, 'publish', 404)
  await expect.poll(() => broker.isDeclared('email')).toBe(true)
  await expect.poll(() => broker.publish(row())).toBe('confirmed')
})

it('publishing is refused while RabbitMQ is blocked, and onUp is called when it is not any more', async () => {
  const { broker, recorder } = await start({ publishTimeoutMs: 1_000 })
  await broker.ensureQueue('email')
  const ups = recorder.count('onUp')
  await node.evaluate('vm_memory_monitor:set_vm_memory_high_watermark(0.00001)')
  try {
    // RabbitMQ sends `blocked` at the first publish under the alarm, which stays unconfirmed.
    const outcomes: string[] = []
    await expect
      .poll(async () => {
        outcomes.push(await broker.publish(row()))
        return broker.status()
      })
      .toMatchObject({ state: 'blocked' })
    // `blocked` may have come between two publishes; then the last one was not sent.
    expect(outcomes.findLast((outcome) => outcome !== 'refused')).toBe('unknown')
    expect(broker.gauges().blocked).toBe(true)
    expect(await Promise.race([broker.publish(row()), nextTurn('later')])).toBe('refused')
    // Declares and consumers go on: they never publish (docs/architecture.md §4.1).
    expect(await broker.ensureQueue('under-alarm')).toBe('ready')
  } finally {
    await node.evaluate('vm_memory_monitor:set_vm_memory_high_watermark(0.4)')
  }
  await recorder.until('onUp', ups + 1)
  expect(broker.status()).toEqual({ state: 'up' })
  // What waited under the alarm goes first, and each publish has only a second.
  await expect.poll(() => broker.publish(row())).toBe('confirmed')
})

async function declareBounded(queue: string, queueType: 'classic' | 'quorum', maxLength: number) {
  await admin.channel.assertExchange('ojs.exchange.direct', 'direct')
  await admin.channel.assertExchange('ojs.exchange.dlx', 'direct')
  await admin.channel.assertQueue(`ojs.queue.${queue}`, {
    arguments: {
      'x-queue-type': queueType,
      'x-dead-letter-exchange': 'ojs.exchange.dlx',
      'x-dead-letter-routing-key': queue,
      'x-max-length': maxLength,
      'x-overflow': 'reject-publish',
    },
  })
}
