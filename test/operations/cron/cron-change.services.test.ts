import { describe, expect, it } from 'vitest'
import { eventually } from '../../support/gateway/in-process.ts'
import { HeldClock } from '../../support/time/held-clock.ts'
import { fetchOne, freshQueue, gatewayForAll } from '../harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const MINUTE_MS = 60_000
const clock = new HeldClock()
const { gateway } = gatewayForAll({}, { clock })

let count = 0

function entryOf(over: object = {}) {
  count += 1
  const queue = freshQueue()
  const own = { name: `entry-${count}`, cron: '* * * * *', type: 'report.make', args: [count] }
  return { queue, body: { ...own, options: { queue }, ...over } }
}

function post(body: object, query = ''): ReturnType<typeof gateway.request> {
  return gateway.request('POST', `/ojs/v1/cron${query}`, body)
}

async function register(over: object = {}) {
  const { queue, body } = entryOf(over)
  const answer = await post(body)
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body))
  return { queue, body, name: body.name, entry: answer.body.cron_job as Json }
}

async function show(name: string): Promise<Json> {
  return (await gateway.request('GET', `/ojs/v1/cron/${name}`)).body.cron_job
}

/** Moves the clock to the next time of the entry; the gateway looks for due entries every 100 ms. */
async function reach(name: string): Promise<string> {
  const { next_run_at } = await show(name)
  clock.advance(Date.parse(next_run_at) - clock.wall())
  return next_run_at
}

async function skippedOf(name: string): Promise<Json[]> {
  const { body } = await gateway.request('GET', '/ojs/v1/events?types=cron.skipped&limit=1000')
  return body.events.filter(({ subject }: Json) => subject === name).map(({ data }: Json) => data)
}

function remove(name: string): ReturnType<typeof gateway.request> {
  return gateway.request('DELETE', `/ojs/v1/cron/${name}`)
}

describe('a time that has come is not lost', () => {
  it('when the entry is deleted in the next milliseconds, and registered again', async () => {
    const { name, queue, body } = await register()
    const at = await reach(name)
    expect((await remove(name)).status).toBe(200)
    const again = await post(body)
    expect(again.status).toBe(201)
    const job = await fetchOne(gateway, queue)
    expect(job.meta).toMatchObject({ cron_name: name, cron_triggered_at: at })
    expect(again.body.cron_job.next_run_at).toBe(new Date(Date.parse(at) + MINUTE_MS).toISOString())
    expect(await gateway.fetch([queue])).toEqual([])
    expect((await remove(name)).status).toBe(200)
  })

  it('when the entry is replaced in the next milliseconds', async () => {
    const { name, queue, body } = await register()
    const at = await reach(name)
    const replaced = await post({ ...body, args: ['new'] }, '?replace=true')
    expect(replaced.status).toBe(200)
    const job = await fetchOne(gateway, queue)
    expect(job).toMatchObject({ args: body.args, meta: { cron_triggered_at: at } })
    expect(replaced.body.cron_job).toMatchObject({
      args: ['new'],
      run_count: 1,
      last_job_id: job.id,
      last_run_at: at,
      next_run_at: new Date(Date.parse(at) + MINUTE_MS).toISOString(),
    })
    await gateway.ack(job.id)
    await reach(name)
    expect((await fetchOne(gateway, queue)).args).toEqual(['new'])
    await remove(name)
  })

  it('but told, when its queue is paused at that moment', async () => {
    const { name, queue } = await register()
    await gateway.request('POST', `/ojs/v1/queues/${queue}/pause`, {})
    const at = await reach(name)
    expect((await remove(name)).status).toBe(200)
    expect(await skippedOf(name)).toMatchObject([{ reason: 'queue_paused', scheduled_at: at }])
  })
})

describe('times that wait for the end of a job (enqueue) are told', () => {
  it.each<[string, (name: string, body: object) => Promise<unknown>]>([
    ['deleted', remove],
    ['disabled', (_name, body) => post({ ...body, enabled: false }, '?replace=true')],
  ])('when their entry is %s', async (_what, change) => {
    const { name, queue, body } = await register({ overlap_policy: 'enqueue' })
    await reach(name)
    await fetchOne(gateway, queue)
    const waiting = [await reach(name)]
    await eventually(async () => Date.parse((await show(name)).next_run_at) > clock.wall())
    waiting.push(await reach(name))
    await eventually(async () => Date.parse((await show(name)).next_run_at) > clock.wall())
    // Replaced as it is: they go on waiting.
    await post(body, '?replace=true')
    expect(await skippedOf(name)).toEqual([])
    await change(name, body)
    const told = { reason: 'dropped', scheduled_at: waiting[0], count: 2, has_more: false }
    expect(await skippedOf(name)).toEqual([expect.objectContaining(told)])
    await remove(name)
    expect(await skippedOf(name)).toHaveLength(1)
    const metrics = (await gateway.request('GET', '/metrics')).body
    expect(metrics).toMatch(/^ojs_cron_ticks_total\{outcome="dropped"\} [24]$/m)
  })
})

