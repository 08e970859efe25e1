import { EventEmitter } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ConsumeMessage } from 'amqplib'
import { beforeEach, expect, it, vi } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import { ControlChannel } from '../../../src/broker/control/channel.ts'
import { deferred } from '../../support/time/deferred.ts'

/** Records its consumers, and answers a cancel when the test says so. */
class SlowChannel extends EventEmitter {
  readonly consumers = new Map<string, (message: ConsumeMessage) => void>()
  readonly cancelling = deferred()
  isClosed = false

  prefetch = async () => {}
  ack = vi.fn()
  async consume(
    _source: string,
    onMessage: (message: ConsumeMessage) => void,
    { consumerTag }: { consumerTag: string },
  ): Promise<void> {
    this.consumers.set(consumerTag, onMessage)
  }
  async cancel(tag: string): Promise<void> {
    await this.cancelling.promise
    this.consumers.delete(tag)
  }
  async close(): Promise<void> {
    this.isClosed = true
    this.emit('close')
  }
}

let slow: SlowChannel
let taken: ConsumeMessage[]
const consumerOf = (consumerTag: string) => ({ consumerTag, priority: 1 })

let channel: ControlChannel

beforeEach(() => {
  slow = new SlowChannel()
  taken = []
  channel = new ControlChannel({
    connection: { openChannel: async () => slow } as unknown as Connection,
    prefetch: 1,
    onMessage: (_channel, _queue, message) => void taken.push(message),
    onCancelled() {},
    onClosed() {},
  })
})

it('a draining control channel refuses new consumers, which nobody would cancel', async () => {
  await channel.consume('a', 'control.a', consumerOf('tag.a'))
  const drained = channel.drain()
  await expect(channel.consume('b', 'control.b', consumerOf('tag.b'))).rejects.toThrow(
    'accepts no more consumers',
  )
  slow.cancelling.resolve()
  await drained
  expect([slow.consumers.size, slow.isClosed]).toEqual([0, true])
})

it('a draining control channel takes messages until its consumers are cancelled, and closes when they are settled', async () => {
  await channel.consume('a', 'control.a', consumerOf('tag.a'))
  const first = {} as ConsumeMessage
  slow.consumers.get('tag.a')?.(first)
  const drained = channel.drain()
  channel.settle(first, 'ack')
  const last = {} as ConsumeMessage
  slow.consumers.get('tag.a')?.(last)
  slow.cancelling.resolve()
  await drained
  await nextTurn()
  expect([taken.length, slow.isClosed]).toEqual([2, false])
  channel.settle(last, 'ack')
  expect([slow.ack.mock.calls.length, slow.isClosed]).toEqual([2, true])
})

it('a muted control channel ignores new messages, and closes without cancelling its consumers first', async () => {
  await channel.consume('a', 'control.a', consumerOf('tag.a'))
  const first = {} as ConsumeMessage
  slow.consumers.get('tag.a')?.(first)
  channel.mute()
  slow.consumers.get('tag.a')?.({} as ConsumeMessage)
  expect(taken).toEqual([first])
  channel.settle(first, 'ack')
  await channel.close()
  expect([slow.ack.mock.calls.length, slow.isClosed]).toEqual([1, true])
})
