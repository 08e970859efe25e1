import { describe, expect, it } from 'vitest'
import { eventually } from '../../support/gateway/in-process.ts'
import { HeldClock } from '../../support/time/held-clock.ts'
import {
  fetchMany,
  fetchOne,
  freshQueue,
  gatewayForAll,
  nack,
  storyOf,
  untilState,
} from '../harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const MINUTE_MS = 60_000

const clock = new HeldClock()
const { gateway } = gatewayForAll({}, { clock })

function post(body: object): ReturnType<typeof gateway.request> {
  return gateway.request('POST', '/ojs/v1/cron', body)
}

let count = 0

/** Registers a cron job with its own name and queue. */
async function register(over: object = {}): Promise<{ name: string; queue: string; entry: Json }> {
  count += 1
  const name = `entry-${count}`
  const queue = freshQueue()
  const body = { name, cron: '* * * * *', type: 'report.make', args: [count], options: { queue } }
  const answer = await post({ ...body, ...over })
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body))
  return { name, queue, entry: answer.body.cron_job }
}

async function show(name: string): Promise<Json> {
  return (await gateway.request('GET', `/ojs/v1/cron/${name}`)).body.cron_job
}

/** Moves the clock to the next run of the entry, and waits until the gateway has handled it. */
async function tick(name: string): Promise<Json> {
  const { next_run_at } = await show(name)
  clock.advance(Date.parse(next_run_at) - clock.wall())
  await eventually(async () => (await show(name)).next_run_at !== next_run_at)
  return await show(name)
}

/** The cron events of this entry, oldest first. */
async function toldOf(name: string): Promise<Json[]> {
  const path = '/ojs/v1/events?types=cron.triggered,cron.skipped&limit=1000'
  const { body } = await gateway.request('GET', path)
  return body.events.filter(({ subject }: Json) => subject === name)
}

async function remove(...names: string[]): Promise<void> {
  for (const name of names) await gateway.request('DELETE', `/ojs/v1/cron/${name}`)
}

