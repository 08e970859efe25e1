import { once } from 'node:events'
import type { Channel } from 'amqplib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { DeadLetterCopy } from '../../../src/broker/broker.ts'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import { sweepQueue } from '../../../src/broker/consume/dead-letter-sweep.ts'
import { vhostForAll } from '../../support/broker/rabbit.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { adminForAll } from '../fixtures.ts'
import { row, startBroker, startConnection, type TestBroker } from '../harness.ts'

const vhost = vhostForAll()
const admin = adminForAll(vhost)
let test: TestBroker
let connection: Connection
let queues = 0

beforeAll(async () => {
  test = await startBroker(vhost.url)
  connection = await startConnection(vhost.url, { name: 'consume' })
})

afterAll(async () => {
  await connection.close()
  await test.stop()
})

function dlx(queue: string): string {
  return `ojs.queue.dlx.${queue}`
}

/** Declares a queue, and puts copies with the ids `0`, `1`, … into its dead letter queue. */
async function queueWith(count: number): Promise<{ queue: string; ids: string[] }> {
  queues += 1
  const queue = `s${queues}`
  expect(await test.broker.ensureQueue(queue)).toBe('ready')
  const ids = Array.from({ length: count }, (_, i) => `${i}`)
  await admin.publish(dlx(queue), ids)
  return { queue, ids }
}

/** Its timeout is so long that no sweep ends early when a busy machine stops in the middle of it. */
function sweep(queue: string, limit: number, isStale: (copy: DeadLetterCopy) => Promise<boolean>) {
  return sweepQueue(connection, dlx(queue), limit, isStale, 15_000)
}

async function readyCount(queue: string): Promise<number> {
  return (await admin.channel.checkQueue(dlx(queue))).messageCount
}

/** Expects these ids in this order. RabbitMQ returns the kept copies a little after the channel closed. */
async function expectLeft(queue: string, ids: readonly string[]): Promise<void> {
  await expect.poll(() => readyCount(queue)).toBe(ids.length)
  expect(await admin.takeAll(dlx(queue))).toEqual(ids)
}

const every = (n: number) => async (copy: DeadLetterCopy) => Number(copy.id) % n === 0
const nothing = async () => false

describe('sweepDeadLetters', () => {
  it('removes the stale copies and leaves the others in order, sweep after sweep', async () => {
    const { queue, ids } = await queueWith(1_500)
    const left = (sweeps: readonly number[]) =>
      ids.filter((id) => sweeps.every((n) => Number(id) % n !== 0))
    expect(await sweep(queue, 10_000, every(3))).toEqual({
      removed: 500,
      kept: 1_000,
      isComplete: true,
    })
    await expect.poll(() => readyCount(queue)).toBe(1_000)
    expect(await sweep(queue, 10_000, every(5))).toEqual({
      removed: 200,
      kept: 800,
      isComplete: true,
    })
    await expectLeft(queue, left([3, 5]))
  })

  it('reads no more than its limit, from the front, and keeps the order', async () => {
    const { queue, ids } = await queueWith(300)
    const seen: string[] = []
    const isStale = async (copy: DeadLetterCopy) => {
      seen.push(copy.id)
      return await every(3)(copy)
    }
    const first = await sweep(queue, 150, isStale)
    expect(first).toEqual({ removed: 50, kept: 100, isComplete: false })
    expect(seen).toEqual(ids.slice(0, 150))
    const rest = ids.filter((id) => Number(id) >= 150 || Number(id) % 3 !== 0)
    // Kept copies return to the front, where a sweep with the same limit finds them again.
    for (let i = 0; i < 2; i++) {
      await expect.poll(() => readyCount(queue)).toBe(250)
      await sweep(queue, 150, nothing)
    }
    await expectLeft(queue, rest)
    expect(await sweep(queue, 0, nothing)).toMatchObject({ kept: 0 })
  })

  it('passes the id, generation and attempt of each copy to isStale', async () => {
    const { queue } = await queueWith(0)
    const job = row({ queue }, { state: 'discarded', attempt: 2, generation: 4 })
    await test.broker.publish(job)
    const seen: DeadLetterCopy[] = []
    const isStale = async (copy: DeadLetterCopy) => seen.push(copy) > 0
    await expect
      .poll(() => test.broker.sweepDeadLetters(queue, 10, isStale))
      .toEqual({ removed: 1, kept: 0, isComplete: true })
    expect(seen).toMatchObject([{ id: job.id, generation: 4, attempt: 2 }])
    await expectLeft(queue, [])
  })

  it('removes nothing from an empty queue, and returns null for a queue that does not exist', async () => {
    const { queue } = await queueWith(0)
    const isStale = () => {
      throw new Error('there is nothing to ask about')
    }
    expect(await test.broker.sweepDeadLetters(queue, 10, isStale)).toEqual({
      removed: 0,
      kept: 0,
      isComplete: true,
    })
    expect(await test.broker.sweepDeadLetters('never-declared', 10, isStale)).toBe(null)
    expect(test.broker.status()).toEqual({ state: 'up' })
    const { channelsActive } = test.broker.gauges()
    await test.broker.sweepDeadLetters(queue, 10, isStale)
    await test.broker.sweepDeadLetters('never-declared', 10, isStale)
    expect(test.broker.gauges().channelsActive).toBe(channelsActive)
  })
})

