import { v7 } from 'uuid'
import { describe, expect, it, vi } from 'vitest'
import { WorkflowCounts } from '../../../src/ledger/sqlite/state/workflow-counts.ts'
import { inOrder } from '../../support/broker/order.ts'
import { queueMessages } from '../../support/broker/queue-messages.ts'
import { eventually, type TestGateway } from '../../support/gateway/in-process.ts'
import { deadIds, fetchMany, freshQueue, gatewayForAll, stateOf } from '../harness.ts'

const error = { code: 'handler_error', message: 'it broke' }
const WORKER = 'w1'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any
type Item = Record<string, unknown> & { action: 'ack' | 'nack' }

const settle = (gateway: TestGateway, items: readonly object[], over: object = {}) =>
  gateway.request('POST', '/ojs/v1/workers/settle', { worker_id: WORKER, items, ...over })

async function started(gateway: TestGateway, queue: string, count: number, options: object = {}) {
  for (let i = 0; i < count; i++) await gateway.push(queue, { options })
  return await fetchMany(gateway, queue, count, { worker_id: WORKER })
}

/** What a worker may say of eight jobs that run, of one that has ended, and of one that is not known. */
function reportsOf(ids: readonly string[]): Item[] {
  const [a, b, c, d, e, f, g, h, ended] = ids
  return [
    { action: 'ack', job_id: a, result: { sum: [1, 'ä'] }, attempt: 1, generation: 0 },
    { action: 'nack', job_id: b, error, attempt: 1 },
    { action: 'nack', job_id: c, error: { ...error, retryable: false } },
    { action: 'nack', job_id: d, error, requeue: true },
    { action: 'ack', job_id: e, attempt: 2 },
    { action: 'ack', job_id: f, worker_id: 'another' },
    { action: 'ack', job_id: g, result: 'x'.repeat(1_100_000) },
    { action: 'nack', job_id: h },
    { action: 'ack', job_id: ended },
    { action: 'nack', job_id: ended, error },
    { action: 'ack' },
    { action: 'ack', job_id: 7 },
    { action: 'ack', jobId: a },
    { action: 'ack', job_id: '0197a1c2-77d0-7aa1-9d55-0c1f5e6b2a20' },
  ]
}

/** Times and ids differ from run to run. */
function comparable(answer: Json, ids: readonly string[]): Json {
  const text = JSON.stringify(answer, (name, value) => (/_at$/.test(name) ? 'time' : value))
  const named = ids.reduce((said, id, i) => said.replaceAll(id, `job ${i}`), text)
  return JSON.parse(named.replaceAll(/req_[0-9a-f-]{36}/g, 'request'))
}

