import { describe, expect, it } from 'vitest'
import { systemClock } from '../../../src/clock.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { deadIds, fetchOne, freshQueue, gatewayForAll, nack, startJob } from '../harness.ts'

const { vhost, gateway } = gatewayForAll()

const purge = (queue: string, body?: object, query = '') =>
  gateway.request('DELETE', `/ojs/v1/admin/queues/${queue}/jobs${query}`, body)

async function filled(queue: string) {
  const done = await startJob(gateway, queue)
  await gateway.ack(done.id)
  const dead = await startJob(gateway, queue, { retry: { max_attempts: 1 } })
  await nack(gateway, dead.id)
  const active = await startJob(gateway, queue)
  const waiting = (await gateway.push(queue)).body.job
  const later = (await gateway.push(queue, { options: { delay_until: '+PT1H' } })).body.job
  return { done, dead, active, waiting, later }
}

describe('DELETE /ojs/v1/admin/queues/:name/jobs (ADM-R001)', () => {
  it('removes jobs of the states that are named, cancels those that wait, and leaves active ones', async () => {
    const queue = freshQueue()
    const { done, dead, active, waiting, later } = await filled(queue)
    const states = ['completed', 'discarded', 'available', 'scheduled']
    const dry = await purge(queue, { states, dry_run: true })
    expect([dry.status, dry.body]).toEqual([200, { dry_run: true, states, matched: 4 }])
    expect((await gateway.get(done.id)).status).toBe(200)

    const { status, body } = await purge(queue, { states, confirm: true })
    expect([status, body]).toEqual([200, { purged_count: 4, states }])
    for (const { id } of [done, dead, waiting, later]) {
      expect((await gateway.get(id)).status, id).toBe(404)
    }
    expect(await deadIds(gateway, queue)).toEqual([])
    expect((await gateway.get(active.id)).body.job.state).toBe('active')
    await gateway.ack(active.id)
    // The message of the job that waited is dropped when it arrives.
    expect(await gateway.fetch([queue])).toEqual([])
    await eventually(async () => (await vhost.queue(`ojs.queue.${queue}`))?.['messages'] === 0)
    const { stats } = (await gateway.request('GET', `/ojs/v1/queues/${queue}/stats`)).body
    expect(stats).toMatchObject({ available: 0, scheduled: 0, discarded: 0, completed: 1 })
  })

  it('takes query parameters instead of a body, and an age', async () => {
    const queue = freshQueue()
    const done = await startJob(gateway, queue)
    await gateway.ack(done.id)
    const old = await purge(
      queue,
      undefined,
      '?states=completed,cancelled&older_than=1h&confirm=true',
    )
    expect(old.body).toEqual({ purged_count: 0, states: ['completed', 'cancelled'] })
    const all = await purge(queue, undefined, '?states=completed&older_than=0s&confirm=true')
    expect(all.body.purged_count).toBe(1)
  })

  it('takes more jobs than one page, and none of other queues', async () => {
    const [queue, other] = [freshQueue(), freshQueue()]
    const jobs = Array.from({ length: 130 }, () => ({ type: 't', args: [], options: { queue } }))
    await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })
    await gateway.push(other)
    const { body } = await purge(queue, { states: ['available'], confirm: true })
    expect(body.purged_count).toBe(130)
    expect((await fetchOne(gateway, other)).queue).toBe(other)
  })

  it('keeps the rows of workflows, whose jobs it cancels', async () => {
    const queue = freshQueue()
    const steps = [{ id: 'a', type: 't', args: [], options: { queue } }]
    const { body } = await gateway.request('POST', '/ojs/v1/workflows', { name: 'w', steps })
    const purged = await purge(queue, { states: ['available'], confirm: true })
    expect(purged.body).toMatchObject({ purged_count: 0, kept_for_workflows: 1 })
    await eventually(async () => {
      const { workflow } = (await gateway.request('GET', `/ojs/v1/workflows/${body.id}`)).body
      return workflow.state !== 'running'
    })
    const again = await purge(queue, { states: ['cancelled'], confirm: true })
    expect(again.body).toMatchObject({ purged_count: 0, kept_for_workflows: 1 })
  })

  it.each([
    [{}, 'states'],
    [{ states: ['completed'] }, 'confirm'],
    [{ states: ['completed'], confirm: false }, 'confirm'],
    [{ states: ['completed'], confirm: 'true' }, 'confirm'],
    [{ states: ['active'], confirm: true }, 'states[0]'],
    [{ states: [], confirm: true }, 'states'],
    [{ states: ['completed'], confirm: true, sate: 'x' }, 'sate'],
    [{ states: ['completed'], confirm: true, older_than: 'soon' }, 'older_than'],
  ])('ADM: is a 400 that names the member for %j, and removes nothing', async (body, field) => {
    const queue = freshQueue()
    const done = await startJob(gateway, queue)
    await gateway.ack(done.id)
    const { status, body: answered } = await purge(queue, body)
    expect([status, answered.error.details.field]).toEqual([400, field])
    expect((await gateway.get(done.id)).status).toBe(200)
  })

  it('is a 400 if body and query differ, and a 404 for an unknown queue', async () => {
    const both = await purge(
      freshQueue(),
      { states: ['completed'], confirm: true },
      '?states=cancelled',
    )
    expect([both.status, both.body.error.details.field]).toEqual([400, 'states'])
    const none = await purge(freshQueue(), { states: ['completed'], confirm: true })
    expect(none.status).toBe(404)
  })
})

