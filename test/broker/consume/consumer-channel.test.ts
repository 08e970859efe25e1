import { EventEmitter } from 'node:events'
import type { Channel, ConsumeMessage } from 'amqplib'
import { expect, it } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import {
  ConsumerChannel,
  type ConsumerChannelOptions,
  type ConsumerEnd,
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

function channelOn(
  channel: SilentChannel,
  refusal: Error | null = null,
  over: Partial<ConsumerChannelOptions> = {},
) {
  const deliveries: LiveDelivery[] = []
  const settled: unknown[][] = []
  const ends: { end: ConsumerEnd; lost: readonly LiveDelivery[] }[] = []
  const openChannel = async () => {
    if (refusal) throw refusal
    return channel as unknown as Channel
  }
  const consumerChannel = new ConsumerChannel({
    connection: { isUp: true, openChannel } as unknown as Connection,
    ...{ queue: 'q', source: 'ojs.queue.q', tag: 't', prefetch: 32, consumerPriority: 0 },
    nextOrder: () => deliveries.length,
    onDelivery: (delivery) => deliveries.push(delivery),
    onSettled: ({ order }, from, how) => settled.push([order, from, how]),
    onEnd: (_block, end, lost) => ends.push({ end, lost }),
    ...over,
  })
  return { consumerChannel, deliveries, ends, settled }
}

it('a consumer channel ends with no-channel when its connection has no channels left', async () => {
  const { consumerChannel, ends } = channelOn(
    new SilentChannel(),
    new Error('No channels left to allocate'),
  )
  await consumerChannel.open()
  expect(ends).toEqual([{ end: { why: 'no-channel' }, lost: [] }])
})

async function open(count: number, over: Partial<ConsumerChannelOptions> = {}) {
  const channel = new SilentChannel()
  const opened = channelOn(channel, null, over)
  await opened.consumerChannel.open()
  const opening = channel.said.splice(0)
  for (let deliveryTag = 1; deliveryTag <= count; deliveryTag++) {
    const fields = { deliveryTag, redelivered: false }
    const content = Buffer.from('{}')
    channel.deliver({ fields, properties: { headers: {} }, content } as unknown as ConsumeMessage)
  }
  return { ...opened, channel, opening }
}

it('a consumer channel does not consume when it is closed while its channel is being opened', async () => {
  const channel = new SilentChannel()
  const { consumerChannel, ends } = channelOn(channel)
  const opened = consumerChannel.open()
  await consumerChannel.close()
  await opened
  expect(channel.said).toEqual([['close']])
  expect(ends).toEqual([{ end: { why: 'closed' }, lost: [] }])
})

it('a consumer channel settles only the delivery it is told to, not those before it', async () => {
  const { consumerChannel, channel, deliveries } = await open(4)
  const [, second, third, fourth] = deliveries
  if (!second || !third || !fourth) throw new Error('nothing was delivered')
  expect([second.ack(), third.deadLetter()]).toEqual(['settled', 'settled'])
  consumerChannel.giveBack(fourth)
  expect(channel.said).toEqual([
    ['ack', 2, { isAllUpTo: false }],
    ['nack', 3, { isAllUpTo: false, isRequeued: false }],
    ['nack', 4, { isAllUpTo: false, isRequeued: true }],
  ])
  expect(consumerChannel.unacked).toBe(1)
})

it('a consumer channel settles a delivery once', async () => {
  const { consumerChannel, channel, deliveries } = await open(1)
  const [only] = deliveries
  expect([only?.ack(), only?.ack(), only?.deadLetter()]).toEqual(['settled', 'lost', 'lost'])
  if (only) consumerChannel.giveBack(only)
  expect(channel.said).toHaveLength(1)
})

it('a consumer channel reports its deliveries as lost with its channel, and then settles none of them', async () => {
  const { consumerChannel, channel, deliveries, ends } = await open(2)
  channel.emit('close')
  expect(ends).toEqual([{ end: expect.anything(), lost: deliveries }])
  expect(deliveries.map((delivery) => [delivery.isLive(), delivery.ack()])).toEqual([
    [false, 'lost'],
    [false, 'lost'],
  ])
  for (const delivery of deliveries) consumerChannel.giveBack(delivery)
  expect([channel.said, consumerChannel.unacked]).toEqual([[], 0])
})

it('a consumer channel sets its prefetch before it consumes (AMQP-007)', async () => {
  const { opening } = await open(0)
  expect(opening).toEqual([['prefetch', 32], ['consume']])
})

it('a consumer channel can be of a size that depends on the consumers that the queue has', async () => {
  const sizeBeside = (consumers: number) => consumers - 5
  const { consumerChannel, opening, deliveries } = await open(2, { sizeBeside })
  expect(opening).toEqual([['prefetch', 2], ['consume']])
  expect([consumerChannel.prefetch, consumerChannel.isFull, consumerChannel.isCounted]).toEqual([
    2,
    true,
    true,
  ])
  deliveries[0]?.ack()
  expect(consumerChannel.isFull).toBe(false)
  await consumerChannel.close()
  expect(consumerChannel.isCounted).toBe(false)
})

it('a cancelled consumer channel closes its channel when its last delivery is acknowledged, not before', async () => {
  const { consumerChannel, channel, deliveries, ends } = await open(2)
  await consumerChannel.cancel()
  expect([consumerChannel.state, channel.said]).toEqual(['draining', [['cancel']]])
  deliveries[0]?.ack()
  expect(consumerChannel.state).toBe('draining')
  deliveries[1]?.ack()
  expect(channel.said.at(-1)).toEqual(['close'])
  expect(ends).toEqual([{ end: { why: 'closed' }, lost: [] }])
  await Promise.all([consumerChannel.close(), consumerChannel.close()])
  expect(channel.said.filter(([what]) => what === 'close')).toHaveLength(1)
})

it('a cancelled consumer channel gives its last delivery back before it closes its channel', async () => {
  const { consumerChannel, channel, deliveries, ends } = await open(2)
  await consumerChannel.cancel()
  deliveries[0]?.giveBack()
  expect(consumerChannel.state).toBe('draining')
  deliveries[1]?.giveBack()
  expect(channel.said.slice(-2)).toEqual([
    ['nack', 2, { isAllUpTo: false, isRequeued: true }],
    ['close'],
  ])
  await consumerChannel.close()
  expect(channel.said.filter(([what]) => what === 'close')).toHaveLength(1)
  expect(ends).toEqual([{ end: { why: 'closed' }, lost: [] }])
})

it('a cancelled consumer channel without deliveries closes its channel at once', async () => {
  const { consumerChannel, channel } = await open(0)
  await consumerChannel.cancel()
  expect([consumerChannel.state, channel.said]).toEqual(['closed', [['cancel'], ['close']]])
})

it('a consumer channel stays closed when its channel closes while it is being cancelled', async () => {
  const { consumerChannel, channel, ends } = await open(1)
  const cancelled = consumerChannel.cancel()
  channel.emit('close')
  await cancelled
  expect([consumerChannel.state, ends.length]).toEqual(['closed', 1])
})

it.each(['cancelled by the broker', 'told that its queue is gone'])(
  'a consumer channel that is %s closes its channel and reports its deliveries as lost, once',
  async (how) => {
    const { consumerChannel, channel, deliveries, ends } = await open(1)
    if (how === 'cancelled by the broker') channel.deliver(null)
    else consumerChannel.orphan()
    const why = how === 'cancelled by the broker' ? 'cancelled-by-broker' : 'queue-missing'
    expect(ends).toEqual([{ end: { why }, lost: deliveries }])
    expect(channel.said).toEqual([['close']])
    consumerChannel.orphan()
    channel.deliver(null)
    expect([ends.length, channel.said.length]).toEqual([1, 1])
  },
)

it('a closed consumer channel ignores a delivery that arrives late', async () => {
  const { consumerChannel, channel, deliveries } = await open(1)
  await consumerChannel.close()
  channel.deliver(deliveries[0]?.raw ?? null)
  expect([deliveries.length, consumerChannel.unacked]).toEqual([1, 0])
})

it('a consumer channel that is not open yet ignores the notice that its queue is gone', async () => {
  const { consumerChannel, ends } = channelOn(new SilentChannel())
  consumerChannel.orphan()
  expect(ends).toEqual([])
  await consumerChannel.open()
  expect(consumerChannel.state).toBe('running')
})

it('a consumer channel ends when its queue goes while basic.consume is unanswered, whatever the answer is', async () => {
  const channel = new SilentChannel()
  const asked = deferred()
  const answer = deferred()
  channel.consume = () => {
    asked.resolve()
    return answer.promise
  }
  const { consumerChannel, ends } = channelOn(channel)
  const opened = consumerChannel.open()
  await asked.promise
  consumerChannel.orphan()
  expect(ends).toEqual([{ end: { why: 'queue-missing' }, lost: [] }])
  answer.resolve()
  await opened
  expect([consumerChannel.state, channel.said.at(-1), ends.length]).toEqual([
    'closed',
    ['close'],
    1,
  ])
})

it('a consumer channel closes when RabbitMQ refuses its basic.consume', async () => {
  const channel = new SilentChannel()
  channel.consume = async () => {
    throw new Error('refused')
  }
  const { consumerChannel, ends } = channelOn(channel)
  await consumerChannel.open()
  expect(consumerChannel.state).toBe('closed')
  expect(ends).toHaveLength(1)
})

it('a consumer channel reports a delivery as settled, but not one whose ack the channel refused', async () => {
  const { channel, deliveries, settled } = await open(2)
  deliveries[0]?.deadLetter()
  channel.ack = () => {
    throw new Error('Channel closed')
  }
  expect(deliveries[1]?.ack()).toBe('lost')
  expect(settled).toEqual([[0, 'buffered', 'dead-letter']])
})
