import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { fetchMany, freshQueue, gatewayForAll, untilBuffered } from '../harness.ts'

const BACKLOG = 1_000
/** How many deliveries a consumer of the gateway may buffer. */
const BUFFERED = 32

describe.each(['classic', 'quorum'])('job priorities in %s queues', (queueType) => {
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

  it('order the buffered jobs exactly: FETCH answers the highest priority first', async () => {
    const queue = freshQueue()
    const given = [0, -100, 9, 10, -1, 100, 5, -10, 11, 1, -99, 99, 'HIGH', 'NORMAL', 'LOW']
    await pushAll(queue, given)
    const values = given.map(
      (priority) => ({ HIGH: 10, NORMAL: 0, LOW: -10 })[priority] ?? priority,
    )
    const expected = values.map(Number).sort((a, b) => b - a)
    // Otherwise the first FETCH might come before all jobs are buffered.
    await untilBuffered(gateway, queue, given.length)
    expect(await fetchAll(queue, given.length)).toEqual(expected)
  })

  it('keep the order of arrival among jobs of the same priority', async () => {
    const queue = freshQueue()
    const ids: string[] = []
    for (let i = 0; i < 10; i++) {
      const { body } = await gateway.push(queue, { options: { priority: 3 } })
      ids.push(body.job.id)
    }
    const seen = await fetchMany(gateway, queue, ids.length, { count: 1 })
    expect(seen.map(({ id }) => id)).toEqual(ids)
  })

  it('keep the order of a batch of one priority that two consumers deliver', async () => {
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
    // More than one consumer may hold, so that the queue has two consumers from now on.
    await batch(40)
    const held: { id: string }[] = []
    while (held.length < 40) held.push(...(await fetched(10)))
    for (const { id } of held) await gateway.ack(id)
    const seen: number[][] = []
    const exact = () => seen.filter((order) => order.every((n, i) => n === i)).length
    while (exact() < 3 && seen.length < 10) {
      // When the machine pauses, one consumer overtakes the other, and FETCH gathers nothing for 1 s.
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

  it('let a later job overtake a classic queue’s backlog, except for the jobs already buffered', async () => {
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
      // In a quorum queue they stay behind the backlog until they are buffered, and then come first.
      expect(Math.min(...places)).toBeGreaterThan(0)
    }
  })

  it('are described in the manifest as the queue type supports them', async () => {
    const { body } = await gateway.request('GET', '/ojs/manifest')
    expect(body.capabilities).toMatchObject({ priority_queues: true, pause_resume: true })
    const levels = {
      classic: /^In classic queues of this RabbitMQ: 10 levels .*, strictly\. FETCH sorts the jobs/,
      quorum: /^In quorum queues of this RabbitMQ: (by arrival|2 levels|10 levels)/,
    }
    expect(body.extension_details.priority).toMatch(
      queueType === 'classic' ? levels.classic : levels.quorum,
    )
  })
})