describe('POST /ojs/v1/queues', () => {
  const create = (body: object) => gateway.request('POST', '/ojs/v1/queues', body)

  it('creates a queue, once', async () => {
    const queue = freshQueue()
    const { status, body } = await create({ name: queue })
    expect([status, body]).toEqual([
      201,
      { name: queue, state: 'active', config: {}, created_at: expect.any(String) },
    ])
    expect(await vhost.queue(`ojs.queue.${queue}`)).toBeDefined()
    expect((await create({ name: queue })).body.error.code).toBe('duplicate')
  })

  it.each([
    [{}, 'name'],
    [{ name: 'NO' }, 'name'],
    [{ name: 'dlx.a' }, 'name'],
    [{ name: 'a', config: { max_size: 1 } }, 'config'],
  ])('is a 400 that names the member for %j', async (body, field) => {
    const { status, body: answered } = await create(body)
    expect([status, answered.error.details.field]).toEqual([400, field])
  })
})

describe('POST /ojs/v1/admin/queues/:name/pause and /resume (ADM-002)', () => {
  it('pause and resume a queue; a second pause answers the first time', async () => {
    const queue = freshQueue()
    await gateway.push(queue)
    const call = async (verb: string, name = queue) =>
      await gateway.request('POST', `/ojs/v1/admin/queues/${name}/${verb}`)
    const first = (await call('pause')).body
    expect(first).toEqual({
      name: queue,
      state: 'paused',
      paused: true,
      paused_at: expect.any(String),
    })
    expect((await call('pause')).body).toEqual(first)
    expect(await gateway.fetch([queue])).toEqual([])
    expect((await call('resume')).body).toMatchObject({ state: 'active', paused: false })
    await fetchOne(gateway, queue)
    expect((await call('pause', freshQueue())).status).toBe(404)
  })
})

describe("an age, after the machine's clock was set back by an hour", () => {
  const system = systemClock()
  const clock = { now: () => system.now(), wall: () => system.wall() - 3_600_000 }
  const { gateway: behind } = gatewayForAll({}, { clock })

  it('counts from now as the times of the jobs do, in a purge and in a list', async () => {
    const queue = freshQueue()
    const done = await startJob(behind, queue)
    await behind.ack(done.id)
    const listed = async (query: string) =>
      (await behind.request('GET', `/ojs/v1/jobs?queue=${queue}&${query}`)).body.jobs.length
    expect([await listed('until=0s'), await listed('ended_until=30m')]).toEqual([1, 0])
    const body = { states: ['completed'], older_than: '0s', confirm: true }
    const purged = await behind.request('DELETE', `/ojs/v1/admin/queues/${queue}/jobs`, body)
    expect(purged.body.purged_count).toBe(1)
  })
})
