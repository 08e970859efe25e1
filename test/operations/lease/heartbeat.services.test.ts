import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createVhost, type Vhost } from '../../support/broker/rabbit.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { eventually, startTestGateway, type TestGateway } from '../../support/gateway/in-process.ts'
import { AheadClock } from '../../support/time/ahead-clock.ts'
import { samplesOf, scrape } from '../../telemetry/exposition-text.ts'

/** The margin is two minutes, so a lease of more than one minute has its delivery acknowledged early. */
const DELIVERY_TIMEOUT_MS = 180_000
const UNKNOWN_ID = '019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d6'

let vhost: Vhost
let proxy: TcpProxy
let gateway: TestGateway
const clock = new AheadClock()
let queue = ''
let count = 0

beforeAll(async () => {
  vhost = await createVhost()
  proxy = await TcpProxy.start(vhost.url)
  const env = { OJS_DELIVERY_TIMEOUT_MS: String(DELIVERY_TIMEOUT_MS) }
  gateway = await startTestGateway(proxy.url, env, { clock })
})
afterAll(async () => {
  await gateway.destroy()
  await proxy.stop()
  await vhost.drop()
})
beforeEach(() => {
  count += 1
  queue = `beat-${count}`
})

/** Pushes jobs to this test's queue, without an execution timeout, and leases them to `workerId`. */
async function leased(workerId: string, jobs = 1, terms: object = {}): Promise<string[]> {
  const ids: string[] = []
  for (let i = 0; i < jobs; i++) {
    const pushed = await gateway.push(queue, { options: { timeout_ms: 0 } })
    ids.push(pushed.body.job.id)
  }
  const got: string[] = []
  await eventually(async () => {
    const fetched = await gateway.fetch([queue], { count: jobs, worker_id: workerId, ...terms })
    got.push(...fetched.map(({ id }) => id))
    return got.length === jobs
  })
  return ids
}

const beat = (workerId: string, said: object = {}) =>
  gateway.request('POST', '/ojs/v1/workers/heartbeat', { worker_id: workerId, ...said })

/** The heartbeat events of this test's queue. */
async function beats(): Promise<Record<string, unknown>[]> {
  const path = `/ojs/v1/events?types=job.heartbeat&queues=${queue}&limit=1000`
  const { body } = await gateway.request('GET', path)
  return body.events.map(({ data }: { data: Record<string, unknown> }) => data)
}

const stateOf = async (id = '') => (await gateway.get(id)).body.state