describe('registering a cron job', () => {
  it('accepts null for optional members, and does not show them', async () => {
    const absent = { meta: null, options: null, priority: null, schema: null, description: null }
    const { name, entry } = await register({ ...absent, timezone: null, enabled: null })
    expect(Object.values(entry)).not.toContain(null)
    expect(entry).toMatchObject({ timezone: 'UTC', enabled: true })
    await remove(name)
  })

  it('accepts the spelling of the seed, and answers it as cron_job and as cron', async () => {
    const queue = freshQueue()
    const request = {
      name: 'daily-report',
      cron: '0 9 * * *',
      timezone: 'America/New_York',
      type: 'report.generate',
      args: ['daily_summary'],
      meta: { owner: 'analytics-team' },
      options: { queue, timeout_ms: 300_000, retry: { max_attempts: 3, jitter: true } },
    }
    const { status, body, headers } = await post(request)
    expect(status).toBe(201)
    expect(headers.get('location')).toBe('/ojs/v1/cron/daily-report')
    expect(body.cron_job).toEqual({
      ...request,
      expression: '0 9 * * *',
      overlap_policy: 'skip',
      status: 'active',
      enabled: true,
      run_count: 0,
      next_run_at: '2026-02-12T14:00:00.000Z',
      created_at: '2026-02-12T10:30:30.000Z',
    })
    expect(body.cron).toEqual(body.cron_job)
    const shown = await gateway.request('GET', '/ojs/v1/cron/daily-report')
    expect(shown).toMatchObject({ status: 200, body })

    const again = await post({ ...request, cron: '0 8 * * *' })
    expect(again.status).toBe(409)
    expect(again.body.error).toMatchObject({
      code: 'duplicate',
      retryable: false,
      details: { resource_id: 'daily-report', field: 'name' },
    })
    const deleted = await gateway.request('DELETE', '/ojs/v1/cron/daily-report')
    expect(deleted).toMatchObject({ status: 200 })
    expect(deleted.body).toEqual({
      deleted: true,
      name: 'daily-report',
      cron: { name: 'daily-report' },
    })
    for (const method of ['DELETE', 'GET']) {
      const gone = await gateway.request(method, '/ojs/v1/cron/daily-report')
      expect(gone.status).toBe(404)
      expect(gone.body.error).toMatchObject({
        code: 'not_found',
        details: { resource_type: 'cron_job', resource_id: 'daily-report' },
      })
    }
  })

  it('accepts the spelling of the other dialect', async () => {
    const { body } = await post({
      name: 'other.dialect',
      expression: '@daily',
      overlap_policy: 'queue',
      enabled: false,
      description: 'once a day',
      job_template: { type: 'a.b', options: { queue: 'other' }, state: 'active', x_own: 1 },
      status: 'active',
      run_count: 7,
    })
    expect(body.cron).toEqual({
      name: 'other.dialect',
      cron: '@daily',
      expression: '@daily',
      timezone: 'UTC',
      description: 'once a day',
      type: 'a.b',
      args: [],
      options: { queue: 'other' },
      overlap_policy: 'enqueue',
      status: 'disabled',
      enabled: false,
      next_run_at: null,
      run_count: 0,
      created_at: '2026-02-12T10:30:30.000Z',
    })
    await remove('other.dialect')
  })

  const schedule = { name: 'bad', cron: '* * * * *' }
  const valid = { ...schedule, type: 'a.b', args: [] }
  it.each<[what: string, field: string, status: number, body: object]>([
    ['no name', 'name', 400, { ...valid, name: undefined }],
    ['a name with a space', 'name', 400, { ...valid, name: 'a b' }],
    ['a name of 256 characters', 'name', 400, { ...valid, name: 'a'.repeat(256) }],
    ['no expression', 'cron', 400, { ...valid, cron: null }],
    ['an expression that is a number', 'cron', 400, { ...valid, cron: 5 }],
    ['an expression of four fields', 'cron', 400, { ...valid, cron: '* * * *' }],
    [
      'an expression of seven fields',
      'expression',
      400,
      { ...valid, cron: null, expression: '0 0 0 0 0 0 0' },
    ],
    ['an offset as time zone', 'timezone', 400, { ...valid, timezone: 'UTC+5' }],
    ['an abbreviation as time zone', 'timezone', 400, { ...valid, timezone: 'EST' }],
    ['an unknown overlap policy', 'overlap_policy', 400, { ...valid, overlap_policy: 'sometimes' }],
    [
      'an expression that never comes',
      'cron',
      400,
      { ...valid, cron: '30 2 * 3 0#2', timezone: 'America/New_York' },
    ],
    ['a description with a NUL', 'description', 400, { ...valid, description: 'a\0b' }],
    ['no type', 'type', 400, { ...valid, type: undefined }],
    ['args that are no array', 'args', 400, { ...valid, args: {} }],
    ['an id', 'id', 400, { ...valid, id: '01890000-0000-7000-8000-000000000000' }],
    ['an invalid queue', 'options.queue', 400, { ...valid, options: { queue: 'A B' } }],
    ['a reserved queue', 'options.queue', 400, { ...valid, options: { queue: 'dlx.q' } }],
    [
      'an invalid delay_until',
      'options.delay_until',
      400,
      { ...valid, options: { delay_until: 'soon' } },
    ],
    [
      'an invalid retry policy',
      'options.retry.max_attempts',
      422,
      { ...valid, options: { retry: { max_attempts: -1 } } },
    ],
    ['a template without type', 'job_template.type', 400, { ...schedule, job_template: {} }],
    [
      'a template with a bad option',
      'job_template.options.priority',
      400,
      { ...schedule, job_template: { type: 'a', options: { priority: 1000 } } },
    ],
    ['a template with an id', 'job_template.id', 400, { ...schedule, job_template: { id: 'x' } }],
    ['meta that is too large', 'meta', 413, { ...valid, meta: { m: 'x'.repeat(65_500) } }],
  ])('refuses %s', async (_, field, status, body) => {
    const answer = await post(body)
    expect(answer.body.error).toMatchObject({
      code: 'invalid_request',
      details: { field: expect.stringMatching(new RegExp(`(^|\\.)${field.replace('.', '\\.')}$`)) },
    })
    expect(answer.status).toBe(status)
    expect((await gateway.request('GET', '/ojs/v1/cron/bad')).status).toBe(404)
  })

  it('validates args against their schema', async () => {
    const uri = 'urn:ojs:schema:report.make:v1'
    const schema = { type: 'array', prefixItems: [{ type: 'string' }], minItems: 1 }
    const registered = { uri, type: 'report.make', version: 1, schema }
    expect((await gateway.request('POST', '/ojs/v1/schemas', registered)).status).toBe(201)
    const refused = await post({ ...valid, schema: uri, args: [1] })
    expect(refused.status).toBe(400)
    expect(refused.body.error).toMatchObject({
      code: 'schema_validation',
      details: { field: 'args', validation_errors: [expect.any(Object)] },
    })
    const nested = await post({ ...schedule, job_template: { type: 'a', schema: uri, args: [] } })
    expect(nested.body.error.details.field).toBe('job_template.args')
    expect((await post({ ...valid, schema: uri, args: ['a'] })).status).toBe(201)
    expect((await show('bad')).schema).toBe(uri)
    await remove('bad')
  })

  it.each([
    ['cancel', 'cancel_previous'],
    ['replace', 'cancel_previous'],
    ['queue', 'enqueue'],
    [null, 'skip'],
  ])('reads the overlap policy %s as %s', async (alias, policy) => {
    const { name, entry } = await register({ overlap_policy: alias })
    expect(entry.overlap_policy).toBe(policy)
    await remove(name)
  })

  it('lists cron jobs in pages, as cron_jobs and as crons', async () => {
    const names = [(await register()).name, (await register()).name, (await register()).name]
    const { body } = await gateway.request('GET', '/ojs/v1/cron?limit=2&offset=1')
    expect(body.cron_jobs.map(({ name }: Json) => name)).toEqual(names.slice(1))
    expect(body.crons).toEqual(body.cron_jobs)
    expect(body.pagination).toEqual({ total: 3, limit: 2, offset: 1, has_more: false })
    expect((await gateway.request('GET', '/ojs/v1/cron?limit=x')).status).toBe(400)
    await remove(...names)
  })
})

