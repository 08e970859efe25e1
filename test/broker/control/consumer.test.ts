import { EventEmitter } from 'node:events'
import { expect, it, onTestFinished, vi } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import type { ConnectionListener } from '../../../src/broker/connection/connection-options.ts'
import { SILENT } from '../../../src/broker/connection/liveness.ts'
import { Denials } from '../../../src/broker/connection/permissions.ts'
import { ControlConsumer } from '../../../src/broker/control/consumer.ts'
import { createNames } from '../../../src/broker/names.ts'
import { logger, newDenials, Recorder } from '../harness.ts'

/** A broker on which the quorum queue `broken` has no leader: it never answers the consume. */
class StuckChannel extends EventEmitter {
  readonly #consumed: string[]
  /** Give the missing answers, when the test calls `answer`. */
  readonly #late: (() => void)[]
  #isBlocked = false

  constructor(consumed: string[], late: (() => void)[]) {
    super()
    this.#consumed = consumed
    this.#late = late
  }

  checkQueue = async () => ({ messageCount: 0, consumerCount: 1 })
  prefetch = async () => {}
  cancel = async () => {}
  close = async () => void this.emit('close')

  /** As in RabbitMQ: requests of a channel wait behind one that is not answered. */
  consume(source: string): Promise<object> {
    const isBroken = source.endsWith('.broken')
    if (isBroken || !this.#isBlocked) this.#consumed.push(source.slice('ojs.queue.control.'.length))
    this.#isBlocked ||= isBroken
    if (!this.#isBlocked) return Promise.resolve({})
    return new Promise((resolve) => this.#late.push(() => resolve({})))
  }
}

function startConsumer(given: Partial<StuckChannel> = {}) {
  const consumed: string[] = []
  const late: (() => void)[] = []
  const openChannel = vi.fn(async () => Object.assign(new StuckChannel(consumed, late), given))
  let end = (_reason: string) => {}
  const listen = ({ down = end }: ConnectionListener) => {
    end = down
  }
  const connection = { isUp: true, listen, openChannel } as unknown as Connection
  let now = 0
  const { observer } = new Recorder()
  const consumer = new ControlConsumer({
    connection,
    denials: newDenials(),
    names: createNames(''),
    clock: { now: () => now, wall: () => now },
    logger,
    observer,
    random: () => 0.5,
    instance: 'test',
    mayConsume: () => true,
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
  const answer = () => {
    for (const each of late.splice(0)) each()
  }
  return { consumer, consumed, elapse, answer, end: (reason: string) => end(reason) }
}

it('a control queue that never answers basic.consume does not keep the others from being consumed', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { consumer, consumed, elapse } = startConsumer()
  consumer.resume()
  await elapse(0)
  expect(consumed).toEqual(['a', 'broken'])
  await elapse(5_000)
  expect(consumed).toEqual(['a', 'broken', 'b', 'c', 'd', 'e', 'f'])

  // RabbitMQ has closed the connection because of `broken`, which is not consumed again at once.
  consumer.suspend()
  consumed.splice(0)
  consumer.resume()
  await elapse(0)
  expect(consumed).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])

  // An operator has deleted `broken`, and it was declared anew.
  consumer.queueMissing('broken')
  consumer.queueReady('broken')
  await elapse(0)
  expect(consumed.at(-1)).toBe('broken')
})

it('a control queue that never answers basic.consume is tried again after half a minute, then ever more rarely', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { consumer, consumed, elapse } = startConsumer()
  consumer.resume()
  const askedAt: number[] = []
  for (let second = 0; second < 3_600; second++) {
    if (consumed.includes('broken')) askedAt.push(second)
    consumed.splice(0)
    // RabbitMQ closes the connection because of such a consume.
    if (second % 65 === 64) {
      consumer.suspend()
      consumer.resume()
    }
    await elapse(1_000)
  }
  const pauses = askedAt.slice(1).map((at, i) => at - (askedAt[i] ?? 0))
  expect(pauses.length).toBeGreaterThan(6)
  for (const [i, pause] of pauses.entries()) {
    // A try lasts 5 s and a pause of 30 to 600 s follows; checks come every 30 s and after each connect.
    const least = 5 + Math.min(30 * 2 ** i, 600)
    expect(pause).toBeGreaterThanOrEqual(least - 1)
    expect(pause).toBeLessThanOrEqual(least + 31)
  }
})

it('a control queue that has answered late is consumed at once on the next connection', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { consumer, consumed, elapse, answer } = startConsumer()
  consumer.resume()
  await elapse(5_000)
  answer()
  await elapse(0)
  consumer.suspend()
  consumed.splice(0)
  consumer.resume()
  await elapse(0)
  expect(consumed).toContain('broken')
})

