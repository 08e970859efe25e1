import { EventEmitter } from 'node:events'
import { expect, it, onTestFinished, vi } from 'vitest'
import type { Connection } from '../../src/broker/connection.ts'
import { ControlConsumer } from '../../src/broker/control-consumer.ts'
import { createNames } from '../../src/broker/names.ts'
import { logger, Recorder } from './harness.ts'

/** What a broker with a quorum queue that has no leader does: it never answers the consume. */
class StuckChannel extends EventEmitter {
  readonly #consumed: string[]
  #isBlocked = false

  constructor(consumed: string[]) {
    super()
    this.#consumed = consumed
  }

  checkQueue = async () => ({ messageCount: 0, consumerCount: 1 })
  prefetch = async () => {}
  cancel = async () => {}
  close = async () => void this.emit('close')

  /** As in RabbitMQ: what comes behind an unanswered request of a channel waits with it. */
  consume(source: string): Promise<object> {
    const isBroken = source.endsWith('.broken')
    if (isBroken || !this.#isBlocked) this.#consumed.push(source.slice('ojs.queue.control.'.length))
    this.#isBlocked ||= isBroken
    return this.#isBlocked ? new Promise(() => {}) : Promise.resolve({})
  }
}

function startConsumer() {
  const consumed: string[] = []
  const openChannel = vi.fn(async () => new StuckChannel(consumed))
  const connection = { isUp: true, listen: () => {}, openChannel } as unknown as Connection
  let now = 0
  const { observer } = new Recorder()
  const consumer = new ControlConsumer({
    connection,
    names: createNames(''),
    clock: { now: () => now, wall: () => now },
    logger,
    observer,
    random: () => 0.5,
    instance: 'test',
    onControl: async () => 'handled',
    onQueueGone: () => {},
    onBacklogConsumed: () => {},
  })
  onTestFinished(() => consumer.suspend())
  for (const queue of ['a', 'broken', 'b', 'c', 'd', 'e', 'f']) consumer.queueReady(queue)
  const elapse = async (ms: number) => {
    now += ms
    await vi.advanceTimersByTimeAsync(ms)
  }
  return { consumer, consumed, elapse }
}

it('a control queue that answers no consume keeps no other from being consumed', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { consumer, consumed, elapse } = startConsumer()
  consumer.resume()
  await elapse(0)
  expect(consumed).toEqual(['a', 'broken'])
  await elapse(5_000)
  expect(consumed).toEqual(['a', 'broken', 'b', 'c', 'd', 'e', 'f'])

  // RabbitMQ has ended the connection for it: it is not asked again at once.
  consumer.suspend()
  consumed.splice(0)
  consumer.resume()
  await elapse(0)
  expect(consumed).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])

  // An operator has deleted it, and it was declared anew.
  consumer.queueMissing('broken')
  consumer.queueReady('broken')
  await elapse(0)
  expect(consumed.at(-1)).toBe('broken')
})

it('and is asked again ten minutes later', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { consumer, consumed, elapse } = startConsumer()
  consumer.resume()
  await elapse(5_000)
  await elapse(60_000)
  consumer.suspend()
  consumer.resume()
  await elapse(0)
  consumed.splice(0)
  await elapse(530_000)
  expect(consumed).toEqual([])
  await elapse(35_000)
  expect(consumed).toEqual(['broken'])
})
