import { EventEmitter } from 'node:events'
import type { Channel, ConsumeMessage } from 'amqplib'
import { expect, it } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import {
  Block,
  type BlockEnd,
  type BlockOptions,
} from '../../../src/broker/consume/consumer-channel.ts'
import type { LiveDelivery } from '../../../src/broker/consume/delivery.ts'
import { deferred } from '../../support/time/deferred.ts'

/** A channel that only records the methods called on it. */
class SilentChannel extends EventEmitter {
  readonly said: unknown[][] = []
  deliver: (message: ConsumeMessage | null) => void = () => undefined

  async checkQueue(): Promise<{ consumerCount: number }> {
    return { consumerCount: 7 }
  }
  async prefetch(count: number): Promise<void> {
    this.said.push(['prefetch', count])
  }
  async consume(
    _source: string,
    onMessage: (message: ConsumeMessage | null) => void,
  ): Promise<void> {
    this.said.push(['consume'])
    this.deliver = onMessage
  }
  async cancel(): Promise<void> {
    this.said.push(['cancel'])
  }
  async close(): Promise<void> {
    this.said.push(['close'])
    this.emit('close')
  }
  ack(message: ConsumeMessage, isAllUpTo = false): void {
    this.said.push(['ack', message.fields.deliveryTag, { isAllUpTo }])
  }
  nack(message: ConsumeMessage, isAllUpTo: boolean, isRequeued: boolean): void {
    this.said.push(['nack', message.fields.deliveryTag, { isAllUpTo, isRequeued }])
  }
}

function blockOn(
  channel: SilentChannel,
  refusal: Error | null = null,
  over: Partial<BlockOptions> = {},
) {
  const deliveries: LiveDelivery[] = []
  const settled: unknown[][] = []
  const ends: { end: BlockEnd; lost: readonly LiveDelivery[] }[] = []
  const openChannel = async () => {
    if (refusal) throw refusal
    return channel as unknown as Channel
  }
  const block = new Block({
    connection: { isUp: true, openChannel } as unknown as Connection,
    ...{ queue: 'q', source: 'ojs.queue.q', tag: 't', prefetch: 32, consumerPriority: 0 },
    nextOrder: () => deliveries.length,
    onDelivery: (delivery) => deliveries.push(delivery),
    onSettled: ({ order }, from, how) => settled.push([order, from, how]),
    onEnd: (_block, end, lost) => ends.push({ end, lost }),
    ...over,
  })
  return { block, deliveries, ends, settled }
}

it('a block ends with no-channel when its connection has no channels left', async () => {
  const { block, ends } = blockOn(new SilentChannel(), new Error('No channels left to allocate'))
  await block.open()
  expect(ends).toEqual([{ end: { why: 'no-channel' }, lost: [] }])
})

async function open(count: number, over: Partial<BlockOptions> = {}) {
  const channel = new SilentChannel()
  const opened = blockOn(channel, null, over)
  await opened.block.open()
  const opening = channel.said.splice(0)
  for (let deliveryTag = 1; deliveryTag <= count; deliveryTag++) {
    const fields = { deliveryTag, redelivered: false }
    const content = Buffer.from('{}')
    channel.deliver({ fields, properties: { headers: {} }, content } as unknown as ConsumeMessage)
  }
  return { ...opened, channel, opening }
}

it('a block does not consume when it is closed while its channel is being opened', async () => {
  const channel = new SilentChannel()
  const { block, ends } = blockOn(channel)
  const opened = block.open()
  await block.close()
  await opened
  expect(channel.said).toEqual([['close']])
  expect(ends).toEqual([{ end: { why: 'closed' }, lost: [] }])
})

