import { describe, expect, it } from 'vitest'
import { eventually } from '../../support/gateway/in-process.ts'
import { HeldClock } from '../../support/time/held-clock.ts'
import { fetchOne, freshQueue, gatewayForAll } from '../harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const DRAFT = 'https://json-schema.org/draft/2020-12/schema'
const MINUTE_MS = 60_000
const clock = new HeldClock()
const { gateway } = gatewayForAll({}, { clock })

const call = (method: string, path: string, body?: object, headers = {}) =>
  gateway.request(method, `/ojs/v1/cron${path}`, body, headers)

async function register(over: object = {}) {
  const queue = freshQueue()
  const body = { name: queue, cron: '* * * * *', type: 'a.b', args: [1], options: { queue } }
  const answer = await call('POST', '', { ...body, ...over })
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body))
  return { name: queue, queue, entry: answer.body.cron_job as Json }
}

const show = async (name: string): Promise<Json> => (await call('GET', `/${name}`)).body.cron_job
const history = async (name: string): Promise<Json[]> =>
  (await call('GET', `/${name}/history`)).body.executions

async function reach(name: string): Promise<string> {
  const { next_run_at } = await show(name)
  clock.advance(Date.parse(next_run_at) - clock.wall())
  await eventually(async () => (await show(name)).next_run_at !== next_run_at)
  return next_run_at
}

describe('PATCH /ojs/v1/cron/:name', () => {
  it('changes what it names, and keeps counts, creation and the rest of the definition', async () => {
    const { name, queue } = await register({ description: 'd', overlap_policy: 'allow' })
    await reach(name)
    await gateway.ack((await fetchOne(gateway, queue)).id)
    const before = await show(name)
    const change = { args: [2], options: { priority: 7 }, meta: { a: 1 }, run_count: 99, name: 'x' }
    const { status, body } = await call('PATCH', `/${name}`, change)
    expect([status, body.cron_job]).toEqual([
      200,
      { ...before, args: [2], options: { queue, priority: 7, meta: { a: 1 } } },
    ])
    await reach(name)
    const job = await fetchOne(gateway, queue)
    expect(job).toMatchObject({ args: [2], priority: 7, meta: { a: 1, cron_name: name } })
    await gateway.ack(job.id)
    await call('DELETE', `/${name}`)
  })

  it('computes the next time anew when the schedule changes, in either spelling', async () => {
    const { name } = await register()
    const hourly = await call('PATCH', `/${name}`, { expression: '15 * * * *' })
    expect(hourly.body.cron_job).toMatchObject({ cron: '15 * * * *' })
    expect(hourly.body.cron_job.next_run_at).toMatch(/:15:00\.000Z$/)
    const nested = await call('PATCH', `/${name}`, {
      job_template: { type: 'c.d', options: { priority: 1 } },
    })
    expect(nested.body.cron_job).toMatchObject({ type: 'c.d', options: { priority: 1 } })
    await call('DELETE', `/${name}`)
  })

  it('keeps the times that wait, even while the entry is paused', async () => {
    const { name, queue } = await register({ overlap_policy: 'enqueue' })
    await reach(name)
    const first = await fetchOne(gateway, queue)
    const waiting = await reach(name)
    expect((await call('PATCH', `/${name}`, { args: ['new'] })).body.cron_job.queued_ticks).toBe(1)
    const paused = (await call('POST', `/${name}/pause`)).body.cron_job
    expect(paused).toMatchObject({ enabled: false, status: 'disabled', queued_ticks: 1 })
    expect(paused.next_run_at).toBeNull()
    expect((await call('POST', `/${name}/pause`)).status).toBe(200)
    await gateway.ack(first.id)
    clock.advance(10 * MINUTE_MS)
    expect(await gateway.fetch([queue], { wait_ms: 400 })).toEqual([])

    const resumed = (await call('POST', `/${name}/resume`)).body.cron_job
    // Not for the times of the pause: the next one from now.
    expect(Date.parse(resumed.next_run_at)).toBeGreaterThan(clock.wall())
    const job = await fetchOne(gateway, queue)
    expect(job).toMatchObject({ args: ['new'], meta: { cron_triggered_at: waiting } })
    await gateway.ack(job.id)
    expect(await gateway.fetch([queue])).toEqual([])
    await call('DELETE', `/${name}`)
  })

  it('loses none of several changes at the same time', async () => {
    const { name } = await register()
    await Promise.all([
      call('PATCH', `/${name}`, { args: [5] }),
      call('PATCH', `/${name}`, { description: 'd' }),
      call('PATCH', `/${name}`, { timezone: 'Europe/Berlin' }),
      call('PATCH', `/${name}`, { options: { priority: 3 } }),
    ])
    expect(await show(name)).toMatchObject({
      args: [5],
      description: 'd',
      timezone: 'Europe/Berlin',
      options: { priority: 3 },
    })
    await call('DELETE', `/${name}`)
  })

  it.each([
    [{}, undefined],
    [{ name: 'other' }, undefined],
    [{ enable: false }, 'enable'],
    [{ cron: '61 * * * *' }, 'cron'],
    [{ cron: '1 * * * *', expression: '2 * * * *' }, 'expression'],
    [{ options: 5 }, 'options'],
    [{ job_template: { cron: '* * * * *' } }, 'job_template.cron'],
    [{ enabled: 'no' }, 'enabled'],
    [{ type: '5' }, 'type'],
  ])('is a 400 for %j, and changes nothing', async (body, field) => {
    const { name, entry } = await register()
    const { status, body: answered } = await call('PATCH', `/${name}`, body)
    expect([status, answered.error.details?.field]).toEqual([400, field])
    expect(await show(name)).toEqual(entry)
    await call('DELETE', `/${name}`)
  })

  it('is a 404 for an unknown entry, as are all of these', async () => {
    for (const [method, path] of [
      ['PATCH', '/none'],
      ['POST', '/none/pause'],
      ['POST', '/none/resume'],
      ['POST', '/none/trigger'],
      ['GET', '/none/history'],
    ] as const) {
      const body = method === 'PATCH' ? { args: [] } : undefined
      expect((await call(method, path, body)).status, path).toBe(404)
    }
  })
})