describe('a sweep that cannot go on', () => {
  it('returns null and asks about no further copy when its connection is lost while one is judged', async () => {
    const proxy = await TcpProxy.start(vhost.url)
    const { queue, ids } = await queueWith(50)
    const connection = await startConnection(proxy.url, { name: 'consume' })
    const channel = await connection.openChannel()
    const closed = once(channel, 'close')
    const asked: string[] = []
    const isStale = async ({ id }: DeadLetterCopy) => {
      asked.push(id)
      if (asked.length === 10) {
        proxy.cut()
        await closed
      }
      return true
    }
    const source = { openChannel: async () => channel }
    expect(await sweepQueue(source, dlx(queue), 100, isStale, 15_000)).toBe(null)
    await expect.poll(() => readyCount(queue)).toBeGreaterThanOrEqual(41)
    expect(asked).toEqual(ids.slice(0, 10))
    await connection.close()
    await proxy.stop()
  })

  it('returns null when it is not known whether a copy is stale', async () => {
    const { queue, ids } = await queueWith(20)
    const isStale = async ({ id }: DeadLetterCopy) => {
      if (id === '9') throw new Error('the ledger cannot be read')
      return false
    }
    expect(await sweep(queue, 100, isStale)).toBe(null)
    await expectLeft(queue, ids)
  })
})

describe('a sweep that gets fewer messages than it has counted', () => {
  /**
   * Another consumer takes the first 20 of 50 copies between the sweep's count and its first delivery.
   * `after` is called with the sweep's own channel when the sweep has looked at the other 30.
   */
  async function sweepRobbed(
    after: (queue: string, channel: Channel) => Promise<unknown>,
    url = vhost.url,
  ) {
    const { queue, ids } = await queueWith(50)
    const thief = await admin.model.createChannel()
    const connection = await startConnection(url, { name: 'consume' })
    const channel = await connection.openChannel()
    const checkQueue = channel.checkQueue.bind(channel)
    channel.checkQueue = async (name) => {
      channel.checkQueue = checkQueue
      const counted = await checkQueue(name)
      for (let i = 0; i < 20; i++) await thief.get(name)
      return counted
    }
    const acted: Promise<unknown>[] = []
    let seen = 0
    const isStale = async (copy: DeadLetterCopy) => {
      seen += 1
      if (seen === 30) acted.push(after(queue, channel))
      return await every(2)(copy)
    }
    const source = { openChannel: async () => channel }
    const swept = await sweepQueue(source, dlx(queue), 100, isStale, 5_000)
    await Promise.all(acted)
    await connection.close()
    await thief.close().catch(() => {})
    return { queue, ids, swept }
  }

  it('ends incomplete', async () => {
    const { queue, ids, swept } = await sweepRobbed(async () => {})
    expect(swept).toEqual({ removed: 15, kept: 15, isComplete: false })
    await expect.poll(() => readyCount(queue)).toBe(35)
    const left = await admin.takeAll(dlx(queue))
    expect(new Set(left)).toEqual(
      new Set(ids.filter((id) => Number(id) < 20 || Number(id) % 2 === 1)),
    )
  })

  it('returns null when its queue is deleted', async () => {
    const { swept } = await sweepRobbed((queue) => admin.channel.deleteQueue(dlx(queue)))
    expect(swept).toBe(null)
  })

  it('returns null when its connection is lost, and what it removed stays removed', async () => {
    const proxy = await TcpProxy.start(vhost.url)
    const { queue, ids, swept } = await sweepRobbed(async (swept, channel) => {
      // Without a nack nothing is redelivered, so the sweep cannot end before the cut on a slow machine.
      channel.nack = () => {}
      // RabbitMQ answers when it has applied the acknowledgements before this request.
      await channel.checkQueue(dlx(swept))
      proxy.cut()
    }, proxy.url)
    await proxy.stop()
    expect(swept).toBe(null)
    // The even ids from 20 to 48 were stale; the last one was not acknowledged yet.
    const left = ids.filter((id) => Number(id) < 20 || Number(id) > 46 || Number(id) % 2 === 1)
    await expect.poll(() => readyCount(queue)).toBe(left.length)
    expect(new Set(await admin.takeAll(dlx(queue)))).toEqual(new Set(left))
  })
})
