import { beforeAll, describe, expect, it } from 'vitest'
import { newApiKey } from '../../../src/http/access/api-keys.ts'
import { fetchOne, freshQueue, gatewayForAll, nack } from '../harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const STATES = ['available', 'active', 'scheduled', 'retryable', 'pending']
const ENDED = ['completed', 'discarded', 'cancelled']

describe('the Admin API', () => {
  const { gateway } = gatewayForAll()
  const queue = freshQueue()
  const get = async (path: string): Promise<Json> => {
    const { status, body } = await gateway.request('GET', `/ojs/v1${path}`)
    expect(status, JSON.stringify(body)).toBe(200)
    return body
  }
  const refusal = async (path: string) => {
    const { status, body } = await gateway.request('GET', `/ojs/v1${path}`)
    return [status, body.error.details]
  }
  const push = async (type: string, options: object = {}, more: object = {}): Promise<string> => {
    const job = { type, args: [{ to: 'ada' }], options: { queue, ...options }, ...more }
    const { status, body } = await gateway.request('POST', '/ojs/v1/jobs', job)
    expect(status, JSON.stringify(body)).toBe(201)
    return body.job.id
  }
  const idsOf = (items: Json[]) => items.map(({ id }) => id)
  const ids: Record<string, string> = {}

  beforeAll(async () => {
    ids['dead'] = await push('mail.send', { retry: { max_attempts: 1 } })
    await fetchOne(gateway, queue)
    const error = { code: 'smtp', type: 'SmtpRefused', message: 'x'.repeat(500), backtrace: 'a\nb' }
    await nack(gateway, ids['dead'], error)
    ids['active'] = await push('mail.read', {}, { meta: { tenant: 't1' } })
    await fetchOne(gateway, queue, { worker_id: 'w-1' })
    ids['scheduled'] = await push('report', { scheduled_at: '2099-01-01T00:00:00Z', tags: ['eu'] })
    ids['waiting'] = await push('mail.send', { priority: 5 })
  })

  it('ADM-001 lists queues with state and counts, and shows one', async () => {
    const { items, pagination } = await get('/admin/queues')
    const [item] = items.filter(({ name }: Json) => name === queue)
    expect(item).toMatchObject({
      ...{ name: queue, state: 'active', paused: false },
      counts: { available: 1, active: 1, scheduled: 1, discarded: 1 },
      throughput: { processed_per_minute: 0 },
      oldest_available_at: expect.any(String),
      oldest_available_age_seconds: expect.any(Number),
    })
    for (const state of [...STATES, ...ENDED])
      expect(item.counts[state]).toEqual(expect.any(Number))
    expect(pagination).toMatchObject({
      total: items.length,
      page: 1,
      per_page: 20,
      has_more: false,
    })
    const { oldest_available_age_seconds: _, ...rest } = item
    expect(await get(`/admin/queues/${queue}`)).toMatchObject(rest)
    expect(await refusal('/admin/queues/nowhere')).toMatchObject([404, { resource_type: 'queue' }])
    const { queues } = await get('/queues')
    expect(queues.find(({ name }: Json) => name === queue)).toMatchObject({ pending: 1, active: 1 })
  })

  it('ADM-002 shows a pause in list, detail and statistics', async () => {
    await gateway.request('POST', `/ojs/v1/queues/${queue}/pause`)
    const paused = { state: 'paused', paused: true, paused_at: expect.any(String) }
    expect(await get(`/admin/queues/${queue}`)).toMatchObject(paused)
    const { queue_summary: summary } = await get(`/admin/stats?queue=${queue}`)
    expect(summary).toEqual({ total: 1, active: 0, paused: 1 })
    await gateway.request('POST', `/ojs/v1/queues/${queue}/resume`)
    expect(await get(`/admin/queues/${queue}`)).toMatchObject({ state: 'active', paused: false })
  })

  it('ADM-003 lists jobs by filters, newest first, in pages and by cursors', async () => {
    const all = await get(`/admin/jobs?queue=${queue}`)
    const newest = [ids['waiting'], ids['scheduled'], ids['active'], ids['dead']]
    expect(idsOf(all.items)).toEqual(newest)
    expect(all.pagination).toEqual({
      ...{ total: 4, limit: 20, offset: 0, page: 1, per_page: 20, has_more: false },
    })
    for (const [query, wanted] of [
      ['state=discarded', ['dead']],
      ['state=active,discarded', ['active', 'dead']],
      ['type=mail.*', ['waiting', 'active', 'dead']],
      ['type=mail.send&state=available', ['waiting']],
      ['tag=eu', ['scheduled']],
      ['worker_id=w-1', ['active']],
      ['error_code=smtp', ['dead']],
      ['error_type=SmtpRefused', ['dead']],
      ['meta.tenant=t1', ['active']],
      ['args={"to":"ada"}&order=asc', ['dead', 'active', 'scheduled', 'waiting']],
      ['args=[{"to":"eve"}]', []],
      ['since=1h', ['waiting', 'scheduled', 'active', 'dead']],
      ['since=2099-01-01T00:00:00Z', []],
      ['ended_since=1h', ['dead']],
      ['state=scheduled&sort=scheduled_at&order=asc', ['scheduled']],
      ['sort=priority&state=available,scheduled', ['waiting', 'scheduled']],
      [`id=${ids['dead']}`, ['dead']],
      ['workflow_id=none', []],
    ] as const) {
      const { items } = await get(`/admin/jobs?queue=${queue}&${query}`)
      expect(idsOf(items), query).toEqual(wanted.map((name) => ids[name]))
    }
    const first = await get(`/admin/jobs?queue=${queue}&per_page=3`)
    expect(first.pagination).toMatchObject({ total: 4, has_more: true })
    const next = `cursor=${first.pagination.next_cursor}&per_page=3`
    const second = await get(`/admin/jobs?queue=${queue}&${next}`)
    expect(idsOf([...first.items, ...second.items])).toEqual(newest)
    expect(second.pagination).toMatchObject({ total: 4, has_more: false })
    const { items } = await get(`/admin/jobs?queue=${queue}&page=2&per_page=3`)
    expect(idsOf(items)).toEqual([ids['dead']])
    const { jobs, total } = await get(`/jobs?queue=${queue}&limit=2&offset=1`)
    expect([idsOf(jobs), total]).toEqual([newest.slice(1, 3), 4])
  })

  it('ADM-003 shows items without payloads, unless these are asked for', async () => {
    const [dead] = (await get(`/admin/jobs?id=${ids['dead']}`)).items
    expect(dead).toEqual({
      ...{ id: ids['dead'], type: 'mail.send', queue, state: 'discarded', priority: 0, tags: [] },
      ...{ attempt: 1, max_attempts: 1, created_at: expect.any(String) },
      ...{ enqueued_at: expect.any(String), started_at: expect.any(String) },
      ...{ discarded_at: expect.any(String), completed_at: expect.any(String) },
      error: { code: 'smtp', type: 'SmtpRefused', message: 'x'.repeat(200) },
    })
    const [active] = (await get(`/admin/jobs?id=${ids['active']}&include=args,meta`)).items
    expect(active).toMatchObject({
      ...{ worker_id: 'w-1', args: [{ to: 'ada' }], meta: { tenant: 't1' } },
    })
    const { jobs } = await get(`/jobs?id=${ids['active']}`)
    expect(jobs).toEqual([(await gateway.get(ids['active'] ?? '')).body.job])
  })

  it('ADM-003 refuses what it does not know, with the field', async () => {
    const { next_cursor: cursor } = (await get(`/admin/jobs?queue=${queue}&per_page=1`)).pagination
    for (const [query, field] of [
      ['sate=active', 'sate'],
      ['state=runing', 'state'],
      ['type=*.send', 'type'],
      ['since=yesterday', 'since'],
      ['since=1h&until=2h', 'since'],
      ['args={', 'args'],
      ['args=[9007199254740993]', 'args[0]'],
      ['held=maybe', 'held'],
      ['sort=size', 'sort'],
      ['order=up', 'order'],
      ['include=result', 'include'],
      ['page=1&limit=1', 'limit'],
      ['cursor=x', 'cursor'],
      [`cursor=${cursor}`, 'cursor'],
      ['offset=10001', 'offset'],
      ['page=502', 'page'],
    ]) {
      expect(await refusal(`/admin/jobs?${query}`), query).toMatchObject([400, { field }])
    }
  })

  it('ADM-004 shows a whole job, flat', async () => {
    const dead = await get(`/admin/jobs/${ids['dead']}`)
    expect(dead).toMatchObject({
      ...{ id: ids['dead'], type: 'mail.send', queue, state: 'discarded', attempt: 1 },
      ...{ args: [{ to: 'ada' }], meta: {}, tags: [], result: null, timeout_ms: 30_000 },
      ...{ retry_policy: { max_attempts: 1 }, options: { queue, priority: 0 } },
      errors: [{ attempt: 1, code: 'smtp', backtrace: ['a', 'b'] }],
      metadata: { created_at: dead.created_at, scheduled_at: null, cancelled_at: null },
    })
    const waiting = await get(`/admin/jobs/${ids['waiting']}`)
    expect(waiting).toMatchObject({ errors: [], metadata: { started_at: null } })
    expect(await refusal('/admin/jobs/nobody')).toMatchObject([404, { resource_type: 'job' }])
  })

  it('ADM-005 answers statistics of everything', async () => {
    const stats = await get(`/admin/stats?queue=${queue}`)
    expect(stats).toMatchObject({
      ...{ queues: 1, workers: 1, uptime_seconds: expect.any(Number) },
      jobs: { available: 1, active: 1, scheduled: 1, retryable: 0, pending: 0, discarded: 1 },
      throughput: { processed_per_minute: 0, failed_per_min: expect.any(Number) },
      queue_summary: { total: 1, active: 1, paused: 0 },
      worker_summary: { total: 1, running: 1, stale: 0 },
      oldest_available_at: expect.any(String),
    })
    expect(await get('/admin/stats?queue=nowhere')).toMatchObject({ queues: 0 })
  })

  it('ADM-006 lists workers, and shows one with its active jobs', async () => {
    const { items, summary, pagination } = await get('/admin/workers')
    expect(items).toMatchObject([{ id: 'w-1', state: 'running', active_jobs: 1, queues: [queue] }])
    expect([summary.total, pagination.total]).toEqual([1, 1])
    expect(await get('/admin/workers/w-1')).toMatchObject({
      ...{ id: 'w-1', active_jobs: 1 },
      jobs: [{ id: ids['active'], type: 'mail.read', queue, attempt: 1, timeout_ms: 30_000 }],
    })
    expect(await refusal('/admin/workers/w-2')).toMatchObject([404, { resource_type: 'worker' }])
  })

  it('ADM-R002 answers statistics over time, of one queue or of all', async () => {
    const sums = ({ data }: Json) =>
      Object.fromEntries(
        ['enqueued', 'processed', 'failed', 'retried'].map((name) => [
          name,
          data.reduce((sum: number, point: Json) => sum + point[name], 0),
        ]),
      )
    const mine = { enqueued: 4, processed: 0, failed: 1, retried: 0 }
    for (const [period, ms] of [
      ['1m', 60_000],
      ['5m', 300_000],
      ['1h', 3_600_000],
    ] as const) {
      const history = await get(`/admin/stats/history?queue=${queue}&period=${period}&since=1h`)
      expect([history.period, sums(history)]).toEqual([period, mine])
      expect(history.data_points).toEqual(history.data)
      const starts = history.data.map(({ timestamp }: Json) => Date.parse(timestamp))
      expect(starts.every((start: number) => start % ms === 0)).toBe(true)
      expect(new Set(starts.map((start: number, i: number) => start - i * ms)).size).toBe(1)
      const used = history.data.filter(({ enqueued }: Json) => enqueued > 0)
      expect(used[0]).toMatchObject({ latency_p50_ms: expect.any(Number) })
    }
    expect(sums(await get('/admin/stats/history'))).toEqual(mine)
    expect(sums(await get('/admin/stats/history?queue=nowhere'))['enqueued']).toBe(0)
    const of = async (query: string) => (await refusal(`/admin/stats/history?${query}`)).slice(0, 2)
    for (const [query, field] of [
      ['period=2m', 'period'],
      ['since=1h&until=2h', 'since'],
      ['period=1m&since=30d', 'since'],
    ] as const) {
      expect(await of(query)).toMatchObject([400, { field }])
    }
  })

  it('tells in /metrics for how long the oldest job has waited', async () => {
    const response = await fetch(`${gateway.url}/metrics`)
    const text = await response.text()
    const seconds = new RegExp(
      `^ojs_queue_oldest_seconds\\{queue="${queue}",kind="available"\\} (\\S+)$`,
      'm',
    ).exec(text)?.[1]
    expect(Number(seconds)).toBeGreaterThan(0)
  })

  it('groups failed jobs by code and pattern of their messages, and finds those of a group', async () => {
    const failing = freshQueue()
    const fail = async (error: object, type = 'mail.send') => {
      const job = { type, args: [], options: { queue: failing, retry: { max_attempts: 1 } } }
      const { body } = await gateway.request('POST', '/ojs/v1/jobs', job)
      await fetchOne(gateway, failing)
      await nack(gateway, body.job.id, error)
      return body.job.id as string
    }
    const full = (n: number, who: string) => ({
      code: 'full',
      message: `mailbox ${n} of "${who}" is full`,
    })
    const first = await fail(full(1, 'ada'))
    const second = await fail(full(22, 'bob, the '), 'mail.digest')
    const other = await fail({ code: 'full', message: 'disk is full' })
    const typed = await fail({ type: 'Oops', message: "can't" })
    const { groups, total, searched } = await get(`/admin/failures?queue=${failing}`)
    expect([total, searched]).toEqual([3, 4])
    expect(groups[0]).toMatchObject({
      ...{ code: 'full', pattern: 'mailbox <n> of <text> is full', count: 2, job_id: second },
      by_type: { 'mail.send': 1, 'mail.digest': 1 },
      by_queue: { [failing]: 2 },
      by_state: { discarded: 2 },
      message: 'mailbox 22 of "bob, the " is full',
    })
    expect(groups[0].trend).toHaveLength(24)
    expect(groups[0].trend.at(-1) + groups[0].trend.at(-2)).toBe(2)
    expect(Date.parse(groups[0].first_at)).toBeLessThanOrEqual(Date.parse(groups[0].last_at))
    const idsIn = async (group: Json) => {
      const { items } = await get(`/admin/jobs?${new URLSearchParams(group.filter)}`)
      return new Set(idsOf(items))
    }
    expect(await idsIn(groups[0])).toEqual(new Set([first, second]))
    const by = (pattern: string) => groups.find((group: Json) => group.pattern === pattern)
    expect(await idsIn(by('disk is full'))).toEqual(new Set([other]))
    expect(await idsIn(by("can't"))).toEqual(new Set([typed]))
    const asked = `queue=${failing}&queue=none&type=mail.digest&since=1h`
    const some = await get(`/admin/failures?${asked}`)
    expect(some.searched).toBe(1)
    expect(some.groups[0].filter).toEqual({
      ...groups[0].filter,
      ...{ queue: `${failing},none`, type: 'mail.digest' },
      since: expect.stringMatching(/^\d{4}-.*Z$/),
    })
    expect(await idsIn(some.groups[0])).toEqual(new Set([second]))
    const dry = { filter: some.groups[0].filter, dry_run: true }
    const matched = await gateway.request('POST', '/ojs/v1/admin/jobs/bulk/retry', dry)
    expect(matched.body).toMatchObject({ matched: 1 })
    const retry = { filter: groups[0].filter, confirm: true }
    const { body } = await gateway.request('POST', '/ojs/v1/admin/jobs/bulk/retry', retry)
    expect(body).toMatchObject({ succeeded: 2, failed: 0 })
    expect((await gateway.get(other)).body.job.state).toBe('discarded')
  })
})

