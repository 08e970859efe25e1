import { beforeEach, describe, expect, it } from 'vitest'
import { inOrder } from '../../support/broker/order.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { leastOfThree } from '../../support/time/stopwatch.ts'
import { fetchMany, freshQueue, gatewayForAll, nack, withChannel } from '../harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const LONG = { rate_limit: { max_per_second: 0.01 } }

describe('options.rate_limit', () => {
  const { vhost, gateway } = gatewayForAll()
  let queue = ''
  beforeEach(() => {
    queue = freshQueue()
  })
  const pushed = async (options: object, over: object = {}) => {
    const { status, body } = await gateway.push(queue, { options, ...over })
    expect(status, JSON.stringify(body)).toBe(201)
    return body.job
  }
  const fetched = async (over: object = {}) => {
    const jobs = await gateway.fetch([queue], { count: 10, wait_ms: 300, ...over })
    return jobs.map(({ id }) => id)
  }

  it('starts at most max_per_second jobs within a second, and the others later', async () => {
    const options = { rate_limit: { max_per_second: 2 } }
    const betweenFirstTwo = async () => {
      queue = freshQueue()
      const ids: string[] = []
      for (let i = 0; i < 5; i++) ids.push((await pushed(options)).id)
      const jobs = await fetchMany(gateway, queue, 5)
      expect(jobs.map(({ id }) => id)).toEqual(ids)
      const [a = 0, b = 0, ...later] = jobs.map((job) => Date.parse(job.started_at))
      // Never three within a second. 950 ms, since the limit counts a start a moment before `started_at`.
      for (const [i, third] of later.entries()) {
        expect(third - ([a, b, ...later][i] ?? 0)).toBeGreaterThanOrEqual(950)
      }
      return b - a
    }
    expect(await leastOfThree(betweenFirstTwo, 900)).toBeLessThan(900)
  })

  it('starts a job of a higher priority before others that already wait for the limit', async () => {
    // Five seconds between two starts, so that a slow machine too sees that no job starts meanwhile.
    const options = { rate_limit: { max_per_second: 0.2 } }
    for (let i = 0; i < 4; i++) await pushed(options)
    expect(await fetched({ wait_ms: 15_000 })).toHaveLength(1)
    expect(await fetched({ wait_ms: 0 })).toEqual([])
    const { id } = await pushed({ ...options, priority: 50 })
    expect(await fetched({ wait_ms: 15_000 })).toEqual([id])
  })

  it('is told, with the starts within its period and the jobs that wait', async () => {
    await pushed(LONG)
    await pushed(LONG)
    expect(await fetched({ wait_ms: 15_000 })).toHaveLength(1)
    const at = `/ojs/v1/rate-limits/queue:${queue}`
    await eventually(async () => {
      // Waits from the first FETCH on that has seen it.
      expect(await fetched({ wait_ms: 0 })).toEqual([])
      return (await gateway.request('GET', at)).body.waiting === 1
    })
    expect((await gateway.request('GET', at)).body).toEqual({
      ...{ key: `queue:${queue}`, limit: 1, period: 'PT100S', active: 0 },
      rate: {
        ...{ limit: 1, period: 'PT100S', current_count: 1, window_resets_at: expect.any(String) },
      },
      ...{ waiting: 1, waiting_count: 1 },
    })
    const list = await gateway.request('GET', '/ojs/v1/rate-limits?per_page=100')
    expect(list.body.items.map(({ key }: Json) => key)).toContain(`queue:${queue}`)
  })

  it('is part of the job in the answers of PUSH and INFO', async () => {
    const { id, rate_limit: shown } = await pushed(LONG)
    expect(shown).toEqual(LONG.rate_limit)
    expect((await gateway.get(id)).body.job.rate_limit).toEqual(LONG.rate_limit)
  })

  it('does not hold up jobs behind 70 limited ones, which is more than a consumer may hold', async () => {
    const jobs = Array.from({ length: 70 }, (_, i) => ({
      type: 'limited',
      args: [i],
      options: { queue, ...LONG },
    }))
    await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })
    const plain = await pushed({})
    // The limit is that of the queue: the job of another type waits too.
    await pushed(LONG)
    const seen: string[] = []
    while (seen.length < 2) seen.push(...(await fetched({ wait_ms: 10_000 })))
    const types = await Promise.all(seen.map(async (id) => (await gateway.get(id)).body.job.type))
    expect(inOrder(types)).toEqual(['limited', 'test.job'])
    expect(seen).toContain(plain.id)
    expect(await fetched()).toEqual([])
    const { body } = await gateway.request('GET', `/ojs/v1/queues/${queue}/stats`)
    expect(body.stats).toMatchObject({ available: 70, active: 2 })
  })

  it('counts the start of a requeued job again', async () => {
    const { id } = await pushed(LONG)
    expect(await fetched({ wait_ms: 15_000 })).toEqual([id])
    await nack(gateway, id, {}, { requeue: true })
    expect(await fetched()).toEqual([])
  })

  it('does not count a cancelled job', async () => {
    const cancelled = await pushed(LONG)
    await gateway.cancel(cancelled.id)
    const { id } = await pushed(LONG)
    expect(await fetched({ wait_ms: 15_000 })).toEqual([id])
  })

  it('applies to native jobs, but not to those that have rate_limit only in their args', async () => {
    const native = (id: string, envelope: object) => ({
      specversion: '1.0',
      id,
      type: 'native',
      queue,
      args: [{ rate_limit: { max_per_second: 0.01 } }],
      ...envelope,
    })
    await pushed({ pending: true })
    const id = (n: number) => `019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d${n}`
    const jobs: Json[] = [native(id(1), {}), native(id(2), {}), native(id(3), LONG)]
    await withChannel(vhost.url, async (channel) => {
      for (const job of [...jobs, native(id(4), LONG)]) {
        const options = { messageId: job.id, type: job.type }
        channel.publish('ojs.exchange.direct', queue, Buffer.from(JSON.stringify(job)), options)
      }
      await channel.waitForConfirms()
    })
    const seen: string[] = []
    while (seen.length < 3) seen.push(...(await fetched({ wait_ms: 10_000 })))
    expect(seen).toEqual(jobs.map((job) => job.id))
    expect(await fetched()).toEqual([])
  })

  it.each([0, -1, 'fast'])('with max_per_second %s is refused with 400', async (max_per_second) => {
    const { status, body } = await gateway.push(queue, {
      options: { rate_limit: { max_per_second } },
    })
    expect(status).toBe(400)
    expect(body.error.details.field).toBe('options.rate_limit.max_per_second')
  })
})
