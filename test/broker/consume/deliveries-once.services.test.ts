import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Delivery } from '../../../src/broker/broker.ts'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import type { Deliveries } from '../../../src/broker/consume/deliveries.ts'
import { vhostOfTest } from '../fixtures.ts'
import { deliveriesOn, idsOf, request, startConnection } from '../harness.ts'
import { HeldChannels } from '../held-channels.ts'

const { vhost, admin } = vhostOfTest()

const QUEUE = 'ojs.queue.email'
const IDLE_MS = 2_000
const SWEEP_MS = 500

let held: HeldChannels
let connection: Connection
let now: number
let deliveries: Deliveries
beforeEach(async () => {
  held = new HeldChannels()
  await admin.channel.assertQueue(QUEUE)
  connection = await startConnection(vhost.url, { name: 'consume', random: () => 0 })
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  now = 1_000_000
  deliveries = deliveriesOn(connection, {
    clock: { now: () => now, wall: () => now },
    ...{ prefetch: 4, maxConsumerChannels: 2, idleMs: IDLE_MS },
  })
  deliveries.start()
  deliveries.resume()
  onTestFinished(async () => {
    await deliveries.stop()
    vi.useRealTimers()
    await connection.close()
  })
})

async function leased(id: string): Promise<Delivery> {
  await admin.publish(QUEUE, [id])
  const [delivery] = await deliveries.take(request(['email']))
  if (!delivery) throw new Error('nothing came')
  return delivery
}

/** Asks for two, so that a delivery that was stored twice would show. */
async function taken(): Promise<string[]> {
  return idsOf(await deliveries.take(request(['email'], { count: 2, waitMs: 0 })))
}

function buffered(): unknown {
  return deliveries.gauges().queues[0]?.buffered
}

describe('a delivery', () => {
  it('that is put back twice is handed out once', async () => {
    const delivery = await leased('a')
    deliveries.putBack([delivery])
    deliveries.putBack([delivery])
    expect(await taken()).toEqual(['a'])
  })

  it('that was looked at can be taken from between the others, unless it is gone', async () => {
    const first = await leased('a')
    await admin.publish(QUEUE, ['b', 'c', 'd'])
    await expect.poll(buffered).toBe(3)
    const seen = deliveries.peek('email', 2)
    expect(idsOf(seen)).toEqual(['b', 'c'])
    expect(buffered()).toBe(3)
    expect(idsOf(deliveries.takeThese('email', [first, ...seen.slice(1)]))).toEqual(['c'])
    expect(deliveries.takeThese('email', seen.slice(1))).toEqual([])
    expect(await taken()).toEqual(['b', 'd'])
  })

  it('that is parked is not put back, and one in the buffer is not parked', async () => {
    const delivery = await leased('a')
    deliveries.park(delivery, null)
    deliveries.putBack([delivery])
    expect(buffered()).toBe(0)
    deliveries.unpark('a')
    expect(buffered()).toBe(1)
    deliveries.park(delivery, null)
    expect(await taken()).toEqual(['a'])
    deliveries.unpark('a')
    expect(buffered()).toBe(0)
  })

  it('that is settled while it is buffered or parked is handed to nobody', async () => {
    const [put, parked] = [await leased('a'), await leased('b')]
    deliveries.putBack([put])
    deliveries.park(parked, null)
    expect([put.ack(), parked.ack()]).toEqual(['settled', 'settled'])
    deliveries.unpark('b')
    expect(await taken()).toEqual([])
  })

  it('that is lost while it is buffered or parked is handed to nobody', async () => {
    const [put, parked] = [await leased('a'), await leased('b')]
    deliveries.putBack([put])
    deliveries.park(parked, null)
    // The last fetch is so long ago that no other consumer is started to take the redelivered messages.
    now += 2 * IDLE_MS
    const lost = held.channelOf(`consume ${QUEUE}`).checkQueue('none')
    await expect(lost).rejects.toThrow('NOT_FOUND')
    await expect.poll(async () => (await admin.channel.checkQueue(QUEUE)).messageCount).toBe(2)
    deliveries.unpark('b')
    expect([buffered(), put.ack(), parked.ack()]).toEqual([0, 'lost', 'lost'])
  })
})

it('a fetch that waits for longer than idleMs keeps its consumer', async () => {
  const fetched = deliveries.take(request(['email'], { waitMs: 30_000 }))
  await expect.poll(async () => (await admin.channel.checkQueue(QUEUE)).consumerCount).toBe(1)
  now += 2 * IDLE_MS
  vi.advanceTimersByTime(SWEEP_MS)
  await admin.publish(QUEUE, ['a'])
  expect(idsOf(await fetched)).toEqual(['a'])
  expect(held.times(`consume ${QUEUE}`)).toBe(1)
})
