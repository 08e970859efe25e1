import { EventEmitter } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Channel, ConsumeMessage } from 'amqplib'
import { expect, it, vi } from 'vitest'
import type { Presence } from '../../../src/broker/broker.ts'
import { deferred } from '../../support/time/deferred.ts'
import { deliveriesOn, idsOf, Recorder, request } from '../harness.ts'

/** A channel that answers basic.consume when the test says so. */
class SlowChannel extends EventEmitter {
  readonly said: unknown[] = []
  readonly accepted = deferred<void>()
  deliver: (message: ConsumeMessage) => void = () => {}

  async checkQueue(): Promise<{ consumerCount: number }> {
    return { consumerCount: 0 }
  }
  async prefetch(): Promise<void> {}
  async consume(_source: string, onMessage: (message: ConsumeMessage) => void): Promise<void> {
    this.deliver = onMessage
    this.said.push('consume')
    await this.accepted.promise
  }
  async cancel(): Promise<void> {
    this.said.push('cancel')
  }
  async close(): Promise<void> {
    this.emit('close')
  }
  nack({ fields }: ConsumeMessage, _isAllUpTo: boolean, isRequeued: boolean): void {
    this.said.push(['nack', fields.deliveryTag, isRequeued])
  }
}

it('a consumer that RabbitMQ accepts after yield() is cancelled and gives back its deliveries', async () => {
  const channel = new SlowChannel()
  const connection = {
    isUp: true,
    listen: () => {},
    openChannel: async () => channel as unknown as Channel,
  }
  const recorder = new Recorder()
  const deliveries = deliveriesOn(connection, { observer: recorder.observer })
  deliveries.resume()
  const waiting = new AbortController()
  const taken = deliveries.take(request(['q'], { signal: waiting.signal }))
  await expect.poll(() => channel.said).toEqual(['consume'])
  await deliveries.yield()
  channel.accepted.resolve()
  const message = {
    fields: { deliveryTag: 1 },
    properties: { headers: {} },
    content: Buffer.from('{}'),
  }
  await expect.poll(() => deliveries.gauges().consumers).toHaveLength(1)
  channel.deliver(message as unknown as ConsumeMessage)
  await expect.poll(() => channel.said).toEqual(['consume', 'cancel', ['nack', 1, true]])
  expect(recorder.count('givenBack', 'q')).toBe(1)
  waiting.abort()
  expect(await taken).toEqual([])
})

it('a fetch is answered at once when the look-up of its queue fails', async () => {
  const lookUp = vi.fn(async () => {
    throw new Error('a bug')
  })
  const deliveries = deliveriesOn(
    { isUp: true, listen: () => {} },
    { clock: { now: () => 0, wall: () => 0 }, isReady: () => false, lookUp },
  )
  deliveries.resume()
  const fetch = request(['q'], { waitMs: 0, hasClaimable: () => true })
  expect(await deliveries.take(fetch)).toEqual([])
  expect(await deliveries.take(fetch)).toEqual([])
  // The queue is not looked up again for a second.
  expect(lookUp).toHaveBeenCalledTimes(1)
})

it.each([
  ['before', true],
  ['as', false],
])(
  'a short fetch goes on when one of its queues is missing, %s the other is found',
  async (_, isBefore) => {
    const channel = new SlowChannel()
    const answers = { a: deferred<Presence>(), b: deferred<Presence>() }
    const deliveries = deliveriesOn(
      { isUp: true, listen: () => {}, openChannel: async () => channel as unknown as Channel },
      { isReady: () => false, lookUp: (queue) => answers[queue === 'a' ? 'a' : 'b'].promise },
    )
    deliveries.resume()
    const fetch = request(['a', 'b'], { waitMs: 0, hasClaimable: () => true })
    let isOver = false
    const taken = deliveries.take(fetch).finally(() => {
      isOver = true
    })
    answers.a.resolve('missing')
    if (isBefore) await nextTurn()
    answers.b.resolve('exists')
    await expect.poll(() => channel.said).toEqual(['consume'])
    expect(isOver).toBe(false)
    channel.accepted.resolve()
    channel.deliver({
      fields: { deliveryTag: 1 },
      properties: { headers: {}, messageId: 'of b' },
      content: Buffer.from('{}'),
    } as unknown as ConsumeMessage)
    expect(idsOf(await taken)).toEqual(['of b'])
  },
)