describe.each(['classic', 'quorum'])('settling many jobs at once, profile %s', (profile) => {
  const { vhost, gateway } = gatewayForAll({ OJS_QUEUE_TYPE: profile })
  const retry = { initial_interval_ms: 60_000, jitter: false }

  it('answers each item as its own request is answered, and does the same', async () => {
    const [one, many] = [freshQueue(), freshQueue()]
    const ids: Record<string, string[]> = {}
    for (const queue of [one, many]) {
      const jobs = await started(gateway, queue, 9, { retry })
      ids[queue] = jobs.map(({ id }) => id)
      await gateway.ack(ids[queue][8] ?? '')
    }
    const single: Json[] = []
    for (const { action, ...item } of reportsOf(ids[one] ?? [])) {
      const said = { worker_id: WORKER, ...item }
      const { status, body } = await gateway.request('POST', `/ojs/v1/workers/${action}`, said)
      const { job: _, ...members } = body
      // An error does not name the job by itself.
      const named = 'error' in body && typeof item['job_id'] === 'string'
      single.push({ status, ...(named && { job_id: item['job_id'] }), ...members })
    }
    const { status, body } = await settle(gateway, reportsOf(ids[many] ?? []))
    expect(status).toBe(200)
    expect(comparable(body.items, ids[many] ?? [])).toEqual(comparable(single, ids[one] ?? []))
    expect(single.map((answer) => answer.status)).toEqual([
      200, 200, 200, 200, 409, 409, 413, 400, 409, 409, 400, 400, 400, 404,
    ])
    for (const [i, id] of (ids[many] ?? []).entries()) {
      expect([i, await stateOf(gateway, id)]).toEqual([
        i,
        await stateOf(gateway, ids[one]?.[i] ?? ''),
      ])
    }
    expect(await deadIds(gateway, many)).toEqual([ids[many]?.[2]])
    expect((await gateway.get(ids[many]?.[0] ?? '')).body.job.result).toEqual({ sum: [1, 'ä'] })
  })

  it('settles up to a thousand jobs, and acknowledges their job messages', async () => {
    const queue = freshQueue()
    const bodies = Array.from({ length: 1_000 }, () => ({
      type: 'a',
      args: [],
      options: { queue },
    }))
    await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs: bodies })
    const jobs: Json[] = []
    while (jobs.length < 1_000) {
      jobs.push(...(await fetchMany(gateway, queue, 100, { worker_id: WORKER })))
    }
    const isBack = (_: Json, i: number) => i % 100 === 99
    const items = jobs.map(({ id }, i) =>
      isBack(id, i)
        ? { action: 'nack', job_id: id, error, requeue: true }
        : { action: 'ack', job_id: id },
    )
    const { status, body } = await settle(gateway, items)
    expect([status, body.items.length]).toEqual([200, 1_000])
    expect(body.items.every((item: Json) => item.status === 200)).toBe(true)
    expect(body.items.map(({ job_id }: Json) => job_id)).toEqual(jobs.map(({ id }) => id))
    const again = await fetchMany(gateway, queue, 10, { worker_id: WORKER })
    expect(inOrder(again.map(({ id, attempt }) => `${attempt} ${id}`))).toEqual(
      inOrder(jobs.filter(isBack).map(({ id }) => `1 ${id}`)),
    )
    await settle(
      gateway,
      again.map(({ id }) => ({ action: 'ack', job_id: id })),
    )
    await eventually(
      async () => (await queueMessages(vhost.url, `ojs.queue.${queue}`)).length === 0,
    )
  })

  it('shares one commit between all items', async () => {
    const jobs = await started(gateway, freshQueue(), 50)
    const commits = vi.spyOn(WorkflowCounts.prototype, 'store')
    await settle(
      gateway,
      jobs.map(({ id }) => ({ action: 'ack', job_id: id })),
    )
    const groups = commits.mock.calls.length
    commits.mockRestore()
    // Its own; those of lazy writes and of services that come between; and a commit ends after 50 ms.
    expect(groups).toBeLessThanOrEqual(5)
  })

  it('of two items about one job the first counts, and a repeated request is answered like a repeated ACK', async () => {
    const queue = freshQueue()
    const [a, b] = await started(gateway, queue, 2, { retry })
    const items = [
      { action: 'ack', job_id: a.id, result: 1 },
      { action: 'ack', job_id: a.id, result: 2 },
      { action: 'nack', job_id: b.id, error },
    ]
    const first = await settle(gateway, items)
    expect(first.body.items.map((item: Json) => item.status)).toEqual([200, 409, 200])
    expect((await gateway.get(a.id)).body.job.result).toBe(1)
    const second = await settle(gateway, items)
    expect(second.body.items).toMatchObject([
      { status: 409, job_id: a.id, error: { details: { current_state: 'completed' } } },
      { status: 409 },
      { status: 409, job_id: b.id, error: { details: { current_state: 'retryable' } } },
    ])
  })

  it('names the worker of the request for items that name none', async () => {
    const [job] = await started(gateway, freshQueue(), 1)
    const items = [{ action: 'ack', job_id: job.id }]
    const other = await settle(gateway, items, { worker_id: 'another' })
    expect(other.body.items[0]).toMatchObject({
      status: 409,
      error: { details: { reason: 'other_worker' } },
    })
    const own = await settle(gateway, [{ ...items[0], worker_id: WORKER }], {
      worker_id: 'another',
    })
    expect(own.body.items[0]).toMatchObject({ status: 200, state: 'completed' })
  })

  it('refuses an item alone that is none, or whose text cannot be kept', async () => {
    const jobs = await started(gateway, freshQueue(), 4)
    const [a, b, c, d] = jobs.map(({ id }) => id)
    const nested = `${'['.repeat(40)}${']'.repeat(40)}`
    const items = [
      `{"action":"ack","job_id":"${a}"}`,
      '7',
      `{"job_id":"${b}"}`,
      `{"action":"drop","job_id":"${b}"}`,
      `{"action":"ack","job_id":"${b}","result":{"n":12345678901234567890}}`,
      `{"action":"ack","job_id":"${c}","result":${nested}}`,
      `{"action":"ack","job_id":"${d}"}`,
    ]
    const answer = await fetch(`${gateway.url}/ojs/v1/workers/settle`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: `{"worker_id":"${WORKER}","items":[${items.join(',')}]}`,
    })
    const body: Json = await answer.json()
    expect(body.items).toMatchObject([
      { status: 200, job_id: a },
      { status: 400, error: { details: { expected: 'object' } } },
      { status: 400, job_id: b, error: { details: { field: 'action' } } },
      { status: 400, job_id: b, error: { details: { field: 'action' } } },
      { status: 400, job_id: b, error: { details: { reason: 'unsafe_number' } } },
      { status: 400, job_id: c, error: { details: { max_depth: 32 } } },
      { status: 200, job_id: d },
    ])
    const states = await Promise.all([a, b, c, d].map((id) => stateOf(gateway, id)))
    expect(states).toEqual(['completed', 'active', 'active', 'completed'])
  })

  it.each<[string, object, string]>([
    ['no list', {}, 'items'],
    ['an empty list', { items: [] }, 'items'],
    [
      'too long a list',
      { items: Array.from({ length: 1_001 }, () => ({ action: 'ack' })) },
      'items',
    ],
    ['camelCase', { items: [{ action: 'ack', job_id: 'own' }], workerId: 'w' }, 'workerId'],
  ])('refuses %s as a whole, and settles nothing', async (_, body, field) => {
    const [job] = await started(gateway, freshQueue(), 1)
    const text = JSON.stringify(body).replaceAll('"own"', JSON.stringify(job.id))
    const answer = await gateway.request('POST', '/ojs/v1/workers/settle', JSON.parse(text))
    expect(answer).toMatchObject({ status: 400, body: { error: { details: { field } } } })
    expect(await stateOf(gateway, job.id)).toBe('active')
  })
})

