import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Delivery } from '../../src/broker/broker.ts'
import type { Connection } from '../../src/broker/connection.ts'
import { Deliveries } from '../../src/broker/deliveries.ts'
import { createNames } from '../../src/broker/names.ts'
import { SILENT_OBSERVER } from '../../src/broker/observer.ts'
import { vhostOfTest } from './fixtures.ts'
import { idsOf, logger, request, startConnection } from './harness.ts'
import { HeldChannels } from './held-channels.ts'

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
  deliveries = new Deliveries({
    connection,
    names: createNames(''),
    clock: { now: () => now, wall: () => now },
    logger,
    random: () => 0.5,
    observer: SILENT_OBSERVER,
    ...{ prefetch: 4, maxBlocks: 2, consumerPriority: 0, idleMs: IDLE_MS, instance: 'test' },
    isReady: () => true,
    isPaused: () => false,
    lookUp: async () => 'exists',
    onQueueGone() {},
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

/** Of both that there would be, if there were two. */
async function taken(): Promise<string[]> {
  return idsOf(await deliveries.take(request(['email'], { count: 2, waitMs: 0 })))
}

function buffered(): unknown {
  return deliveries.gauges().queues[0]?.buffered
}

describe('a delivery', () => {
  it('that is put back twice is there once', async () => {
    const delivery = await leased('a')
    deliveries.putBack([delivery])
    deliveries.putBack([delivery])
    expect(await taken()).toEqual(['a'])
  })

  it('that is parked is not put back, and none that waits is parked', async () => {
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

  it('that is settled where it waits is handed to nobody', async () => {
    const [put, parked] = [await leased('a'), await leased('b')]
    deliveries.putBack([put])
    deliveries.park(parked, null)
    expect([put.ack(), parked.ack()]).toEqual(['settled', 'settled'])
    deliveries.unpark('b')
    expect(await taken()).toEqual([])
  })

  it('that is lost where it waits is handed to nobody', async () => {
    const [put, parked] = [await leased('a'), await leased('b')]
    deliveries.putBack([put])
    deliveries.park(parked, null)
    // Nobody fetches any more: no other consumer takes what comes again.
    now += 2 * IDLE_MS
    const lost = held.channelOf(`consume ${QUEUE}`).checkQueue('none')
    await expect(lost).rejects.toThrow('NOT_FOUND')
    await expect.poll(async () => (await admin.channel.checkQueue(QUEUE)).messageCount).toBe(2)
    deliveries.unpark('b')
    expect([buffered(), put.ack(), parked.ack()]).toEqual([0, 'lost', 'lost'])
  })
})

it('a fetch that waits for long keeps its consumer', async () => {
  const fetched = deliveries.take(request(['email'], { waitMs: 30_000 }))
  await expect.poll(async () => (await admin.channel.checkQueue(QUEUE)).consumerCount).toBe(1)
  now += 2 * IDLE_MS
  vi.advanceTimersByTime(SWEEP_MS)
  await admin.publish(QUEUE, ['a'])
  expect(idsOf(await fetched)).toEqual(['a'])
  expect(held.times(`consume ${QUEUE}`)).toBe(1)
})