describe('BEAT', () => {
  it('answers as seed 001 §10.4 says, and emits job.heartbeat', async () => {
    const [id = ''] = await leased('w1')
    const before = Date.now() + clock.aheadMs
    const { status, body } = await beat('w1', { active_jobs: [id], visibility_timeout_ms: 45_000 })
    const after = Date.now() + clock.aheadMs
    expect(status).toBe(200)
    expect(body).toEqual({
      state: 'running',
      directive: 'running',
      jobs_extended: [id],
      cancelled_jobs: [],
      server_time: expect.any(String),
      heartbeat_interval_ms: 5_000,
    })
    const serverTime = Date.parse(body.server_time)
    expect(serverTime).toBeGreaterThanOrEqual(before)
    expect(serverTime).toBeLessThanOrEqual(after)
    const [event] = await beats()
    expect(event).toMatchObject({ job_id: id, worker_id: 'w1', attempt: 1, state: 'active' })
    const visibleUntil = Date.parse(String(event?.['visible_until']))
    // 5 ms of tolerance, since the clock that leases use may round differently.
    expect(visibleUntil).toBeGreaterThanOrEqual(before + 45_000 - 5)
    expect(visibleUntil).toBeLessThanOrEqual(after + 45_000 + 5)
    await gateway.ack(id)
  })

  it('extends a lease by its original length, while a job that is not named becomes available', async () => {
    const [kept, silent] = await leased('w1', 2)
    for (let i = 0; i < 2; i++) {
      clock.aheadMs += 20_000
      const { body } = await beat('w1', { active_jobs: [kept] })
      expect(body.jobs_extended).toEqual([kept])
    }
    await eventually(async () => (await stateOf(silent)) === 'available')
    expect(await stateOf(kept)).toBe('active')
    expect((await gateway.ack(kept ?? '', { worker_id: 'w1', attempt: 1 })).status).toBe(200)
    await gateway.cancel(silent ?? '')
  })

  it('accepts active_jobs, active_job_ids and job_id together, and extends each job once', async () => {
    const [a = '', b = '', c = '', d = ''] = await leased('w1', 4)
    const all = await beat('w1', { active_jobs: [a, b, a], active_job_ids: [b, c], job_id: d })
    expect(all.body.jobs_extended).toEqual([a, b, c, d])
    const counted = await beat('w1', { active_jobs: 9, active_job_ids: [c] })
    expect(counted.body.jobs_extended).toEqual([c])
    expect((await beat('w1', { active_jobs: 4 })).body.jobs_extended).toEqual([])
    expect((await beat('w1', { active_jobs: null, job_id: null })).status).toBe(200)
    // An invalid id in the list does not keep the other jobs from being extended.
    const odd = await beat('w1', { active_jobs: ['', 'x'.repeat(256), a, `${b}\u0000`] })
    expect(odd.body.jobs_extended).toEqual([a])
    expect(await beats()).toHaveLength(6)
    for (const id of [a, b, c, d]) await gateway.ack(id)
  })

  it('answers 200 and leaves out unknown, completed and other workers’ jobs', async () => {
    const [mine = '', done = ''] = await leased('w1', 2)
    const [theirs = ''] = await leased('w2')
    const nobodys = (await leasedWithoutOwner())[0] ?? ''
    await gateway.ack(done)
    const ids = [UNKNOWN_ID, theirs, done, mine, nobodys, 'no-uuid']
    const { status, body } = await beat('w1', { active_jobs: ids })
    expect(status).toBe(200)
    expect(body).toMatchObject({ jobs_extended: [mine, nobodys], cancelled_jobs: [] })
    for (const id of [mine, theirs, nobodys]) await gateway.ack(id)
  })

  async function leasedWithoutOwner(): Promise<string[]> {
    const pushed = await gateway.push(queue)
    const [job] = await gateway.fetch([queue], { wait_ms: 15_000 })
    expect(job.id).toBe(pushed.body.job.id)
    return [job.id]
  }

  it('lists a cancelled job in cancelled_jobs for its own worker only', async () => {
    const [cancelled = '', running = ''] = await leased('w1', 2)
    await gateway.cancel(cancelled)
    const said = { active_jobs: [cancelled, running] }
    expect((await beat('w1', said)).body).toMatchObject({
      jobs_extended: [running],
      cancelled_jobs: [cancelled],
    })
    expect((await beat('w2', said)).body).toMatchObject({ jobs_extended: [], cancelled_jobs: [] })
    const single = await beat('w1', { job_id: cancelled, attempt: 1 })
    expect(single).toMatchObject({ status: 200, body: { cancelled_jobs: [cancelled] } })
    await gateway.ack(running)
  })

  it('still works after a restart of the gateway', async () => {
    const [id = ''] = await leased('w1')
    await gateway.restart()
    const { body } = await beat('w1', { active_jobs: [id], attempt: 1 })
    expect(body.jobs_extended).toEqual([id])
    clock.aheadMs += 20_000
    await beat('w1', { active_jobs: [id] })
    clock.aheadMs += 20_000
    expect((await gateway.ack(id, { worker_id: 'w1', attempt: 1 })).status).toBe(200)
  })

  it('works while RabbitMQ is unreachable', async () => {
    const [id = ''] = await leased('w1')
    proxy.cut()
    proxy.hold('to-gateway')
    try {
      await eventually(async () => (await gateway.request('GET', '/ojs/v1/health')).status === 503)
      const { status, body } = await beat('w1', { active_jobs: [id] })
      expect(status).toBe(200)
      expect(body.jobs_extended).toEqual([id])
    } finally {
      proxy.release('to-gateway')
    }
    await eventually(async () => (await gateway.request('GET', '/ojs/v1/health')).status === 200)
    expect((await gateway.ack(id, { worker_id: 'w1', attempt: 1 })).status).toBe(200)
  })
})