it.each([
  ['at once after a connection on which RabbitMQ answered nothing', SILENT, true],
  ['later after any other', 'Connection closed: 541 (INTERNAL-ERROR)', false],
])('a queue that did not answer is asked again %s', async (_, reason, isAsked) => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { consumer, consumed, elapse, end } = startConsumer()
  consumer.resume()
  await elapse(5_000)
  end(reason)
  consumed.splice(0)
  consumer.resume()
  await elapse(0)
  expect(consumed.includes('broken')).toBe(isAsked)
})

/** A broker that refuses consumers on the queues `denied…` until the test allows them. */
class DenyingChannel extends EventEmitter {
  readonly #broker: { isDenying: boolean; consumed: string[]; channels: number }

  constructor(broker: { isDenying: boolean; consumed: string[]; channels: number }) {
    super()
    this.#broker = broker
    broker.channels += 1
  }

  checkQueue = async () => ({ messageCount: 0, consumerCount: 1 })
  prefetch = async () => {}
  cancel = async () => {}
  close = async () => void this.emit('close')

  async consume(source: string): Promise<object> {
    const queue = source.slice('ojs.queue.control.'.length)
    if (!this.#broker.isDenying || !queue.startsWith('denied')) {
      this.#broker.consumed.push(queue)
      return {}
    }
    const text = `ACCESS_REFUSED - access to queue '${source}' refused`
    const error = Object.assign(new Error(text), { code: 403 })
    this.emit('error', error)
    this.emit('close')
    throw error
  }
}

it('control queues that may not be consumed are logged once each, and cost two channels in half a minute', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const broker = { isDenying: true, consumed: [] as string[], channels: 0 }
  const openChannel = async () => new DenyingChannel(broker)
  const connection = { isUp: true, listen: () => {}, openChannel } as unknown as Connection
  const lines: string[] = []
  const warn = (_fields: object, message: string) => void lines.push(message)
  const counting = { debug() {}, info() {}, warn, error() {} }
  const denials = new Denials(counting, { publish: connection, consume: connection })
  const consumer = new ControlConsumer({
    ...{ connection, denials, names: createNames(''), logger: counting, instance: 'test' },
    clock: { now: () => Date.now(), wall: () => Date.now() },
    observer: new Recorder().observer,
    random: () => 0.5,
    mayConsume: () => true,
    onControl: async () => 'handled',
    onQueueGone: () => {},
    onBacklogConsumed: () => {},
  })
  onTestFinished(() => consumer.suspend())
  const denied = Array.from({ length: 20 }, (_, i) => `denied${i}`)
  for (const queue of ['a', ...denied, 'b']) consumer.queueReady(queue)
  consumer.resume()
  await vi.advanceTimersByTimeAsync(10_000)
  expect(lines).toHaveLength(20)
  expect(new Set(broker.consumed)).toEqual(new Set(['a', 'b']))

  broker.consumed.splice(0)
  broker.channels = 0
  await vi.advanceTimersByTimeAsync(300_000)
  expect(lines).toHaveLength(20)
  expect(denials.warnings()).toHaveLength(20)
  expect(broker.consumed).toEqual([])
  // Per check: a channel that looks at the queues, and one that tries to consume.
  expect(broker.channels).toBeLessThanOrEqual(2 * 10)

  broker.isDenying = false
  await vi.advanceTimersByTimeAsync(30_000)
  expect(broker.consumed).toHaveLength(20)
  expect(new Set(broker.consumed)).toEqual(new Set(denied))
  expect(denials.warnings()).toEqual([])
})

it('a control queue that is missing and was never known is not consumed later', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { consumer, consumed, elapse } = startConsumer()
  consumer.resume()
  await elapse(5_000)
  consumer.queueMissing('unheard-of')
  await elapse(60_000)
  expect(consumed).not.toContain('unheard-of')
})

it('the control consumer stops without waiting until RabbitMQ has cancelled its consumers', async () => {
  const cancel = vi.fn(() => new Promise<void>(() => {}))
  const { consumer, consumed } = startConsumer({ cancel })
  consumer.resume()
  await vi.waitUntil(() => consumed.length > 1)
  await consumer.stop()
  expect(cancel).toHaveBeenCalled()
})
