import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import {
  HttpTransport,
  InMemoryTransport,
  type Job,
  OJSClient,
  type OJSEvent,
  OJSNotFoundError,
  OJSUnsupportedError,
  OJSValidationError,
} from '../../../src/sdk/index.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { freshQueue, serverForAll } from '../server.ts'

const server = serverForAll()
let client: OJSClient
let queue: string
beforeEach(() => {
  client = new OJSClient({ url: server.url })
  queue = freshQueue()
})

function enqueued(count: number, options: object = {}): Promise<Job[]> {
  const job = (n: number) => ({ type: 'steer.me', args: [n], options: { queue, ...options } })
  return client.enqueueBatch(Array.from({ length: count }, (_, n) => job(n)))
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}

describe('jobs', () => {
  test('list() reads every job over the pages', async () => {
    const jobs = await enqueued(25)
    const found = await all(client.jobs.list({ queue, limit: 10, order: 'asc' }))
    expect(found.map(({ id }) => id)).toEqual(jobs.map(({ id }) => id))
    const page = await client.jobs.page({ queue, limit: 10 })
    expect(page.jobs).toHaveLength(10)
    expect(page.pagination).toMatchObject({ total: 25, has_more: true })
  })

  test('list() finds a job behind thousands that do not match', async () => {
    const at = '2099-01-01T00:00:00Z'
    const job = (n: number) => ({ type: 'a', args: [n], options: { queue, delay_until: at } })
    const [only] = await client.enqueueBatch([job(-1)])
    for (let i = 0; i < 4_000; i += 500)
      await client.enqueueBatch(Array.from({ length: 500 }, (_, n) => job(i + n)))
    const page = await client.jobs.page({ queue, args: [-1] })
    expect(page).toMatchObject({
      jobs: [],
      pagination: {
        ...{
          total: 0,
          total_is_lower_bound: true,
          has_more: true,
          next_cursor: expect.any(String),
        },
        ...{ search_is_partial: true, searched: 4_000 },
      },
    })
    const found = await all(client.jobs.list({ queue, args: [-1] }))
    expect(found.map(({ id }) => id)).toEqual([only?.id])
  }, 120_000)

  test('a filter means what it says', async () => {
    const [first, second] = await enqueued(2, { tags: ['a', 'b'], meta: { tenant: 'x y', n: 1 } })
    await client.enqueue('other.type', [], { queue })
    const ids = async (filter: object) =>
      (await all(client.jobs.list({ queue, order: 'asc', ...filter }))).map(({ id }) => id)
    const both = [first?.id, second?.id]
    expect(await ids({ type: 'steer.*' })).toEqual(both)
    expect(await ids({ tag: ['a', 'b'] })).toEqual(both)
    expect(await ids({ meta: { tenant: 'x y', n: 1 } })).toEqual(both)
    expect(await ids({ args: [1] })).toEqual([second?.id])
    expect(await ids({ id: both })).toEqual(both)
    expect(await ids({ state: 'completed' })).toEqual([])
    expect(await ids({ since: new Date(Date.now() + 60_000) })).toEqual([])
    expect(await ids({ until: new Date(Date.now() + 60_000), type: 'steer.me' })).toEqual(both)
  })

  test('a filter that nobody knows is a mistake, not a wider filter', async () => {
    const misspelt = { queues: 'a' } as object
    await expect(all(client.jobs.list(misspelt))).rejects.toThrow(/'queues' is not an option/)
    await expect(all(client.jobs.list({ state: [] }))).rejects.toThrow(TypeError)
    await expect(client.bulk.delete(misspelt, { confirm: true })).rejects.toThrow(TypeError)
    await expect(all(client.jobs.list({ since: 'never' }))).rejects.toThrow(OJSValidationError)
  })

  test('one job is cancelled, retried, copied, and deleted; its history tells', async () => {
    const { id } = await client.enqueue('steer.me', [1], { queue })
    expect((await client.jobs.cancel(id)).state).toBe('cancelled')
    expect((await client.jobs.retry(id)).state).toBe('available')
    const copy = await client.jobs.copy(id, { args: [2] })
    expect(copy).toMatchObject({ args: [2], type: 'steer.me', queue })
    await client.jobs.cancel(id)
    const events = (await all(client.jobs.history(id))).map(({ event_type: type }) => type)
    expect(events.filter((type) => type === 'job.state_changed').length).toBeGreaterThanOrEqual(2)
    await client.jobs.delete(id)
    await expect(client.jobs.get(id)).rejects.toThrow(OJSNotFoundError)
    expect((await client.jobs.get(copy.id)).state).toBe('available')
  })
})