describe('PUT /ojs/v1/cron/:name', () => {
  it('registers an entry, and replaces it', async () => {
    const queue = freshQueue()
    const body = { cron: '* * * * *', type: 'a.b', args: [], options: { queue } }
    expect((await call('PUT', `/${queue}`, body)).status).toBe(201)
    const again = await call('PUT', `/${queue}`, { ...body, name: queue, args: [1] })
    expect([again.status, again.body.cron_job.args]).toEqual([200, [1]])
    const other = await call('PUT', `/${queue}`, { ...body, name: 'another' })
    expect([other.status, other.body.error.details.field]).toEqual([400, 'name'])
    await call('DELETE', `/${queue}`)
  })
})

describe('POST /ojs/v1/cron/:name/trigger', () => {
  it('makes a job now, beside a running one and while the entry is paused', async () => {
    const { name, queue } = await register({ meta: { a: 1 } })
    await reach(name)
    await fetchOne(gateway, queue)
    await call('POST', `/${name}/pause`)
    const { status, body, headers } = await call('POST', `/${name}/trigger`, {
      args: ['now'],
      meta: { b: 2 },
    })
    expect([status, body.cron_name]).toEqual([201, name])
    expect(headers.get('Location')).toBe(`/ojs/v1/jobs/${body.job_id}`)
    const job = await fetchOne(gateway, queue)
    expect(job).toMatchObject({
      id: body.job_id,
      args: ['now'],
      meta: { a: 1, b: 2, cron_name: name, cron_manual: true },
    })
    expect(await show(name)).toMatchObject({
      run_count: 2,
      last_job_id: job.id,
      next_run_at: null,
      args: [1],
    })
    const events = await gateway.request('GET', '/ojs/v1/events?types=cron.triggered&limit=1000')
    const own = events.body.events.filter(({ subject }: Json) => subject === name)
    expect(own.map(({ data }: Json) => data.manual)).toEqual([undefined, true])
    await call('DELETE', `/${name}`)
  })

  it('gives the first answer again for the same Idempotency-Key', async () => {
    const { name, queue } = await register()
    const key = { 'Idempotency-Key': `run-${queue}` }
    const [first, second] = [
      await call('POST', `/${name}/trigger`, undefined, key),
      await call('POST', `/${name}/trigger`, undefined, key),
    ]
    expect(second.body.job_id).toBe(first.body.job_id)
    expect((await show(name)).run_count).toBe(1)
    await call('DELETE', `/${name}`)
  })

  it('is 422 for a paused queue, 409 for a unique key that is taken, 400 for other members', async () => {
    const { name, queue } = await register({ options: undefined })
    await call('PATCH', `/${name}`, { options: { queue, unique: { key: [] } } })
    const first = await call('POST', `/${name}/trigger`)
    const taken = await call('POST', `/${name}/trigger`)
    expect([taken.status, taken.body.error.details.existing_job_id]).toEqual([
      409,
      first.body.job_id,
    ])
    const misspelt = await call('POST', `/${name}/trigger`, { arg: [] })
    expect([misspelt.status, misspelt.body.error.details.field]).toEqual([400, 'arg'])
    await gateway.request('POST', `/ojs/v1/queues/${queue}/pause`)
    expect((await call('POST', `/${name}/trigger`)).body.error.code).toBe('queue_paused')
    await gateway.request('POST', '/ojs/v1/admin/maintenance', { enabled: true })
    const refused = await call('POST', `/${name}/trigger`)
    expect([refused.status, refused.body.error.details.reason]).toEqual([503, 'maintenance'])
    await gateway.request('POST', '/ojs/v1/admin/maintenance', { enabled: false })
    await call('DELETE', `/${name}`)
  })
})