describe('settling many jobs, a NACK among them that needs a new retry queue', () => {
  const { vhost, gateway } = gatewayForAll({}, { retryQueueSettleMs: 0 })

  it('commits without it: the ledger holds that retry, and the queue is there for the next', async () => {
    const queue = freshQueue()
    const retry = { initial_interval_ms: 60_000, backoff_coefficient: 1, jitter: false }
    const failOne = async () => {
      const [failed, done] = await started(gateway, queue, 2, { retry })
      const { body } = await settle(gateway, [
        { action: 'nack', job_id: failed.id, error },
        { action: 'ack', job_id: done.id },
      ])
      expect(body.items.map(({ state }: Json) => state)).toEqual(['retryable', 'completed'])
      return failed.id
    }
    const waiting = () => queueMessages(vhost.url, `ojs.queue.retry.${queue}.60000`)
    const first = await failOne()
    await eventually(async () => (await waiting().catch(() => null)) !== null)
    const later: string[] = []
    await eventually(async () => later.push(await failOne()) > 0 && (await waiting()).length > 0)
    expect(await waiting()).not.toContain(first)
    expect(later).toEqual(expect.arrayContaining(await waiting()))
  })
})

describe('settling many jobs under a request limit', () => {
  const LIMIT = 30
  const { gateway } = gatewayForAll({ OJS_RATE_LIMIT: `${LIMIT}/1h` })
  const left = ({ headers }: { headers: Headers }) => Number(headers.get('x-ratelimit-remaining'))
  const ack = (job_id: string) => ({ action: 'ack', job_id })

  it('is free for running leases, counts once for others, and refuses only those when the limit is used up', async () => {
    const [a, b, c, d] = (await started(gateway, freshQueue(), 4)).map(({ id }) => id)
    const before = left(await gateway.request('GET', '/ojs/manifest'))
    const free = await settle(gateway, [ack(a)])
    expect([free.body.items[0].status, left(free)]).toEqual([200, before])
    const mixed = await settle(gateway, [ack(v7()), ack(b), ack(v7()), ack(a)])
    expect(mixed.body.items.map((item: Json) => item.status)).toEqual([404, 200, 404, 409])
    expect(left(mixed)).toBe(before - 1)
    const late = await settle(gateway, [ack(c), ack(v7()), ack(v7())])
    expect([late.body.items[0].status, left(late)]).toEqual([200, before - 2])

    for (let i = left(late); i > 0; i--) await gateway.request('GET', '/ojs/manifest')
    const over = await settle(gateway, [ack(v7()), ack(d), ack(a)])
    expect(over.body.items).toMatchObject([
      { status: 429, retry_after_seconds: expect.any(Number), error: { code: 'rate_limited' } },
      { status: 200, job_id: d },
      { status: 429 },
    ])
  })
})
