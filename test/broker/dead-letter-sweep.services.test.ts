import type { Channel } from 'amqplib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { DeadLetterCopy } from '../../src/broker/broker.ts'
import type { Connection } from '../../src/broker/connection.ts'
import { sweepQueue } from '../../src/broker/dead-letter-sweep.ts'
import { createVhost, type Vhost } from '../support/rabbit.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import {
  type Admin,
  connectAdmin,
  row,
  startBroker,
  startConnection,
  type TestBroker,
} from './harness.ts'

let vhost: Vhost
let admin: Admin
let test: TestBroker
let connection: Connection
let queues = 0

beforeAll(async () => {
  vhost = await createVhost()
  admin = await connectAdmin(vhost.url)
  test = await startBroker(vhost.url)
  connection = await startConnection(vhost.url, { name: 'consume' })
})

afterAll(async () => {
  await connection.close()
  await test.stop()
  await admin.close()
  await vhost.drop()
})

function dlx(queue: string): string {
  return `ojs.queue.dlx.${queue}`
}

/** A dead letter queue of its own with copies `0`, `1`, … in it. */
async function queueWith(count: number): Promise<{ queue: string; ids: string[] }> {
  queues += 1
  const queue = `s${queues}`
  expect(await test.broker.ensureQueue(queue)).toBe('ready')
  const ids = Array.from({ length: count }, (_, i) => `${i}`)
  await admin.publish(dlx(queue), ids)
  return { queue, ids }
}

/** None ends early because a busy machine stopped in the middle of it. */
function sweep(queue: string, limit: number, isStale: (copy: DeadLetterCopy) => boolean) {
  return sweepQueue(connection, dlx(queue), limit, isStale, 15_000)
}

async function readyCount(queue: string): Promise<number> {
  return (await admin.channel.checkQueue(dlx(queue))).messageCount
}

/** What is left, in order; the channel of a sweep is seen dead a little after it was closed. */
async function expectLeft(queue: string, ids: readonly string[]): Promise<void> {
  await expect.poll(() => readyCount(queue)).toBe(ids.length)
  expect(await admin.takeAll(dlx(queue))).toEqual(ids)
}

const every = (n: number) => (copy: DeadLetterCopy) => Number(copy.id) % n === 0
const nothing = () => false

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

  it('reads no more than its limit, from the front, and keeps the order then too', async () => {
    const { queue, ids } = await queueWith(300)
    const seen: string[] = []
    const isStale = (copy: DeadLetterCopy) => {
      seen.push(copy.id)
      return every(3)(copy)
    }
    const first = await sweep(queue, 150, isStale)
    expect(first).toEqual({ removed: 50, kept: 100, isComplete: false })
    expect(seen).toEqual(ids.slice(0, 150))
    const rest = ids.filter((id) => Number(id) >= 150 || Number(id) % 3 !== 0)
    // What comes back stands in front, where the same limit finds all of it again.
    for (let i = 0; i < 2; i++) {
      await expect.poll(() => readyCount(queue)).toBe(250)
      await sweep(queue, 150, nothing)
    }
    await expectLeft(queue, rest)
    expect(await sweep(queue, 0, nothing)).toMatchObject({ kept: 0 })
  })

  it('tells of each copy its id, its generation and its attempt', async () => {
    const { queue } = await queueWith(0)
    const job = row({ queue }, { state: 'discarded', attempt: 2, generation: 4 })
    await test.broker.publish(job)
    const seen: DeadLetterCopy[] = []
    const isStale = (copy: DeadLetterCopy) => seen.push(copy) > 0
    await expect
      .poll(() => test.broker.sweepDeadLetters(queue, 10, isStale))
      .toEqual({ removed: 1, kept: 0, isComplete: true })
    expect(seen).toMatchObject([{ id: job.id, generation: 4, attempt: 2 }])
    await expectLeft(queue, [])
  })

  it('has nothing to do in an empty queue, and none in a queue that is not there', async () => {
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

describe('a sweep that does not get what it has counted', () => {
  /**
   * Somebody else gets the first 20 of 50 between its count and its first delivery; `after` comes
   * when it has looked at the other 30, with the sweep's own channel.
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
    const isStale = (copy: DeadLetterCopy) => {
      seen += 1
      if (seen === 30) acted.push(after(queue, channel))
      return every(2)(copy)
    }
    const source = { openChannel: async () => channel }
    const swept = await sweepQueue(source, dlx(queue), 100, isStale, 5_000)
    await Promise.all(acted)
    await connection.close()
    await thief.close().catch(() => {})
    return { queue, ids, swept }
  }

  it('ends, incomplete', async () => {
    const { queue, ids, swept } = await sweepRobbed(async () => {})
    expect(swept).toEqual({ removed: 15, kept: 15, isComplete: false })
    await expect.poll(() => readyCount(queue)).toBe(35)
    const left = await admin.takeAll(dlx(queue))
    expect(new Set(left)).toEqual(
      new Set(ids.filter((id) => Number(id) < 20 || Number(id) % 2 === 1)),
    )
  })

  it('is given up when its queue is deleted', async () => {
    const { swept } = await sweepRobbed((queue) => admin.channel.deleteQueue(dlx(queue)))
    expect(swept).toBe(null)
  })

  it('is given up with its connection; what was removed stays so', async () => {
    const proxy = await TcpProxy.start(vhost.url)
    const { queue, ids, swept } = await sweepRobbed(async (swept, channel) => {
      // However long this machine stalls: nothing comes again, so the sweep cannot end before the cut.
      channel.nack = () => {}
      // Its answer comes when the acknowledgements before it are applied.
      await channel.checkQueue(dlx(swept))
      proxy.cut()
    }, proxy.url)
    await proxy.stop()
    expect(swept).toBe(null)
    // 20 to 48 by twos were stale; the last of them was not acknowledged yet.
    const left = ids.filter((id) => Number(id) < 20 || Number(id) > 46 || Number(id) % 2 === 1)
    await expect.poll(() => readyCount(queue)).toBe(left.length)
    expect(new Set(await admin.takeAll(dlx(queue)))).toEqual(new Set(left))
  })
})
