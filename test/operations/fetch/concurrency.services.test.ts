import { beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../support/gateway/in-process.ts'
import { ack, eventsOf, fetchMany, fetchOne, freshQueue, gatewayForAll, nack } from '../harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

describe('options.concurrency', () => {
  const { gateway } = gatewayForAll()
  let queue = ''
  let key = ''
  beforeEach(() => {
    queue = freshQueue()
    key = `key of ${queue} ü`
  })
  const push = async (concurrency: object = { key, limit: 1 }, over: Json = {}) => {
    const { options, ...others } = over
    const body = { options: { concurrency, ...options }, ...others }
    const answer = await gateway.push(others.queue ?? queue, body)
    expect(answer.status, JSON.stringify(answer.body)).toBe(201)
    return answer.body.job
  }
  const jobOf = async ({ id }: Json) => (await gateway.get(id)).body.job
  /** What a FETCH that waits does not get: nothing else is there. */
  const nothing = async (queues = [queue]) =>
    expect(await gateway.fetch(queues, { count: 10, wait_ms: 300 })).toEqual([])
  const statsOf = async (name = queue) =>
    (await gateway.request('GET', `/ojs/v1/queues/${name}/stats`)).body.stats

  it('runs at most `limit` jobs of a key at once, and the next one when one of them ends', async () => {
    const jobs = []
    for (let i = 0; i < 5; i++) jobs.push(await push({ key, limit: 2 }))
    const first = await fetchMany(gateway, queue, 2)
    await nothing()
    expect(first.map(({ id }) => id)).toEqual(jobs.slice(0, 2).map(({ id }) => id))
    await ack(gateway, first[0].id)
    const third = await fetchOne(gateway, queue)
    expect(third.id).toBe(jobs[2].id)
    await nothing()
    await ack(gateway, first[1].id)
    await ack(gateway, third.id)
    const last = await fetchMany(gateway, queue, 2)
    expect(last.map(({ id }) => id)).toEqual(jobs.slice(3).map(({ id }) => id))
  })

  it('says of each job that it holds back why, and counts it', async () => {
    await push()
    const held = await push()
    expect(held).toMatchObject({ state: 'available', held_by: { concurrency: key } })
    expect(await jobOf(held)).toMatchObject({
      ...{ state: 'available', held_by: { concurrency: key }, concurrency: { key, limit: 1 } },
    })
    expect(await statsOf()).toMatchObject({ available: 2, held: 1 })
    const { body } = await gateway.request('GET', '/metrics')
    expect(body).toContain(`ojs_queue_held{queue="${queue}"} 1\n`)
    expect(body).toContain(`ojs_job_held_total{queue="${queue}"} 1\n`)
    const running = await fetchOne(gateway, queue)
    expect(running.held_by).toBeUndefined()
    await ack(gateway, running.id)
    expect((await fetchOne(gateway, queue)).id).toBe(held.id)
    expect(await statsOf()).toMatchObject({ available: 0, active: 1, held: 0 })
  })

  it('RL-005: is in the list of limits, with those that run and those that wait', async () => {
    const at = `/ojs/v1/rate-limits/${encodeURIComponent(key)}`
    const limitOf = async () => (await gateway.request('GET', at)).body
    expect((await gateway.request('GET', at)).status).toBe(404)
    for (let i = 0; i < 4; i++) await push({ key, limit: 2 })
    const standing = { key, waiting_count: 2, waiting: 2, limit: 2 }
    expect(await limitOf()).toEqual({
      ...{ ...standing, active: 0 },
      concurrency: { limit: 2, active: 0, available: 2 },
    })
    const jobs = await fetchMany(gateway, queue, 2)
    const full = { ...standing, active: 2, concurrency: { limit: 2, active: 2, available: 0 } }
    expect(await limitOf()).toEqual(full)
    const list = await gateway.request('GET', '/ojs/v1/rate-limits?per_page=100')
    expect(list.body.items).toContainEqual(full)
    expect(list.body.pagination).toMatchObject({ per_page: 100, has_more: false })
    const page = await gateway.request('GET', '/ojs/v1/rate-limits?limit=1&offset=0')
    expect(page.body.items).toHaveLength(1)
    expect(page.body.pagination.total).toBe(list.body.items.length)
    for (const { id } of jobs) await ack(gateway, id)
  })

  it('shares the limit among jobs of the same type and queue, if they name no key', async () => {
    await push({ limit: 1 })
    expect(await push({ limit: 1 })).toMatchObject({
      held_by: { concurrency: `queue:${queue}:type:test.job` },
      concurrency: { limit: 1 },
    })
    expect((await push({ limit: 1 }, { type: 'other' })).held_by).toBeUndefined()
    expect((await push({ limit: 1 }, { queue: freshQueue() })).held_by).toBeUndefined()
  })

  it('serves other jobs of the queue at once, behind a flood of one key', async () => {
    const jobs = Array.from({ length: 300 }, (_, i) => ({
      ...{ type: 'flood', args: [i], options: { queue, concurrency: { key, limit: 1 } } },
    }))
    expect((await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })).status).toBe(201)
    const other = await push({ key: `${key} 2`, limit: 1 })
    const plain = await push(undefined, { options: { concurrency: null } })
    const seen = await fetchMany(gateway, queue, 3)
    expect(seen.map(({ id }) => id).slice(1)).toEqual([other.id, plain.id])
    await nothing()
    expect(await statsOf()).toMatchObject({ available: 299, held: 299, active: 3 })
  })

  it('lets a queue work while no worker takes the jobs of another queue with the same key', async () => {
    const idle = freshQueue()
    await push({ key, limit: 1 }, { queue: idle })
    for (let i = 0; i < 3; i++) await push({ key, limit: 1 })
    for (let i = 0; i < 3; i++) await ack(gateway, (await fetchOne(gateway, queue)).id)
    await ack(gateway, (await fetchOne(gateway, idle)).id)
  })

  it('is exact over several queues', async () => {
    const queues = [queue, freshQueue(), freshQueue()]
    for (let i = 0; i < 9; i++) await push({ key, limit: 2 }, { queue: queues[i % 3] })
    let [most, done] = [0, 0]
    const running = new Set<string>()
    while (done < 9) {
      const jobs = await gateway.fetch(queues, { count: 10, wait_ms: 2_000 })
      for (const { id } of jobs) running.add(id)
      most = Math.max(most, running.size)
      const [first] = running
      if (first === undefined) continue
      await ack(gateway, first)
      running.delete(first)
      done += 1
    }
    expect(most).toBe(2)
  })

  it('counts no job that waits for its retry, and holds the retry back', async () => {
    const retry = { max_attempts: 3, initial_interval_ms: 200, jitter: false }
    const first = await push({ key, limit: 1 }, { options: { retry } })
    const second = await push()
    await fetchOne(gateway, queue)
    await nack(gateway, first.id)
    expect((await fetchOne(gateway, queue)).id).toBe(second.id)
    await eventually(async () => {
      await gateway.fetch([queue], { wait_ms: 100 })
      return (await jobOf(first)).held_by !== undefined
    })
    expect(await jobOf(first)).toMatchObject({ state: 'available', attempt: 1 })
    await ack(gateway, second.id)
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: first.id, attempt: 2 })
  })

  it('frees the place of a job that is cancelled, running or not, and of one whose lease ran out', async () => {
    const [a, b, c, d] = [await push(), await push(), await push(), await push()]
    expect((await fetchOne(gateway, queue)).id).toBe(a.id)
    await gateway.cancel(b.id)
    await gateway.cancel(a.id)
    const again = await fetchOne(gateway, queue, { visibility_timeout_ms: 200 })
    expect(again.id).toBe(c.id)
    // It has waited longest, so that it is next again.
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: c.id, attempt: 2 })
    await ack(gateway, c.id)
    expect((await fetchOne(gateway, queue)).id).toBe(d.id)
  })

  it('takes back what NACK requeues', async () => {
    const [a, b] = [await push(), await push()]
    expect((await fetchOne(gateway, queue)).id).toBe(a.id)
    await nack(gateway, a.id, {}, { requeue: true })
    expect(await fetchOne(gateway, queue)).toMatchObject({ id: a.id, attempt: 1 })
    await ack(gateway, a.id)
    expect((await fetchOne(gateway, queue)).id).toBe(b.id)
  })

  it('holds scheduled jobs back when they are due, and those that are activated', async () => {
    const pending = await push({ key, limit: 1 }, { options: { pending: true } })
    expect(pending.held_by).toBeUndefined()
    const due = new Date(Date.now() + 500).toISOString()
    const scheduled = await push({ key, limit: 1 }, { options: { delay_until: due } })
    await push()
    await eventually(async () => (await jobOf(scheduled)).held_by !== undefined)
    const { body } = await gateway.request('POST', `/ojs/v1/jobs/${pending.id}/activate`)
    expect(body.job, JSON.stringify(body)).toMatchObject({
      ...{ state: 'available', held_by: { concurrency: key } },
    })
    const told = await eventsOf(gateway, queue, pending.id)
    expect(told.at(-1).type).toBe('job.enqueued')
  })

  it('keeps the policy of copies, of retried dead letters, and of the steps of workflows', async () => {
    const concurrency = { key, limit: 1 }
    const dead = await push(concurrency, { options: { max_attempts: 1 } })
    await fetchOne(gateway, queue)
    await nack(gateway, dead.id)
    const running = await push()
    await fetchOne(gateway, queue)
    const retried = await gateway.request('POST', `/ojs/v1/dead-letter/${dead.id}/retry`)
    expect(retried.body.job, JSON.stringify(retried.body)).toMatchObject({
      ...{ held_by: { concurrency: key }, concurrency },
    })
    const workflow = await gateway.request('POST', '/ojs/v1/workflows', {
      ...{ name: 'w', type: 'group' },
      jobs: [{ type: 'step', args: [], options: { queue, concurrency } }],
    })
    expect(workflow.status, JSON.stringify(workflow.body)).toBe(201)
    expect(await statsOf()).toMatchObject({ held: 2 })
    await ack(gateway, running.id)
    expect((await fetchOne(gateway, queue)).id).toBe(dead.id)
    await ack(gateway, dead.id)
    expect((await fetchOne(gateway, queue)).type).toBe('step')
  })

  it('tests each job with its own limit', async () => {
    await push({ key, limit: 3 })
    await push({ key, limit: 3 })
    await fetchMany(gateway, queue, 2)
    expect((await push({ key, limit: 2 })).held_by).toEqual({ concurrency: key })
    await gateway.cancel((await push({ key, limit: 3 })).id)
  })

  it('RL-001, RL-002: the `concurrency` of a `rate_limit` with a key is the same', async () => {
    const rate_limit = { key, concurrency: 1 }
    const first = await push(null as never, { options: { rate_limit } })
    expect(first).toMatchObject({ rate_limit })
    expect(await push()).toMatchObject({ held_by: { concurrency: key } })
    expect(await push(null as never, { options: { rate_limit } })).toMatchObject({
      held_by: { concurrency: key },
    })
    // Its own option wins.
    const both = await push({ key: `${key} 2`, limit: 1 }, { options: { rate_limit } })
    expect(both.held_by).toBeUndefined()
  })

  it.each([
    ['no limit', { key: 'k' }, 'options.concurrency.limit'],
    ['a limit of 0', { limit: 0 }, 'options.concurrency.limit'],
    ['a limit of 10,001', { limit: 10_001 }, 'options.concurrency.limit'],
    ['a limit that is a text', { limit: '3' }, 'options.concurrency.limit'],
    ['a limit that is a fraction', { limit: 1.5 }, 'options.concurrency.limit'],
    ['an empty key', { key: '', limit: 1 }, 'options.concurrency.key'],
    ['a key of 256 characters', { key: 'k'.repeat(256), limit: 1 }, 'options.concurrency.key'],
    ['a key that is a number', { key: 7, limit: 1 }, 'options.concurrency.key'],
    ['a key with a NUL', { key: 'a\0b', limit: 1 }, 'options.concurrency.key'],
    ['another member', { limit: 1, scope: 'q' }, 'options.concurrency.scope'],
    ['a number', 5, 'options.concurrency'],
  ])('refuses %s', async (_, concurrency, field) => {
    const { status, body } = await gateway.push(queue, { options: { concurrency } })
    expect([status, body.error?.details?.field], JSON.stringify(body)).toEqual([400, field])
  })
})