describe('bulk', () => {
  test('dryRun changes nothing and tells how many', async () => {
    await enqueued(3)
    const { progress, id } = await client.bulk.cancel({ queue }, { dryRun: true })
    expect(progress).toMatchObject({ dry_run: true, matched: 3, state: 'completed' })
    expect(progress.sample).toHaveLength(3)
    expect(id).toBeNull()
    expect((await client.jobs.page({ queue, state: 'available' })).pagination.total).toBe(3)
  })

  test('by filter: an operation that can be watched, and found again', async () => {
    await enqueued(30)
    const operation = await client.bulk.cancel({ queue }, { confirm: true })
    const seen = await all(operation)
    expect(seen.at(-1)).toMatchObject({ state: 'completed', succeeded: 30, failed: 0 })
    expect(await operation.done()).toEqual(seen.at(-1))
    const again = await client.bulk.operation(operation.id ?? '')
    expect(again.progress).toMatchObject({ action: 'cancel', succeeded: 30 })
    const deleting = await client.bulk.delete({ queue }, { confirm: true, limit: 10 })
    expect(await deleting.done()).toMatchObject({ succeeded: 10, has_more: true })
  })

  test('by ids: at once, with what was left alone', async () => {
    const [first, second] = await enqueued(2)
    const ids = [first?.id ?? '', second?.id ?? '']
    await client.jobs.cancel(ids[0] ?? '')
    const { id, progress } = await client.bulk.cancel(ids, { confirm: true })
    expect(id).toBeNull()
    expect(progress).toMatchObject({ matched: 2, succeeded: 1, failed: 1, state: 'completed' })
    const retried = await client.bulk.retry(ids, { confirm: true })
    expect(await retried.done()).toMatchObject({ succeeded: 2 })
  })

  test('dead letters are retried and deleted by filter', async () => {
    await enqueued(2, { retry: { maxAttempts: 1 } })
    const transport = new HttpTransport({ url: server.url })
    const work = async (verb: string, body: object) =>
      (await transport.request({ method: 'POST', path: `/workers/${verb}`, body })).body
    for (let n = 0; n < 2; n++) {
      const body = { queues: [queue], worker_id: 'w', wait_ms: 20_000 }
      const { jobs } = (await work('fetch', body)) as { jobs: Job[] }
      const error = { code: 'handler_error', message: 'no' }
      await work('nack', { job_id: jobs[0]?.id, worker_id: 'w', error })
    }
    const preview = await client.bulk.retryDeadLetters({ queue }, { dryRun: true })
    expect(preview.progress.matched).toBe(2)
    const retried = await client.bulk.retryDeadLetters({ queue }, { confirm: true, limit: 1 })
    expect(await retried.done()).toMatchObject({ succeeded: 1 })
    const deleted = await client.bulk.deleteDeadLetters({ queue }, { confirm: true })
    expect(await deleted.done()).toMatchObject({ succeeded: 1 })
    expect((await client.deadLetters.list({ queue })).jobs).toEqual([])
  })

  test('without confirm the server refuses, and a stopped operation stays stopped', async () => {
    await expect(client.bulk.cancel({ queue }, {})).rejects.toThrow(OJSValidationError)
    await enqueued(5)
    const operation = await client.bulk.cancel({ queue }, { confirm: true })
    const stopped = await operation.stop()
    expect(['stopped', 'completed']).toContain(stopped.state)
    expect(await operation.done()).toEqual(stopped)
  })
})

