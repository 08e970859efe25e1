import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { fetchMany, freshQueue, gatewayForAll, untilBuffered } from './harness.ts'

const BACKLOG = 1_000
/** What a consumer of the gateway may have buffered. */
const BUFFERED = 32

describe.each(['classic', 'quorum'])('priorities in %s queues', (queueType) => {
  const { gateway } = gatewayForAll({ OJS_QUEUE_TYPE: queueType }, { idleMs: 600_000 })

  const pushAll = async (queue: string, priorities: readonly (number | string)[]) => {
    for (let from = 0; from < priorities.length; from += 1_000) {
      const jobs = priorities.slice(from, from + 1_000).map((priority) => ({
        type: 'test.job',
        args: [],
        options: { queue, priority },
      }))
      const { status } = await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })
      expect(status).toBe(201)
    }
  }
  const fetchAll = async (queue: string, count: number) => {
    const jobs = await fetchMany(gateway, queue, count, { count: 1 })
    return jobs.map(({ priority }): number => priority)
  }

  it('are in the order of FETCH, exactly, as far as it has buffered', async () => {
    const queue = freshQueue()
    const given = [0, -100, 9, 10, -1, 100, 5, -10, 11, 1, -99, 99, 'HIGH', 'NORMAL', 'LOW']
    await pushAll(queue, given)
    const values = given.map(
      (priority) => ({ HIGH: 10, NORMAL: 0, LOW: -10 })[priority] ?? priority,
    )
    const expected = values.map(Number).sort((a, b) => b - a)
    // The first FETCH may come before the rest is here.
    await untilBuffered(gateway, queue, given.length)
    expect(await fetchAll(queue, given.length)).toEqual(expected)
  })

  it('of the same level are served in the order of arrival', async () => {
    const queue = freshQueue()
    const ids: string[] = []
    for (let i = 0; i < 10; i++) {
      const { body } = await gateway.push(queue, { options: { priority: 3 } })
      ids.push(body.job.id)
    }
    const seen = await fetchMany(gateway, queue, ids.length, { count: 1 })
    expect(seen.map(({ id }) => id)).toEqual(ids)
  })

  it('of the same level keep the order of a batch that several consumers bring', async () => {
    const queue = freshQueue()
    const batch = (count: number) =>
      gateway.request('POST', '/ojs/v1/jobs/batch', {
        jobs: Array.from({ length: count }, (_, n) => ({
          type: 't',
          args: [n],
          options: { queue },
        })),
      })
    const fetched = async (count: number) => await gateway.fetch([queue], { count, wait_ms: 5_000 })
    // More than one consumer is given: there are two from now on.
    await batch(40)
    const held: { id: string }[] = []
    while (held.length < 40) held.push(...(await fetched(10)))
    for (const { id } of held) await gateway.ack(id)
    const seen: number[][] = []
    const exact = () => seen.filter((order) => order.every((n, i) => n === i)).length
    while (exact() < 3 && seen.length < 10) {
      // One consumer overtakes the other where the machine pauses, and a FETCH then waits for none for 1 s.
      if (exact() < seen.length) await sleep(1_000)
      await batch(30)
      const order: number[] = []
      while (order.length < 30) {
        for (const { id, args } of await fetched(1)) {
          order.push(args[0])
          await gateway.ack(id)
        }
      }
      seen.push(order)
    }
    expect(exact(), JSON.stringify(seen)).toBe(3)
  })

  it('let a later job overtake a backlog as far as the broker orders, but for what is buffered', async () => {
    const queue = freshQueue()
    const isOrdered = queueType === 'classic'
    await pushAll(queue, Array(isOrdered ? BACKLOG : 2 * BUFFERED).fill(0))
    expect(await fetchAll(queue, 1)).toEqual([0])
    await pushAll(queue, [5, 9])
    const served = await fetchAll(queue, 2 * BUFFERED + 1)
    const places = [served.indexOf(9), served.indexOf(5)]
    if (isOrdered) {
      expect(Math.min(...places)).toBeGreaterThanOrEqual(0)
      expect(Math.max(...places)).toBeLessThanOrEqual(BUFFERED + 1)
      expect(places[0]).toBeLessThan(places[1] ?? 0)
    } else {
      // In a quorum queue they are behind it until they are buffered, and then first.
      expect(Math.min(...places)).toBeGreaterThan(0)
    }
  })

  it('are what the manifest says of them', async () => {
    const { body } = await gateway.request('GET', '/ojs/manifest')
    expect(body.capabilities).toMatchObject({ priority_queues: true, pause_resume: true })
    const levels = {
      classic: /^In classic queues of this RabbitMQ: 10 levels .*, strictly\. FETCH orders exactly/,
      quorum: /^In quorum queues of this RabbitMQ: (by arrival|2 levels|10 levels)/,
    }
    expect(body.extension_details.priority).toMatch(
      queueType === 'classic' ? levels.classic : levels.quorum,
    )
  })
})
