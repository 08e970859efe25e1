import { EventEmitter } from 'node:events'
import type { Channel, ConsumeMessage } from 'amqplib'
import { expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { deliveriesOn, idsOf, request } from './harness.ts'

type Deliver = (message: ConsumeMessage) => void

/** As in RabbitMQ: a queue without a leader gives no answer to a consume. */
class SilentChannel extends EventEmitter {
  readonly #onWell: (deliver: Deliver) => void

  constructor(onWell: (deliver: Deliver) => void) {
    super()
    this.#onWell = onWell
  }

  async checkQueue() {
    return { consumerCount: 0 }
  }

  async prefetch() {}

  async consume(source: string, deliver: Deliver) {
    if (source.endsWith('.stuck')) return new Promise(() => {})
    this.#onWell(deliver)
    return {}
  }

  async cancel() {}

  async close() {
    this.emit('close')
  }
}

function start(clock = systemClock()) {
  let onWell: (deliver: Deliver) => void = () => {}
  const well = new Promise<Deliver>((resolve) => {
    onWell = resolve
  })
  const connection = {
    isUp: true,
    isCrowded: false,
    listen: () => {},
    openChannel: async () => new SilentChannel(onWell) as unknown as Channel,
  }
  const deliveries = deliveriesOn(connection, { clock })
  deliveries.resume()
  const available = new Map([['stuck', 1]])
  const hasClaimable = (queue: string, beyond = 0) => (available.get(queue) ?? 0) > beyond
  const take = (queues: string[], waitMs: number, count = 1) =>
    deliveries.take(request(queues, { count, waitMs, hasClaimable })).then(idsOf)
  const arrive = async (id: string, deliveryTag: number) => {
    const deliver = await well
    available.set('well', deliveryTag)
    const properties = { headers: {}, messageId: id }
    const message = { fields: { deliveryTag }, properties, content: Buffer.from('{}') }
    deliver(message as unknown as ConsumeMessage)
  }
  return { take, arrive }
}

it('a fetch of two queues gets a job of one when the other never answers basic.consume', async () => {
  const { take, arrive } = start()
  const both = take(['stuck', 'well'], 30_000)
  await arrive('a', 1)
  expect(await both).toEqual(['a'])
}, 20_000)

it('a fetch of one queue gets its job behind a fetch that also waits for a queue that never answers', async () => {
  const { take, arrive } = start()
  const both = take(['stuck', 'well'], 30_000)
  const alone = take(['well'], 30_000)
  await arrive('a', 1)
  await arrive('b', 2)
  expect(await alone).toEqual(['b'])
  expect(await both).toEqual(['a'])
}, 20_000)

it('a fetch that wants more jobs than there are ends early once the other queue is known to be silent', async () => {
  let now = 0
  const { take, arrive } = start({ now: () => now, wall: () => now })
  const begun = take(['well', 'stuck'], 30_000)
  await arrive('a', 1)
  expect(await begun).toEqual(['a'])
  // The clock stands still from here on: a fetch that waits for time to pass waits until its own end.
  now += 1_000
  const both = take(['well', 'stuck'], 30_000, 5)
  await arrive('b', 2)
  expect(await both).toEqual(['b'])
}, 20_000)