/** Collects events in the background. */
function collect(events: AsyncIterable<OJSEvent>) {
  const got: OJSEvent[] = []
  const state = { isOver: false, error: undefined as unknown }
  const done = (async () => {
    for await (const event of events) got.push(event)
  })()
  void done
    .catch((error: unknown) => {
      state.error = error
    })
    .finally(() => {
      state.isOver = true
    })
  return { got, state }
}

describe('events', () => {
  test('of a queue, with their ids and data', async () => {
    const ends = new AbortController()
    onTestFinished(() => ends.abort())
    await enqueued(1)
    const { got, state } = collect(client.events({ queue, signal: ends.signal }))
    await eventually(async () => {
      await client.enqueue('seen', [], { queue })
      return got.length > 0
    })
    expect(got[0]).toMatchObject({
      id: expect.stringMatching(/^evt_/),
      type: 'job.enqueued',
      data: { queue, type: 'seen' },
    })
    ends.abort()
    await eventually(async () => state.isOver)
    expect(state.error).toBeUndefined()
  })

  test('of a job end with it, also if it has ended before', async () => {
    const { id } = await client.enqueue('seen', [], { queue })
    const { got, state } = collect(client.events({ jobId: id }))
    await client.cancelJob(id)
    await eventually(async () => state.isOver)
    expect(got.at(-1)).toMatchObject({ type: 'job.state_changed', data: { to: 'cancelled' } })
    expect(await all(client.events({ jobId: id }))).toHaveLength(1)
  })

  test('go on behind the last one after a lost connection, and miss nothing', async () => {
    const proxy = await TcpProxy.start(server.url)
    onTestFinished(() => proxy.stop())
    const ends = new AbortController()
    onTestFinished(() => ends.abort())
    const far = new OJSClient({ url: proxy.url })
    const types = ['job.enqueued']
    const { got } = collect(far.events({ queue, types, signal: ends.signal }))
    await eventually(async () => {
      await enqueued(1)
      return got.length > 0
    })
    const { total } = (await client.jobs.page({ queue })).pagination
    await eventually(async () => got.length >= 1)
    proxy.refuse(true)
    proxy.cut()
    const missed = await enqueued(5)
    proxy.refuse(false)
    const [last] = await enqueued(1)
    await eventually(async () => got.some(({ data }) => data['job_id'] === last?.id))
    const ids = got.map(({ data }) => data['job_id'])
    expect(ids).toEqual(expect.arrayContaining(missed.map(({ id }) => id)))
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids.length).toBeLessThanOrEqual(total + 6)
    expect(got.every(({ type }) => type === 'job.enqueued')).toBe(true)
  })

  test('throw what the server refuses', async () => {
    const unknown = '01900000-0000-7000-8000-000000000000'
    await expect(all(client.events({ jobId: unknown }))).rejects.toThrow(OJSNotFoundError)
    await expect(all(client.events({ jobId: unknown, queue }))).rejects.toThrow(TypeError)
  })
})

test('InMemoryTransport lists jobs, and says what it has not', async () => {
  const memory = new OJSClient({ transport: new InMemoryTransport() })
  const jobs = await memory.enqueueBatch(
    Array.from({ length: 5 }, (_, n) => ({ type: n < 3 ? 'a.b' : 'c', args: [] })),
  )
  const found = await all(memory.jobs.list({ type: 'a.*', limit: 2 }))
  const newestFirst = jobs.slice(0, 3).reverse()
  expect(found.map(({ id }) => id)).toEqual(newestFirst.map(({ id }) => id))
  await expect(memory.jobs.page({ tag: 'x' })).rejects.toThrow(OJSUnsupportedError)
  await expect(memory.bulk.cancel({}, { confirm: true })).rejects.toThrow(OJSUnsupportedError)
  await expect(all(memory.events())).rejects.toThrow(OJSUnsupportedError)
  await expect(all(memory.jobs.history(jobs[0]?.id ?? ''))).rejects.toThrow(OJSUnsupportedError)
})
