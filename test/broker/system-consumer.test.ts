import { EventEmitter } from 'node:events'
import { expect, it, onTestFinished, vi } from 'vitest'
import type { Connection } from '../../src/broker/connection.ts'
import { SILENT_OBSERVER } from '../../src/broker/observer.ts'
import { SystemConsumer } from '../../src/broker/system-consumer.ts'
import { logger } from './harness.ts'

/** RabbitMQ with a quorum queue that has no leader: it answers no consume, and then ends the connection. */
class LeaderlessBroker {
  isUp = true
  /** When somebody asked to consume, in s. */
  readonly asked: number[] = []
  now = 0
  hasLeader = false
  readonly #channels: EventEmitter[] = []

  openChannel = async () => {
    const channel = Object.assign(new EventEmitter(), {
      prefetch: async () => {},
      cancel: async () => {},
      close: async () => void channel.emit('close'),
      consume: () => {
        this.asked.push(this.now / 1_000)
        if (this.hasLeader) return Promise.resolve({})
        return new Promise((_, reject) => {
          channel.once('close', () => reject(new Error('Connection closed: 541')))
        })
      },
    })
    this.#channels.push(channel)
    return channel
  }

  end(): void {
    this.isUp = false
    for (const channel of this.#channels.splice(0)) channel.emit('close')
  }
}

function startConsumer() {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const broker = new LeaderlessBroker()
  const { openChannel } = broker
  const connection = {
    get isUp() {
      return broker.isUp
    },
    listen() {},
    openChannel,
  } as unknown as Connection
  const consumer = new SystemConsumer({
    connection,
    clock: { now: () => broker.now, wall: () => broker.now },
    logger,
    observer: SILENT_OBSERVER,
    random: () => 0.5,
    instance: 'test',
    source: 'ojs.system.due',
    label: 'ojs.system.due',
    handle: async () => 'ack',
    onQueueGone() {},
  })
  onTestFinished(() => consumer.suspend())
  const elapse = async (seconds: number) => {
    await vi.advanceTimersByTimeAsync(0)
    for (let second = 0; second < seconds; second++) {
      broker.now += 1_000
      await vi.advanceTimersByTimeAsync(1_000)
    }
  }
  const reconnect = async () => {
    consumer.suspend()
    broker.end()
    await elapse(0)
    broker.isUp = true
    consumer.resume()
    await elapse(0)
  }
  return { broker, consumer, elapse, reconnect }
}

it('a system queue without a leader is asked more and more rarely: it costs the connection', async () => {
  const { broker, consumer, elapse, reconnect } = startConsumer()
  consumer.resume()
  await elapse(0)
  for (let second = 0; second < 3_600; second++) {
    await elapse(1)
    const [last = 0] = broker.asked.slice(-1)
    if (broker.isUp && broker.now / 1_000 - last === 15) await reconnect()
  }
  const pauses = broker.asked.slice(1).map((at, i) => at - (broker.asked[i] ?? 0))
  expect(pauses.slice(0, 5)).toEqual([35, 65, 125, 245, 485])
  expect(pauses.slice(5).every((pause) => pause === 605)).toBe(true)
})

it('and is asked at once after a reconnect where it has answered', async () => {
  const { broker, consumer, elapse, reconnect } = startConsumer()
  consumer.resume()
  await elapse(15)
  await reconnect()
  expect(broker.asked).toEqual([0])
  broker.hasLeader = true
  await elapse(20)
  expect(broker.asked).toEqual([0, 35])
  await elapse(10)
  await reconnect()
  expect(broker.asked).toEqual([0, 35, 45])
})