describe('a tick of a cron job', () => {
  it('makes a job whose meta has the name and the time of the tick', async () => {
    const { name, queue } = await register({ meta: { owner: 'a' } })
    const entry = await tick(name)
    const job = await fetchOne(gateway, queue)
    const at = new Date(clock.wall()).toISOString()
    expect(job).toMatchObject({
      type: 'report.make',
      queue,
      meta: { owner: 'a', cron_name: name, cron_triggered_at: at },
    })
    expect(entry).toMatchObject({
      run_count: 1,
      last_run_at: at,
      last_job_id: job.id,
      next_run_at: new Date(clock.wall() + MINUTE_MS).toISOString(),
    })
    expect(await toldOf(name)).toMatchObject([
      {
        type: 'cron.triggered',
        subject: name,
        data: {
          cron_name: name,
          cron_expr: '* * * * *',
          job_type: 'report.make',
          job_id: job.id,
          queue,
          scheduled_at: at,
        },
      },
    ])
    expect(await storyOf(gateway, queue, job.id)).toEqual(['job.enqueued', 'job.started'])
    await remove(name)
    expect((await gateway.ack(job.id)).status).toBe(200)
  })

  it('makes a job with the options of the cron job', async () => {
    const queue = freshQueue()
    const delayed = await register({ options: { queue, delay_until: '+PT90S', priority: 7 } })
    await tick(delayed.name)
    const [event] = await toldOf(delayed.name)
    const { job } = (await gateway.get(event.data.job_id)).body
    expect(job).toMatchObject({
      state: 'scheduled',
      priority: 7,
      scheduled_at: new Date(clock.wall() + 90_000).toISOString(),
    })
    const pending = await register({ options: { queue, pending: true } })
    await tick(pending.name)
    const [staged] = await toldOf(pending.name)
    expect((await gateway.get(staged.data.job_id)).body.state).toBe('pending')
    await remove(delayed.name, pending.name)
  })

  it('follows the unique policy: it is skipped as duplicate, or replaces the other job', async () => {
    const queue = freshQueue()
    const unique = { keys: ['type', 'queue'], on_conflict: 'reject' }
    const { name } = await register({ overlap_policy: 'allow', options: { queue, unique } })
    const over = { type: 'report.make', options: { unique } }
    const { job } = (await gateway.push(queue, over)).body
    expect(await tick(name)).toMatchObject({ run_count: 0 })
    expect((await toldOf(name)).at(-1)).toMatchObject({
      type: 'cron.skipped',
      data: { reason: 'duplicate', existing_job_id: job.id },
    })
    await remove(name)
    const replacing = { ...unique, on_conflict: 'replace' }
    const other = await register({ options: { queue, unique: replacing } })
    const { last_job_id } = await tick(other.name)
    expect((await gateway.get(job.id)).body.state).toBe('cancelled')
    expect((await fetchOne(gateway, queue)).id).toBe(last_job_id)
    await remove(other.name)
  })

  it('comes once after a downtime, and then at the next regular time', async () => {
    const { name, queue, entry } = await register({ overlap_policy: 'allow' })
    await gateway.stop()
    clock.advance(60 * MINUTE_MS)
    await gateway.restart()
    await eventually(async () => (await show(name)).run_count > 0)
    expect(await show(name)).toMatchObject({
      run_count: 1,
      last_run_at: entry.next_run_at,
      next_run_at: new Date(Math.ceil((clock.wall() + 1) / MINUTE_MS) * MINUTE_MS).toISOString(),
    })
    const job = await fetchOne(gateway, queue)
    expect(job.meta.cron_triggered_at).toBe(entry.next_run_at)
    await tick(name)
    expect((await fetchOne(gateway, queue)).id).not.toBe(job.id)
    expect(await gateway.fetch([queue])).toEqual([])
    await remove(name)
  })

  it('comes at the next time from now when a clock that was a day ahead is set back', async () => {
    const { name, entry } = await register({ overlap_policy: 'allow' })
    const dayMs = 1440 * MINUTE_MS
    for (const isRunning of [true, false]) {
      const { run_count } = await show(name)
      clock.advance(dayMs)
      await eventually(async () => (await show(name)).run_count > run_count)
      if (!isRunning) await gateway.stop()
      clock.advance(-dayMs)
      if (!isRunning) await gateway.restart()
      await eventually(async () => (await show(name)).next_run_at === entry.next_run_at)
    }
    const { next_run_at } = await tick(name)
    clock.advance(-5 * MINUTE_MS)
    await gateway.restart()
    // A clock that was only minutes ahead does not repeat the times that have run.
    expect(await show(name)).toMatchObject({ run_count: 3, next_run_at })
    clock.advance(5 * MINUTE_MS)
    await remove(name)
  })

  it('is skipped while its queue is paused, and a queued tick stays queued', async () => {
    const { name, queue } = await register()
    const waiting = await register({ overlap_policy: 'enqueue', options: { queue } })
    await tick(waiting.name)
    const jobs = await fetchMany(gateway, queue, 2)
    await tick(waiting.name)
    const path = `/ojs/v1/queues/${queue}`
    expect((await gateway.request('POST', `${path}/pause`, {})).status).toBe(200)
    for (const { id } of jobs) await gateway.ack(id)
    expect(await tick(name)).toMatchObject({ run_count: 1 })
    expect((await toldOf(name)).at(-1)).toMatchObject({
      type: 'cron.skipped',
      data: { reason: 'queue_paused', scheduled_at: new Date(clock.wall()).toISOString() },
    })
    expect(await show(waiting.name)).toMatchObject({ run_count: 1, queued_ticks: 1 })
    expect((await gateway.request('POST', `${path}/resume`, {})).status).toBe(200)
    await eventually(async () => (await show(waiting.name)).run_count === 2)
    expect(await tick(name)).toMatchObject({ run_count: 2 })
    await remove(name, waiting.name)
  })

  it('does not come while the cron job is disabled, nor after it was deleted', async () => {
    const disabled = await register({ enabled: false })
    const gone = await register()
    const other = await register()
    await remove(gone.name)
    await tick(other.name)
    expect(await gateway.fetch([disabled.queue, gone.queue])).toEqual([])
    expect(await show(disabled.name)).toMatchObject({ run_count: 0, status: 'disabled' })
    await remove(disabled.name, other.name)
  })

  it('may come every second', async () => {
    const { name, queue } = await register({ cron: '* * * * * *', overlap_policy: 'allow' })
    for (let i = 0; i < 3; i++) await tick(name)
    const jobs = await fetchMany(gateway, queue, 3)
    const ticks = jobs.map(({ meta }) => Date.parse(meta.cron_triggered_at) - clock.wall())
    expect(new Set(ticks)).toEqual(new Set([-2_000, -1_000, 0]))
    await remove(name)
  })
})