describe('GET /ojs/v1/cron/:name/history', () => {
  it('lists runs with their outcome, and times that made no job, newest first', async () => {
    const { name, queue } = await register()
    const first = await reach(name)
    const job = await fetchOne(gateway, queue)
    const second = await reach(name)
    await gateway.ack(job.id)
    await gateway.request('POST', `/ojs/v1/queues/${queue}/pause`)
    const third = await reach(name)
    expect(await history(name)).toEqual([
      { skipped: true, reason: 'queue_paused', scheduled_at: third },
      { skipped: true, reason: 'overlap', scheduled_at: second },
      {
        job_id: job.id,
        state: 'completed',
        scheduled_at: first,
        started_at: job.started_at,
        completed_at: expect.any(String),
      },
    ])
    const { body } = await call('GET', `/${name}/history?limit=1&offset=2`)
    expect(body.executions).toMatchObject([{ job_id: job.id }])
    expect(body.pagination).toEqual({ total: 3, limit: 1, offset: 2, has_more: false })
    await call('DELETE', `/${name}`)
  })

  it.each([false, true])(
    'tells, as health does, of a time whose args no longer match their schema (waiting: %s)',
    async (isWaiting) => {
      const uri = `urn:test:${freshQueue()}`
      const keep = async (items: object) => {
        await gateway.request('DELETE', `/ojs/v1/schemas/${encodeURIComponent(uri)}`)
        const schema = { $schema: DRAFT, type: 'array', items }
        const body = { uri, type: 'a.b', version: 1, schema }
        expect((await gateway.request('POST', '/ojs/v1/schemas', body)).status).toBe(201)
      }
      const invalid = async (): Promise<Json> => {
        const { body } = await gateway.request('GET', '/ojs/v1/health')
        return body.warnings.filter(({ code }: Json) => code === 'cron_invalid')
      }
      await keep({ type: 'integer' })
      const { name, queue } = await register({ schema: uri, overlap_policy: 'enqueue' })
      await reach(name)
      const first = await fetchOne(gateway, queue)
      if (isWaiting) await reach(name)
      else await gateway.ack(first.id)
      await keep({ type: 'string' })
      if (isWaiting) await gateway.ack(first.id)
      else await reach(name)
      await eventually(async () => (await invalid()).length > 0)
      const [{ reason, scheduled_at }] = await history(name)
      expect(reason).toBe('invalid_job')
      expect(await invalid()).toMatchObject([{ details: { cron: name, scheduled_at } }])
      expect((await invalid())[0].message).toContain('do not match the schema')
      expect(await gateway.fetch([queue])).toEqual([])

      await reach(name)
      expect(await invalid()).toHaveLength(1)
      await call('PATCH', `/${name}`, { args: ['now a text'] })
      expect(await invalid()).toEqual([])
      await reach(name)
      expect(await fetchOne(gateway, queue)).toMatchObject({ args: ['now a text'] })
      await call('DELETE', `/${name}`)
    },
  )
})