describe('the role reader', () => {
  const operator = newApiKey('o', 'admin')
  const reader = newApiKey('r', 'reader')
  const scoped = newApiKey('s', 'operator', ['mine*'])
  const { gateway } = gatewayForAll({
    OJS_API_KEYS: [operator, reader, scoped].map(({ entry }) => entry).join(),
  })
  const as = async ({ key }: { key: string }, method: string, path: string, body?: object) => {
    const headers = { Authorization: `Bearer ${key}` }
    const answer = await gateway.request(method, `/ojs/v1${path}`, body, headers)
    return answer as { status: number; body: Json }
  }
  let id = ''

  beforeAll(async () => {
    for (const queue of ['mine', 'other']) {
      const job = {
        ...{ type: 't', args: ['secret'], meta: { tenant: 'a' } },
        options: { queue, retry: { max_attempts: 1 } },
      }
      id = (await as(operator, 'POST', '/jobs', job)).body.job.id
    }
    await as(operator, 'POST', '/workers/fetch', { queues: ['other'], wait_ms: 15_000 })
    const error = { code: 'c', message: 'secret', backtrace: ['secret'], details: { a: 'secret' } }
    await as(operator, 'POST', '/workers/nack', { job_id: id, error })
  })

  it('sees everything but args, results and the texts of errors', async () => {
    for (const path of [
      `/jobs/${id}`,
      `/admin/jobs/${id}`,
      `/admin/jobs/${id}/message`,
      '/admin/jobs?include=meta',
      '/jobs',
      '/dead-letter',
      '/admin/queues/other',
      '/admin/stats',
      '/admin/workers',
      '/queues/other/stats',
    ]) {
      const { status, body } = await as(reader, 'GET', path)
      expect([status, JSON.stringify(body)], path).toEqual([
        200,
        expect.not.stringMatching('secret'),
      ])
    }
    const { body } = await as(reader, 'GET', `/admin/jobs/${id}`)
    expect(body).toMatchObject({
      ...{ id, state: 'discarded', meta: { tenant: 'a' }, payload_withheld: true },
      errors: [{ code: 'c', attempt: 1 }],
    })
    expect(JSON.stringify((await as(operator, 'GET', `/admin/jobs/${id}`)).body)).toContain(
      'secret',
    )
  })

  it('sees the message of a job without its body, which others see', async () => {
    const at = `/admin/jobs/${id}/message`
    const { body } = await as(reader, 'GET', at)
    expect(body).toMatchObject({ payload_withheld: true, routing_key: 'other' })
    expect(body.headers).toMatchObject({ 'x-ojs-queue': 'other', 'x-ojs-error-code': 'c' })
    const whole = (await as(operator, 'GET', at)).body
    expect(JSON.parse(whole.body)).toMatchObject({ id, args: ['secret'] })
    expect(whole.headers).toMatchObject({ 'x-ojs-error-message': 'secret' })
    expect((await as(operator, 'GET', '/admin/jobs/none/message')).status).toBe(404)
    expect((await as(scoped, 'GET', at)).status).toBe(404)
  })

  it('leaves records of what was refused to it, beside those of what operators did', async () => {
    await as(reader, 'DELETE', `/jobs/${id}`)
    await as(operator, 'POST', '/admin/queues/mine/pause')
    await as(operator, 'POST', '/admin/queues/mine/resume')
    // What only shows what would be done leaves none.
    const asked = { filter: { state: 'discarded' }, dry_run: true }
    expect((await as(operator, 'POST', '/admin/jobs/bulk/retry', asked)).status).toBe(200)
    expect((await as(operator, 'POST', '/jobs/bulk/retry', asked)).status).toBe(200)
    const purge = '/admin/queues/mine/jobs?states=completed&dry_run=true'
    expect((await as(operator, 'DELETE', purge)).status).toBe(200)
    const { body } = await as(operator, 'GET', '/admin/audit?limit=3')
    const told = body.items.map(({ key, endpoint, status }: Json) => [key, endpoint, status])
    expect(told).toEqual([
      ['o', 'POST /ojs/v1/admin/queues/{name}/resume', 200],
      ['o', 'POST /ojs/v1/admin/queues/{name}/pause', 200],
      ['r', 'DELETE /ojs/v1/jobs/{id}', 403],
    ])
    expect(body.items[0]).toMatchObject({ role: 'admin', path: '/ojs/v1/admin/queues/mine/resume' })
    const first = (await as(operator, 'GET', '/admin/audit?limit=1&key=r')).body
    expect(first.items).toMatchObject([{ key: 'r', status: 403, address: '127.0.0.1' }])
    const cursor = (await as(operator, 'GET', '/admin/audit?limit=1')).body.pagination.next_cursor
    const next = (await as(operator, 'GET', `/admin/audit?limit=1&cursor=${cursor}`)).body
    expect(next.items).toEqual([body.items[1]])
    expect((await as(reader, 'GET', '/admin/audit')).status).toBe(403)
  })

  it('may not find out args by a search', async () => {
    const found = ['args=["secret"]', 'error_pattern=secret'].flatMap((query) =>
      ['/admin/jobs', '/jobs', '/dead-letter', '/admin/dead-letter'].map((at) => `${at}?${query}`),
    )
    for (const path of [...found, '/admin/jobs?include=args']) {
      const { status, body } = await as(reader, 'GET', path)
      expect([status, body.error.details.reason]).toEqual([403, 'payload_withheld'])
    }
  })

  it('of a key of some queues finds the jobs of these only', async () => {
    const { body } = await as(scoped, 'GET', '/admin/jobs')
    expect(body.items.map(({ queue }: Json) => queue)).toEqual(['mine'])
    expect((await as(scoped, 'GET', '/admin/jobs?queue=other')).status).toBe(403)
    expect((await as(scoped, 'GET', `/admin/jobs/${id}`)).status).toBe(404)
    expect((await as(scoped, 'GET', '/admin/stats')).body).toMatchObject({ queues: 1 })
    expect((await as(scoped, 'GET', '/admin/stats?queue=other')).status).toBe(403)
  })
})