it('a block settles only the delivery it is told to, not those before it', async () => {
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

it('a block settles a delivery once', async () => {
  const { block, channel, deliveries } = await open(1)
  const [only] = deliveries
  expect([only?.ack(), only?.ack(), only?.deadLetter()]).toEqual(['settled', 'lost', 'lost'])
  if (only) block.giveBack(only)
  expect(channel.said).toHaveLength(1)
})

it('a block reports its deliveries as lost with its channel, and then settles none of them', async () => {
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

it('a block sets its prefetch before it consumes (AMQP-007)', async () => {
  const { opening } = await open(0)
  expect(opening).toEqual([['prefetch', 32], ['consume']])
})

it('a block can be of a size that depends on the consumers that the queue has', async () => {
  const sizeBeside = (consumers: number) => consumers - 5
  const { block, opening, deliveries } = await open(2, { sizeBeside })
  expect(opening).toEqual([['prefetch', 2], ['consume']])
  expect([block.prefetch, block.isFull, block.isCounted]).toEqual([2, true, true])
  deliveries[0]?.ack()
  expect(block.isFull).toBe(false)
  await block.close()
  expect(block.isCounted).toBe(false)
})

it('a cancelled block closes its channel when its last delivery is acknowledged, not before', async () => {
  const { block, channel, deliveries, ends } = await open(2)
  await block.cancel()
  expect([block.state, channel.said]).toEqual(['draining', [['cancel']]])
  deliveries[0]?.ack()
  expect(block.state).toBe('draining')
  deliveries[1]?.ack()
  expect(channel.said.at(-1)).toEqual(['close'])
  expect(ends).toEqual([{ end: { why: 'closed' }, lost: [] }])
  await Promise.all([block.close(), block.close()])
  expect(channel.said.filter(([what]) => what === 'close')).toHaveLength(1)
})

it('a cancelled block gives its last delivery back before it closes its channel', async () => {
  const { block, channel, deliveries, ends } = await open(2)
  await block.cancel()
  deliveries[0]?.giveBack()
  expect(block.state).toBe('draining')
  deliveries[1]?.giveBack()
  expect(channel.said.slice(-2)).toEqual([
    ['nack', 2, { isAllUpTo: false, isRequeued: true }],
    ['close'],
  ])
  await block.close()
  expect(channel.said.filter(([what]) => what === 'close')).toHaveLength(1)
  expect(ends).toEqual([{ end: { why: 'closed' }, lost: [] }])
})

it('a cancelled block without deliveries closes its channel at once', async () => {
  const { block, channel } = await open(0)
  await block.cancel()
  expect([block.state, channel.said]).toEqual(['closed', [['cancel'], ['close']]])
})

it('a block stays closed when its channel closes while it is being cancelled', async () => {
  const { block, channel, ends } = await open(1)
  const cancelled = block.cancel()
  channel.emit('close')
  await cancelled
  expect([block.state, ends.length]).toEqual(['closed', 1])
})

it.each(['cancelled by the broker', 'told that its queue is gone'])(
  'a block that is %s closes its channel and reports its deliveries as lost, once',
  async (how) => {
    const { block, channel, deliveries, ends } = await open(1)
    if (how === 'cancelled by the broker') channel.deliver(null)
    else block.orphan()
    const why = how === 'cancelled by the broker' ? 'cancelled-by-broker' : 'queue-missing'
    expect(ends).toEqual([{ end: { why }, lost: deliveries }])
    expect(channel.said).toEqual([['close']])
    block.orphan()
    channel.deliver(null)
    expect([ends.length, channel.said.length]).toEqual([1, 1])
  },
)

it('a closed block ignores a delivery that arrives late', async () => {
  const { block, channel, deliveries } = await open(1)
  await block.close()
  channel.deliver(deliveries[0]?.raw ?? null)
  expect([deliveries.length, block.unacked]).toEqual([1, 0])
})

it('a block that is not open yet ignores the notice that its queue is gone', async () => {
  const { block, ends } = blockOn(new SilentChannel())
  block.orphan()
  expect(ends).toEqual([])
  await block.open()
  expect(block.state).toBe('running')
})

it('a block ends when its queue goes while basic.consume is unanswered, whatever the answer is', async () => {
  const channel = new SilentChannel()
  const asked = deferred()
  const answer = deferred()
  channel.consume = () => {
    asked.resolve()
    return answer.promise
  }
  const { block, ends } = blockOn(channel)
  const opened = block.open()
  await asked.promise
  block.orphan()
  expect(ends).toEqual([{ end: { why: 'queue-missing' }, lost: [] }])
  answer.resolve()
  await opened
  expect([block.state, channel.said.at(-1), ends.length]).toEqual(['closed', ['close'], 1])
})

it('a block closes when RabbitMQ refuses its basic.consume', async () => {
  const channel = new SilentChannel()
  channel.consume = async () => {
    throw new Error('refused')
  }
  const { block, ends } = blockOn(channel)
  await block.open()
  expect(block.state).toBe('closed')
  expect(ends).toHaveLength(1)
})

it('a block reports a delivery as settled, but not one whose ack the channel refused', async () => {
  const { channel, deliveries, settled } = await open(2)
  deliveries[0]?.deadLetter()
  channel.ack = () => {
    throw new Error('Channel closed')
  }
  expect(deliveries[1]?.ack()).toBe('lost')
  expect(settled).toEqual([[0, 'buffered', 'dead-letter']])
})