describe('a tick while the previous job has not ended', () => {
  it('is skipped with cron.skipped under the policy skip (the default)', async () => {
    const { name, queue } = await register()
    await tick(name)
    const job = await fetchOne(gateway, queue)
    const scheduledAt = (await tick(name)).last_run_at
    expect(scheduledAt).toBe(new Date(clock.wall() - MINUTE_MS).toISOString())
    expect((await toldOf(name)).at(-1)).toMatchObject({
      type: 'cron.skipped',
      data: {
        reason: 'overlap',
        existing_job_id: job.id,
        scheduled_at: new Date(clock.wall()).toISOString(),
      },
    })
    expect(await gateway.fetch([queue])).toEqual([])
    await gateway.ack(job.id)
    expect(await tick(name)).toMatchObject({ run_count: 2 })
    await remove(name)
  })

  it('is skipped under the policy skip while that job is available or retryable, too', async () => {
    const retry = { max_attempts: 2, initial_interval_ms: 600_000, max_interval_ms: 600_000 }
    const queue = freshQueue()
    const { name } = await register({ options: { queue, retry } })
    await tick(name)
    expect(await tick(name)).toMatchObject({ run_count: 1 })
    const job = await fetchOne(gateway, queue)
    await nack(gateway, job.id)
    expect(await tick(name)).toMatchObject({ run_count: 1 })
    await gateway.cancel(job.id)
    expect(await tick(name)).toMatchObject({ run_count: 2 })
    await remove(name)
  })

  it('makes another job under the policy allow', async () => {
    const { name, queue } = await register({ overlap_policy: 'allow' })
    await tick(name)
    await tick(name)
    await fetchMany(gateway, queue, 2)
    await remove(name)
  })

  it('cancels that job and makes another under the policy cancel_previous', async () => {
    const { name, queue } = await register({ overlap_policy: 'cancel_previous' })
    await tick(name)
    const first = await fetchOne(gateway, queue)
    await tick(name)
    await untilState(gateway, first.id, 'cancelled')
    expect((await gateway.ack(first.id)).status).toBe(409)
    const second = await fetchOne(gateway, queue)
    expect(second.id).not.toBe(first.id)
    expect(await storyOf(gateway, queue, first.id)).toContain('job.cancelled')
    // A job that is not fetched yet is cancelled as well.
    await gateway.ack(second.id)
    const third = (await tick(name)).last_job_id
    await tick(name)
    expect((await gateway.get(third)).body.state).toBe('cancelled')
    expect((await fetchOne(gateway, queue)).id).toBe((await show(name)).last_job_id)
    await remove(name)
  })

  it('waits until that job has ended under the policy enqueue, one tick at a time and in order', async () => {
    const { name, queue } = await register({ overlap_policy: 'enqueue' })
    const at = (await tick(name)).last_run_at
    const first = await fetchOne(gateway, queue)
    await tick(name)
    expect(await tick(name)).toMatchObject({ run_count: 1, queued_ticks: 2, last_run_at: at })
    await gateway.restart()
    expect(await gateway.fetch([queue])).toEqual([])
    await gateway.ack(first.id)
    const second = await fetchOne(gateway, queue)
    expect(Date.parse(second.meta.cron_triggered_at)).toBe(Date.parse(at) + MINUTE_MS)
    expect(await gateway.fetch([queue])).toEqual([])
    expect(await show(name)).toMatchObject({ run_count: 2, queued_ticks: 1 })
    await gateway.cancel(second.id)
    const third = await fetchOne(gateway, queue)
    expect(Date.parse(third.meta.cron_triggered_at)).toBe(Date.parse(at) + 2 * MINUTE_MS)
    expect(await show(name)).not.toHaveProperty('queued_ticks')
    const types = (await toldOf(name)).map(({ type }) => type)
    expect(types.filter((type) => type === 'cron.skipped')).toEqual([])
    await remove(name)
  })

  it('is dropped under the policy enqueue when the cron job is deleted', async () => {
    const { name, queue } = await register({ overlap_policy: 'queue' })
    await tick(name)
    const job = await fetchOne(gateway, queue)
    await tick(name)
    await remove(name)
    await gateway.ack(job.id)
    const other = await register()
    await tick(other.name)
    expect(await gateway.fetch([queue])).toEqual([])
    await remove(other.name)
  })
})

