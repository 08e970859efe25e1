import { beforeEach, describe, expect, it } from 'vitest'
import { HeldClock } from '../support/time/held-clock.ts'
import { fetchOne, freshQueue, gatewayForAll, startJob, stateOf } from './harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const MINUTE_MS = 60_000
const clock = new HeldClock()
const { gateway } = gatewayForAll({}, { clock })

const PATH = '/ojs/v1/admin/system/maintenance'
const set = (body: object, path = PATH) => gateway.request('POST', path, body)
const begin = (over: object = {}) => set({ enabled: true, ...over })
const end = () => set({ enabled: false })
const job = (queue: string) => ({ type: 't', args: [], options: { queue } })
const health = async (): Promise<Json> => (await gateway.request('GET', '/ojs/v1/health')).body

describe('maintenance (ADM-R004)', () => {
  let queue = ''
  beforeEach(async () => {
    queue = freshQueue()
    await end()
  })

  it('refuses new work with 503, its reason and Retry-After, until it ends', async () => {
    await gateway.push(queue)
    const started = new Date(clock.wall()).toISOString()
    const over = new Date(clock.wall() + 2 * MINUTE_MS).toISOString()
    const begun = await begin({ reason: 'move of the broker', estimated_duration: '2m' })
    const mode = {
      enabled: true,
      maintenance: true,
      reason: 'move of the broker',
      started_at: started,
      enabled_at: started,
      ends_at: over,
      estimated_end: over,
    }
    expect([begun.status, begun.body]).toEqual([200, mode])
    expect((await gateway.request('GET', PATH)).body).toEqual(mode)
    expect((await gateway.request('GET', '/ojs/v1/admin/maintenance')).body).toEqual(mode)

    const refused = [
      await gateway.request('POST', '/ojs/v1/jobs', job(queue)),
      await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs: [job(queue)] }),
      await gateway.request('POST', '/ojs/v1/workflows', {
        name: 'w',
        steps: [{ id: 'a', ...job(queue) }],
      }),
    ]
    for (const { status, body, headers } of refused) {
      expect([status, body.error.code, body.error.retryable]).toEqual([503, 'backend_error', true])
      expect(body.error.details).toEqual({
        reason: 'maintenance',
        maintenance_reason: 'move of the broker',
        ends_at: over,
      })
      expect(headers.get('Retry-After')).toBe('120')
    }
    expect(await health()).toMatchObject({
      status: 'ok',
      maintenance: true,
      warnings: [expect.objectContaining({ code: 'maintenance' })],
    })

    expect((await end()).body).toEqual({ enabled: false, maintenance: false })
    expect((await gateway.push(queue)).status).toBe(201)
    expect(await health()).toMatchObject({ maintenance: false, warnings: [] })
    const { body } = await gateway.request('GET', '/ojs/v1/events?limit=1000')
    const told = body.events.filter(({ type }: Json) => type.startsWith('system.maintenance.'))
    expect(told.map(({ type }: Json) => type)).toEqual([
      'system.maintenance.started',
      'system.maintenance.ended',
    ])
    expect(told[0]).toMatchObject({ subject: 'system', data: { reason: 'move of the broker' } })
  })

  it('lets everything else go on: FETCH, ACK, retries, activation, steps of workflows', async () => {
    const pending = (await gateway.push(queue, { options: { pending: true } })).body.job
    const steps = [
      { id: 'a', ...job(queue) },
      { id: 'b', ...job(queue), depends_on: ['a'] },
    ]
    const active = await startJob(gateway, freshQueue())
    await gateway.request('POST', '/ojs/v1/workflows', { name: 'w', steps })
    await begin()
    expect((await gateway.ack(active.id)).status).toBe(200)
    const first = await fetchOne(gateway, queue)
    await gateway.ack(first.id)
    const second = await fetchOne(gateway, queue)
    expect(second.workflow_step).toBe('b')
    await gateway.ack(second.id)
    await gateway.request('POST', `/ojs/v1/jobs/${pending.id}/activate`, {})
    expect((await fetchOne(gateway, queue)).id).toBe(pending.id)
    await gateway.ack(pending.id)
    expect(await stateOf(gateway, pending.id)).toBe('completed')
  })

  it('fires no cron entry; afterwards each catches up with one job', async () => {
    const name = queue
    const entry = { name, cron: '* * * * *', ...job(queue) }
    const { body } = await gateway.request('POST', '/ojs/v1/cron', entry)
    const first = Date.parse(body.cron_job.next_run_at)
    await begin()
    clock.advance(first - clock.wall() + 3 * MINUTE_MS)
    // Several looks of the timer long.
    expect(await gateway.fetch([queue], { wait_ms: 500 })).toEqual([])
    await end()
    const made = await fetchOne(gateway, queue)
    expect(made.meta.cron_triggered_at).toBe(new Date(first).toISOString())
    expect(await gateway.fetch([queue])).toEqual([])
    await gateway.ack(made.id)
    await gateway.request('DELETE', `/ojs/v1/cron/${name}`)
  })

  it('skips the time of an entry that comes before the entry is deleted', async () => {
    const name = queue
    const entry = { name, cron: '* * * * *', ...job(queue) }
    const { body } = await gateway.request('POST', '/ojs/v1/cron', entry)
    await begin()
    clock.advance(Date.parse(body.cron_job.next_run_at) - clock.wall())
    expect((await gateway.request('DELETE', `/ojs/v1/cron/${name}`)).status).toBe(200)
    const events = await gateway.request('GET', '/ojs/v1/events?types=cron.skipped&limit=1000')
    const own = events.body.events.filter(({ subject }: Json) => subject === name)
    expect(own.map(({ data }: Json) => data.reason)).toEqual(['maintenance'])
    await end()
    expect(await gateway.fetch([queue], { wait_ms: 200 })).toEqual([])
  })

  it('keeps its start when it is begun again, and warns once its end has passed', async () => {
    const { body } = await begin({ duration: 60 })
    clock.advance(2 * MINUTE_MS)
    const [{ message }] = (await health()).warnings
    expect(message).toContain('does not end by itself')
    const again = await begin({ reason: 'longer' })
    expect(again.body).toEqual({
      enabled: true,
      maintenance: true,
      reason: 'longer',
      started_at: body.started_at,
      enabled_at: body.started_at,
    })
    expect((await gateway.push(queue)).headers.get('Retry-After')).toBe('30')
  })

  it.each([
    [{}, 'enabled'],
    [{ enabled: 'true' }, 'enabled'],
    [{ enabled: true, until: 'x' }, 'until'],
    [{ enabled: true, duration: 'soon' }, 'duration'],
    [{ enabled: true, duration: 1, estimated_duration: 2 }, 'duration'],
  ])('is a 400 that names the member for %j', async (body, field) => {
    const { status, body: answered } = await set(body)
    expect([status, answered.error.details.field]).toEqual([400, field])
    expect((await gateway.request('GET', PATH)).body.enabled).toBe(false)
  })
})

it.each(['system/config', 'config'])(
  'GET /ojs/v1/admin/%s has the settings in use',
  async (name) => {
    const { body } = await gateway.request('GET', `/ojs/v1/admin/${name}`)
    expect(body.retention_completed).toEqual({ value: 'PT604800S', source: 'default' })
    expect(body.delay_mode).toEqual({ value: 'ttl', source: 'default' })
  },
)