describe('BEAT with an attempt', () => {
  it('answers 409 when the attempt or the worker of its single job is another', async () => {
    const [id = ''] = await leased('w1')
    const right = await beat('w1', { job_id: id, attempt: 1 })
    expect(right).toMatchObject({ status: 200, body: { jobs_extended: [id] } })
    const stale = await beat('w1', { active_jobs: [id], attempt: 2 })
    expect(stale.status).toBe(409)
    expect(stale.body.error).toMatchObject({
      code: 'invalid_request',
      details: { current_state: 'active', reason: 'stale_attempt' },
    })
    const other = await beat('w2', { job_id: id, attempt: 1 })
    expect(other.status).toBe(409)
    expect(other.body.error.details).toMatchObject({ reason: 'other_worker' })
    await gateway.ack(id)
    const over = await beat('w1', { job_id: id, attempt: 1 })
    expect(over.status).toBe(409)
    expect(over.body.error.details).toMatchObject({ current_state: 'completed' })
    expect((await beat('w1', { job_id: UNKNOWN_ID, attempt: 1 })).status).toBe(404)
  })

  it('answers 200 and extends nothing when several jobs have another attempt', async () => {
    const ids = await leased('w1', 2)
    const { status, body } = await beat('w1', { active_jobs: ids, attempt: 2 })
    expect(status).toBe(200)
    expect(body.jobs_extended).toEqual([])
    for (const id of ids) await gateway.ack(id)
  })
})

describe('BEAT refuses an invalid request with 400:', () => {
  it.each([
    ['no worker_id', { worker_id: undefined }, 'worker_id'],
    ['an empty worker_id', { worker_id: '' }, 'worker_id'],
    ['active_jobs that is a string', { active_jobs: 'x' }, 'active_jobs'],
    ['ids that are numbers', { active_job_ids: [1] }, 'active_job_ids[0]'],
    ['a visibility timeout of 0', { visibility_timeout_ms: 0 }, 'visibility_timeout_ms'],
    ['attempt 0', { attempt: 0 }, 'attempt'],
  ])('%s', async (_, said, field) => {
    const { status, body } = await beat('w1', said)
    expect(status).toBe(400)
    expect(body.error).toMatchObject({ code: 'invalid_request', details: { field } })
  })
})

describe('a lease that reaches beyond the delivery timeout of RabbitMQ', () => {
  const held = async () => {
    const name = `ojs_amqp_messages_unacked{queue="${queue}"}`
    return samplesOf(await scrape(gateway), name)[name] ?? 0
  }

  it('has its delivery acknowledged early and stays active', async () => {
    const [long = '', short = ''] = await leased('w1', 2)
    expect(await held()).toBe(2)
    await beat('w1', { active_jobs: [long], visibility_timeout_ms: 90_000 })
    await beat('w1', { active_jobs: [short], visibility_timeout_ms: 50_000 })
    expect(await held()).toBe(1)
    // Longer than the original leases, so only the heartbeats keep the jobs active.
    clock.aheadMs += 40_000
    for (const id of [long, short]) {
      expect(await stateOf(id)).toBe('active')
      expect((await gateway.ack(id, { worker_id: 'w1', attempt: 1 })).status).toBe(200)
    }
    expect(await held()).toBe(0)
  })

  it('has its delivery acknowledged early when several heartbeats together extend it that far', async () => {
    const [id = ''] = await leased('w1')
    clock.aheadMs += 20_000
    await beat('w1', { active_jobs: [id] })
    expect(await held()).toBe(1)
    clock.aheadMs += 20_000
    await beat('w1', { active_jobs: [id] })
    expect(await held()).toBe(0)
    expect((await beat('w1', { active_jobs: [id] })).body.jobs_extended).toEqual([id])
    expect((await gateway.ack(id, { worker_id: 'w1', attempt: 1 })).status).toBe(200)
  })
})

