import { describe, expect, it } from 'vitest'
import { AheadClock } from '../../support/time/ahead-clock.ts'
import {
  deadIds,
  eventsOf,
  fetchMany,
  fetchOne,
  freshQueue,
  gatewayForAll,
  stateOf,
} from '../harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const HOUR_MS = 3_600_000
/** No lease or timeout ends by itself when the clock is moved. */
const LONG = { visibility_timeout_ms: HOUR_MS, timeout_ms: 0 }

const clock = new AheadClock()
const { gateway } = gatewayForAll({}, { clock })

const remove = (id: string) => gateway.request('DELETE', `/ojs/v1/admin/workers/${id}`)
const listed = async () =>
  (await gateway.request('GET', '/ojs/v1/admin/workers')).body.items.map(({ id }: Json) => id)

describe('DELETE /ojs/v1/admin/workers/:id', () => {
  it('gives the jobs of a stale worker back at once, and takes it off the list', async () => {
    const queue = freshQueue()
    for (let i = 0; i < 3; i++) await gateway.push(queue, { options: LONG })
    await gateway.push(queue, { options: { ...LONG, retry: { max_attempts: 1 } } })
    const jobs = await fetchMany(gateway, queue, 4, { worker_id: 'gone' })
    const other = freshQueue()
    await gateway.push(other, { options: LONG })
    const kept = await fetchOne(gateway, other, { worker_id: 'alive' })
    const health = async (id: string) => {
      const answer = await gateway.request('GET', `/ojs/v1/workers/${id}/health`)
      return [answer.status, answer.body.state, answer.body.active_jobs]
    }
    expect(await health('gone')).toEqual([200, 'running', 4])
    clock.aheadMs += 31_000
    await gateway.fetch([other], { worker_id: 'alive' })
    await gateway.request('POST', '/ojs/v1/admin/workers/alive/quiet')
    expect(await health('gone')).toEqual([503, 'stale', 4])
    expect(await health('alive')).toEqual([200, 'draining', 1])
    expect((await health('unknown'))[0]).toBe(404)

    const { status, body } = await remove('gone')
    expect([status, body]).toEqual([
      200,
      { deregistered: true, id: 'gone', jobs_requeued: 3, jobs_discarded: 1 },
    ])
    expect(await listed()).not.toContain('gone')
    expect(await stateOf(gateway, kept.id)).toBe('active')
    await gateway.ack(kept.id)

    const last = jobs.find(({ max_attempts }) => max_attempts === 1)
    expect(await deadIds(gateway, queue)).toEqual([last?.id])
    const again = await fetchMany(gateway, queue, 3, { worker_id: 'next' })
    for (const job of again) {
      expect(job).toMatchObject({ attempt: 2, errors: [{ code: 'worker_death', attempt: 1 }] })
      // The worker that was deregistered has no lease any more.
      const late = { job_id: job.id, worker_id: 'gone', attempt: 1 }
      expect((await gateway.request('POST', '/ojs/v1/workers/ack', late)).status).toBe(409)
      await gateway.ack(job.id)
    }
    const [job] = again
    const history = (await gateway.request('GET', `/ojs/v1/jobs/${job.id}/history`)).body.events
    expect(JSON.stringify(history)).toContain('worker_deregistered')
    const stopped = await gateway.request('GET', '/ojs/v1/events?types=worker.stopped')
    expect(stopped.body.events).toMatchObject([
      { subject: 'gone', data: { worker_id: 'gone', reason: 'deregistered' } },
    ])
    expect(await eventsOf(gateway, queue, job.id)).not.toEqual([])
    expect(await remove('gone')).toMatchObject({
      status: 404,
      body: { error: { code: 'not_found' } },
    })
  })

  it('gives the jobs of a worker back that was forgotten since, or never heard of', async () => {
    const queue = freshQueue()
    await gateway.push(queue, { options: LONG })
    const job = await fetchOne(gateway, queue, { worker_id: 'forgotten' })
    clock.aheadMs += 301_000
    const [worker] = (await gateway.request('GET', '/ojs/v1/admin/workers')).body.items
    expect(worker).toMatchObject({
      ...{ id: 'forgotten', state: 'stale', queues: [queue], active_jobs: 1 },
      last_seen_at: job.started_at,
    })
    const { worker_summary } = (await gateway.request('GET', '/ojs/v1/admin/stats')).body
    expect(worker_summary).toMatchObject({ total: 1, stale: 1 })
    const detail = await gateway.request('GET', '/ojs/v1/admin/workers/forgotten')
    expect(detail.body.jobs).toMatchObject([{ id: job.id }])
    expect((await remove('forgotten')).body).toMatchObject({ jobs_requeued: 1 })
    expect(await listed()).toEqual([])
    expect(await stateOf(gateway, job.id)).toBe('available')
  })

  it('is for a worker of before the start only once that has been silent for 30 s', async () => {
    const queue = freshQueue()
    await gateway.push(queue, { options: LONG })
    const job = await fetchOne(gateway, queue, { worker_id: 'before' })
    await gateway.restart()
    const stateShown = async () =>
      (await gateway.request('GET', '/ojs/v1/admin/workers/before')).body.state
    expect([await listed(), await stateShown()]).toEqual([['before'], 'running'])
    expect((await remove('before')).status).toBe(409)
    clock.aheadMs += 31_000
    expect([await listed(), await stateShown()]).toEqual([['before'], 'stale'])
    expect((await remove('before')).body).toMatchObject({ jobs_requeued: 1 })
    expect(await stateOf(gateway, job.id)).toBe('available')
  })

  it('is refused for a worker that was heard of lately, whose jobs go on', async () => {
    const queue = freshQueue()
    await gateway.push(queue, { options: LONG })
    const job = await fetchOne(gateway, queue, { worker_id: 'busy' })
    const { status, body } = await remove('busy')
    expect([status, body.error.code, body.error.details.reason]).toEqual([
      409,
      'invalid_request',
      'invalid_state_transition',
    ])
    expect(await stateOf(gateway, job.id)).toBe('active')
    await gateway.ack(job.id)
  })
})

describe('POST /ojs/v1/admin/workers/directive', () => {
  const direct = (body: object) => gateway.request('POST', '/ojs/v1/admin/workers/directive', body)
  const stateIn = async (worker_id: string) =>
    (await gateway.request('POST', '/ojs/v1/workers/heartbeat', { worker_id })).body.directive

  it('tells all workers, and takes quiet back, but not terminate', async () => {
    const ids = ['d1', 'd2']
    for (const id of ids) await stateIn(id)
    const known = (await listed()).length
    expect((await direct({ directive: 'quiet' })).body).toEqual({ workers: known })
    expect(await Promise.all(ids.map(stateIn))).toEqual(['quiet', 'quiet'])
    const one = await gateway.request('POST', '/ojs/v1/admin/workers/d2/terminate', {})
    expect(one.body).toMatchObject({ id: 'd2', directive: 'terminate', worker: { id: 'd2' } })
    expect((await direct({ directive: 'resume' })).body).toEqual({ workers: known - 1 })
    expect(await Promise.all(ids.map(stateIn))).toEqual(['running', 'terminate'])
  })

  it.each([
    [{}, 'directive'],
    [{ directive: 'stop' }, 'directive'],
    [{ directive: 'quiet', worker: 'd1' }, 'worker'],
  ])('is a 400 that names the member for %j', async (body, field) => {
    const { status, body: answered } = await direct(body)
    expect([status, answered.error.details.field]).toEqual([400, field])
  })
})
