import { EventEmitter } from 'node:events'
import type { Channel, ConsumeMessage } from 'amqplib'
import { expect, it } from 'vitest'
import { Block, type BlockEnd } from '../../src/broker/block.ts'
import type { Connection } from '../../src/broker/connection.ts'
import type { LiveDelivery } from '../../src/broker/delivery.ts'

/** A channel that only writes down what is said on it. */
class SilentChannel extends EventEmitter {
  readonly said: unknown[][] = []
  deliver: (message: ConsumeMessage) => void = () => undefined

  async prefetch(): Promise<void> {}
  async consume(_source: string, onMessage: (message: ConsumeMessage) => void): Promise<void> {
    this.deliver = onMessage
  }
  ack(message: ConsumeMessage, isAllUpTo = false): void {
    this.said.push(['ack', message.fields.deliveryTag, { isAllUpTo }])
  }
  nack(message: ConsumeMessage, isAllUpTo: boolean, isRequeued: boolean): void {
    this.said.push(['nack', message.fields.deliveryTag, { isAllUpTo, isRequeued }])
  }
}

async function open(count: number) {
  const channel = new SilentChannel()
  const deliveries: LiveDelivery[] = []
  const ends: { end: BlockEnd; lost: readonly LiveDelivery[] }[] = []
  const openChannel = async () => channel as unknown as Channel
  const block = new Block({
    connection: { isUp: true, openChannel } as unknown as Connection,
    ...{ queue: 'q', source: 'ojs.queue.q', tag: 't', prefetch: 32, consumerPriority: 0 },
    nextOrder: () => deliveries.length,
    onDelivery: (delivery) => deliveries.push(delivery),
    onSettled: () => {},
    onEnd: (_block, end, lost) => ends.push({ end, lost }),
  })
  await block.open()
  for (let deliveryTag = 1; deliveryTag <= count; deliveryTag++) {
    const fields = { deliveryTag, redelivered: false }
    const content = Buffer.from('{}')
    channel.deliver({ fields, properties: { headers: {} }, content } as unknown as ConsumeMessage)
  }
  return { block, channel, deliveries, ends }
}

it('settles the one delivery that it is told to, and none before it', async () => {
  const { block, channel, deliveries } = await open(4)
  const [, second, third, fourth] = deliveries
  if (!second || !third || !fourth) throw new Error('nothing was delivered')
  expect([second.ack(), third.deadLetter()]).toEqual(['settled', 'settled'])
  block.giveBack(fourth)
  expect(channel.said).toEqual([
    ['ack', 2, { isAllUpTo: false }],
    ['nack', 3, { isAllUpTo: false, isRequeued: false }],
    ['nack', 4, { isAllUpTo: false, isRequeued: true }],
  ])
  expect(block.unacked).toBe(1)
})

it('settles a delivery once', async () => {
  const { block, channel, deliveries } = await open(1)
  const [only] = deliveries
  expect([only?.ack(), only?.ack(), only?.deadLetter()]).toEqual(['settled', 'lost', 'lost'])
  if (only) block.giveBack(only)
  expect(channel.said).toHaveLength(1)
})

it('says nothing more of what was lost with its channel', async () => {
  const { block, channel, deliveries, ends } = await open(2)
  channel.emit('close')
  expect(ends).toEqual([{ end: expect.anything(), lost: deliveries }])
  expect(deliveries.map((delivery) => [delivery.isLive(), delivery.ack()])).toEqual([
    [false, 'lost'],
    [false, 'lost'],
  ])
  for (const delivery of deliveries) block.giveBack(delivery)
  expect([channel.said, block.unacked]).toEqual([[], 0])
})