describe('POST /cron?replace=true', () => {
  it('registers an entry that is new, and changes one that is there in every member', async () => {
    const { body } = entryOf({ description: 'old', options: {}, meta: { a: 1 } })
    const { name } = body
    const first = await post(body, '?replace=true')
    expect(first.status).toBe(201)
    const next = { ...entryOf({ name }).body, cron: '0 9 * * *', timezone: 'Asia/Tokyo' }
    clock.advance(1_000)
    const { status, body: answer, headers } = await post(next, '?replace=true')
    expect(status).toBe(200)
    expect(headers.get('location')).toBe(`/ojs/v1/cron/${name}`)
    expect(answer.cron_job).toEqual({
      ...next,
      expression: '0 9 * * *',
      overlap_policy: 'skip',
      status: 'active',
      enabled: true,
      run_count: 0,
      next_run_at: '2026-02-13T00:00:00.000Z',
      created_at: first.body.cron_job.created_at,
    })
    expect(await show(name)).toEqual(answer.cron_job)
    await remove(name)
  })

  it('leaves the running job to the overlap policy of the new definition', async () => {
    const { name, queue, body } = await register()
    await reach(name)
    const job = await fetchOne(gateway, queue)
    await post({ ...body, overlap_policy: 'cancel_previous' }, '?replace=true')
    await reach(name)
    expect((await fetchOne(gateway, queue)).id).not.toBe(job.id)
    expect((await gateway.get(job.id)).body.job.state).toBe('cancelled')
    await remove(name)
  })

  it('changes nothing when the new definition is refused, and is an error with any other value', async () => {
    const { name, body, entry } = await register()
    expect((await post({ ...body, cron: 'x' }, '?replace=true')).status).toBe(400)
    const wrong = await post(body, '?replace=yes')
    expect(wrong.status).toBe(400)
    expect(wrong.body.error.details.field).toBe('replace')
    expect((await post(body, '?replace=false')).status).toBe(409)
    expect(await show(name)).toEqual(entry)
    await remove(name)
  })
})

describe('an entry whose jobs could never run is refused', () => {
  it.each<[string, string, object]>([
    ['an expiry in the past', 'options.expires_at', { expires_at: '2026-02-01T00:00:00Z' }],
    ['an expiry at the first time', 'options.expires_at', { expires_at: '2026-02-12T13:00:00Z' }],
    [
      'an expiry before the delay is over',
      'options.expires_at',
      { expires_at: '+PT1H', delay_until: '+PT1H' },
    ],
    ['an expiry at once', 'options.expires_at', { expires_at: '+PT0S' }],
    [
      'a delay beyond the expiry',
      'options.expires_at',
      { expires_at: '2026-02-12T13:00:10Z', delay_until: '+PT10S' },
    ],
    ['an absolute delay', 'options.delay_until', { delay_until: '2027-01-01T00:00:00Z' }],
    ['an absolute time', 'options.scheduled_at', { scheduled_at: '2027-01-01T00:00:00Z' }],
    ['a time in the past', 'options.scheduled_at', { scheduled_at: '2020-01-01T00:00:00+01:00' }],
    [
      'an activation after the end',
      'options.expires_at',
      { pending: true, scheduled_at: '+PT9S', expires_at: '+PT5S' },
    ],
  ])('%s', async (_, field, options) => {
    // The first time is 2026-02-12T13:00:00Z.
    const { body } = entryOf({ cron: '0 13 * * *', options })
    const { status, body: answer } = await post(body)
    expect(answer.error).toMatchObject({ code: 'invalid_request', details: { field } })
    expect(status).toBe(400)
    const { name, cron, ...template } = body
    const nested = await post({ name, cron, job_template: template })
    expect(nested.body.error.details.field).toBe(`job_template.${field}`)
  })

  it('but not one whose jobs have time', async () => {
    for (const options of [
      { expires_at: '2026-02-12T13:00:01Z' },
      { expires_at: '+PT1S' },
      { delay_until: '+PT10S', expires_at: '+PT11S' },
      { pending: true, scheduled_at: '+P1D', expires_at: '+P2D' },
    ]) {
      const { name } = await register({ cron: '0 13 * * *', options })
      await remove(name)
    }
  })
})

it('an entry whose times meet a change of the clocks is registered with warnings', async () => {
  const { body } = entryOf({ cron: '30 2 * * *', timezone: 'Europe/Berlin' })
  const first = await post(body)
  expect(first.body.warnings).toEqual([
    {
      code: 'skipped_times',
      at: '2026-03-29T01:00:00.000Z',
      message: expect.stringContaining('02:00 to 03:00'),
    },
    {
      code: 'repeated_times',
      at: '2026-10-25T01:00:00.000Z',
      message: expect.stringContaining('makes one job, the first time'),
    },
  ])
  const replaced = await post({ ...body, timezone: 'UTC' }, '?replace=true')
  expect(replaced.body).not.toHaveProperty('warnings')
  await remove(body.name)
  await eventually(async () => (await show(body.name)) === undefined)
})