describe('workers', () => {
  const admin = (method: string, path: string) =>
    gateway.request(method, `/ojs/v1/admin/workers${path}`)
  const listed = async (id: string) => {
    const { body } = await admin('GET', '?limit=100')
    return body.items.find((item: { worker_id: string }) => item.worker_id === id)
  }

  it('are listed from their first FETCH or heartbeat', async () => {
    await gateway.fetch([queue], { worker_id: 'by-fetch' })
    expect(await listed('by-fetch')).toMatchObject({ state: 'running', queues: [queue] })
    const said = {
      hostname: 'host-1',
      pid: 42,
      queues: ['a', 'b'],
      concurrency: 10,
      labels: ['eu'],
      version: '1.2.3',
      state: 'running',
      active_jobs: 3,
    }
    expect((await beat('by-beat', said)).status).toBe(200)
    expect(await listed('by-beat')).toMatchObject({
      id: 'by-beat',
      ...said,
      directive: 'running',
      active_job_ids: [],
      last_heartbeat_at: expect.any(String),
    })
  })

  it('have the number of jobs that they run, even if no heartbeat has named the jobs', async () => {
    await gateway.push(queue)
    const [job] = await gateway.fetch([queue], { worker_id: 'silent', wait_ms: 15_000 })
    expect(await listed('silent')).toMatchObject({ active_jobs: 1 })
    await beat('silent', { active_jobs: 0 })
    const told = await admin('POST', '/silent/quiet')
    expect(told.body.worker).toMatchObject({ active_jobs: 1 })
    await gateway.ack(job.id)
    expect(await listed('silent')).toMatchObject({ active_jobs: 0 })
    await beat('silent', { active_jobs: 2 })
    expect(await listed('silent')).toMatchObject({ active_jobs: 2 })
  })

  it('ADM-R003 can be directed to quiet and then to terminate, but not back', async () => {
    await gateway.push(queue)
    await beat('obedient')
    const quiet = await admin('POST', '/obedient/quiet')
    expect(quiet).toMatchObject({
      status: 200,
      body: { worker: { worker_id: 'obedient', directive: 'quiet' } },
    })
    expect((await beat('obedient')).body).toMatchObject({ state: 'quiet', directive: 'quiet' })
    expect(await gateway.fetch([queue], { worker_id: 'obedient' })).toEqual([])
    expect((await admin('POST', '/obedient/terminate')).status).toBe(200)
    expect((await beat('obedient')).body.state).toBe('terminate')
    const back = await admin('POST', '/obedient/quiet')
    expect(back.status).toBe(409)
    expect(back.body.error).toMatchObject({
      code: 'invalid_request',
      details: { worker_id: 'obedient', directive: 'terminate' },
    })
    const [job] = await gateway.fetch([queue], { worker_id: 'free', wait_ms: 15_000 })
    await gateway.ack(job.id)
  })

  it('that are unknown cannot be directed: 404', async () => {
    const { status, body } = await admin('POST', '/nobody/quiet')
    expect(status).toBe(404)
    expect(body.error).toMatchObject({
      code: 'not_found',
      details: { resource_type: 'worker', resource_id: 'nobody' },
    })
  })

  it('lose a job from active_jobs as soon as it ends, without a further heartbeat', async () => {
    const worker = 'by-the-job'
    const shown = async () => {
      const { items } = (await admin('GET', '?limit=100')).body
      return items.find(({ id }: { id: string }) => id === worker)
    }
    const post = (path: string, body: object) =>
      gateway.request('POST', `/ojs/v1/workers/${path}`, { worker_id: worker, ...body })
    const ids = await leased(worker, 5)
    await beat(worker, { active_jobs: ids })
    expect(await shown()).toMatchObject({ active_jobs: 5, active_job_ids: ids })
    const [done, failed, retried, given, cancelled] = ids
    const error = { code: 'x', message: 'x' }
    await post('ack', { job_id: done })
    await post('nack', { job_id: failed, error: { ...error, retryable: false } })
    await post('nack', { job_id: retried, error })
    expect(await shown()).toMatchObject({ active_jobs: 2, active_job_ids: [given, cancelled] })
    await post('nack', { job_id: given, requeue: true, error })
    await gateway.cancel(cancelled ?? '')
    expect(await shown()).toMatchObject({ active_jobs: 0, active_job_ids: [] })
  })

  it('are counted by state, stale after 30 s of silence and forgotten after 5 minutes', async () => {
    const gauges = async () => samplesOf(await scrape(gateway), 'ojs_workers_')
    clock.aheadMs += 30_001
    const before = (await admin('GET', '')).body.summary
    expect(before).toMatchObject({ running: 0, quiet: 0, terminate: 0, stale: before.total })
    expect(await gauges()).toEqual({ ojs_workers_active: 0, ojs_workers_busy: 0 })
    await beat('new-1', { active_jobs: 2 })
    await beat('new-2', { active_jobs: 0 })
    expect(await gauges()).toEqual({ ojs_workers_active: 2, ojs_workers_busy: 1 })
    expect((await admin('GET', '')).body.summary).toMatchObject({ running: 2 })
    clock.aheadMs += 290_000
    expect((await admin('GET', '?limit=1')).body).toMatchObject({
      items: [{ worker_id: 'new-1', state: 'stale' }],
      summary: { total: 2, running: 0, stale: 2 },
      pagination: { total: 2, limit: 1, offset: 0, has_more: true },
    })
    expect(await gauges()).toEqual({ ojs_workers_active: 0, ojs_workers_busy: 0 })
    clock.aheadMs += 11_000
    expect((await admin('GET', '')).body).toMatchObject({ items: [], summary: { total: 0 } })
  })

  it('can all be directed at once, except those that were told more', async () => {
    for (const id of ['all-1', 'all-2', 'all-3']) await beat(id)
    await admin('POST', '/all-1/terminate')
    expect((await admin('POST', '/*/quiet')).body).toEqual({ workers: 2 })
    const told = await Promise.all(['all-1', 'all-2', 'all-3'].map((id) => beat(id)))
    expect(told.map(({ body }) => body.state)).toEqual(['terminate', 'quiet', 'quiet'])
    expect((await beat('all-4')).body.state).toBe('running')
  })

  it('have their waiting FETCH answered as soon as they take no more jobs', async () => {
    const post = (path: string, body?: object) => gateway.request('POST', `/ojs/v1${path}`, body)
    const asks = [
      // An operator tells one worker, or all.
      [() => post('/admin/workers/w-wait/quiet'), { jobs: [], directive: 'quiet' }],
      [() => post('/admin/workers/*/terminate'), { jobs: [], directive: 'terminate' }],
      // The worker says it itself. It reported another state before, so it is a new process.
      [() => beat('w-wait', { state: 'quiet' }), { jobs: [] }],
      [() => beat('w-wait', { state: 'terminate' }), { jobs: [] }],
    ] as const
    const began = performance.now()
    for (const [ask, answer] of asks) {
      await beat('w-wait', { state: 'terminate' })
      await beat('w-wait', { state: 'running' })
      const body = { queues: [queue], worker_id: 'w-wait', wait_ms: 30_000 }
      const waiting = post('/workers/fetch', body)
      const other = post('/workers/fetch', { ...body, worker_id: undefined, wait_ms: 300 })
      await eventually(async () => {
        const { items } = (await gateway.request('GET', '/ojs/v1/admin/workers')).body
        return items.some(({ queues }: { queues: string[] }) => queues.includes(queue))
      })
      await ask()
      expect((await waiting).body).toEqual(answer)
      expect((await other).body).toEqual({ jobs: [] })
    }
    expect(performance.now() - began).toBeLessThan(15_000)
  })
})