it('a time that daylight saving time skips is reported together with the tick before it', async () => {
  clock.advance(Date.parse('2026-03-07T00:00:00Z') - clock.wall())
  const { name } = await register({ cron: '30 2 * * *', timezone: 'America/New_York' })
  expect(await tick(name)).toMatchObject({ next_run_at: '2026-03-09T06:30:00.000Z' })
  expect(await toldOf(name)).toMatchObject([
    { type: 'cron.triggered', data: { scheduled_at: '2026-03-07T07:30:00.000Z' } },
    {
      type: 'cron.skipped',
      data: { reason: 'dst_skip', scheduled_at: '2026-03-08T07:00:00.000Z' },
    },
  ])
  await remove(name)
})

it('at most 10,000 cron jobs can be registered', async () => {
  const change = async (sql: string, onPostgres?: string) => {
    await gateway.stop()
    await gateway.ledger.rows(sql, onPostgres)
    await gateway.restart()
  }
  await change(
    `INSERT INTO cron_jobs (name, enabled, expression, timezone, overlap, created_at, template)
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
      SELECT 'planted-' || i, 0, '* * * * *', 'UTC', 'skip', 0, '{"type":"a","args":[]}' FROM n`,
    `WITH n AS (SELECT i, 'planted-' || i AS name FROM generate_series(1, 9999) i), templates AS (
        INSERT INTO cron_templates SELECT name, '{"type":"a","args":[]}', 'default' FROM n)
      INSERT INTO cron_jobs (name, seq, run_count, is_enabled, expression, timezone, overlap, created_at)
      SELECT name, -i, 0, false, '* * * * *', 'UTC', 'skip', 0 FROM n`,
  )
  const last = { name: 'last', cron: '@yearly', type: 'a' }
  expect((await post(last)).status).toBe(201)
  const refused = await post({ ...last, name: 'one-more' })
  expect(refused.status).toBe(422)
  expect(refused.body.error).toMatchObject({
    code: 'unsupported',
    details: { reason: 'too_many_cron_jobs', limit: 10_000 },
  })
  const { body } = await gateway.request('GET', '/ojs/v1/cron?limit=1&offset=9999')
  expect(body.cron_jobs[0].name).toBe('last')
  await change(
    'DELETE FROM cron_jobs',
    'WITH templates AS (DELETE FROM cron_templates) DELETE FROM cron_jobs',
  )
})
