import { EventEmitter } from 'node:events'
import type { Channel, ConsumeMessage } from 'amqplib'
import { expect, it } from 'vitest'
import type { Connection } from '../../src/broker/connection.ts'
import { Deliveries } from '../../src/broker/deliveries.ts'
import { createNames } from '../../src/broker/names.ts'
import { systemClock } from '../../src/clock.ts'
import { deferred } from '../support/deferred.ts'
import { logger, Recorder, request } from './harness.ts'

/** A channel whose consumer begins when the test says so. */
class SlowChannel extends EventEmitter {
  readonly said: unknown[] = []
  readonly accepted = deferred<void>()
  deliver: (message: ConsumeMessage) => void = () => {}

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

it('gives back what comes when another gateway has the broker', async () => {
  const channel = new SlowChannel()
  const connection = {
    isUp: true,
    listen: () => {},
    openChannel: async () => channel as unknown as Channel,
  }
  const recorder = new Recorder()
  const deliveries = new Deliveries({
    connection: connection as unknown as Connection,
    names: createNames(''),
    clock: systemClock(),
    logger,
    random: () => 0.5,
    observer: recorder.observer,
    ...{ prefetch: 32, maxBlocks: 4, consumerPriority: 0, idleMs: 600_000, instance: 'i' },
    isReady: () => true,
    isPaused: () => false,
    lookUp: async () => 'exists',
    onQueueGone: () => {},
  })
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
