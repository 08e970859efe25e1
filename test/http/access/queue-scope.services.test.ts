import { expect, test } from 'vitest'
import { newApiKey, ROLES, type Role } from '../../../src/http/access/api-keys.ts'
import type { Door } from '../../../src/http/routes/route-deps.ts'
import { routesOf } from '../../../src/http/server.ts'
import { gatewayForAll } from '../../operations/harness.ts'

const made = new Map(ROLES.map((role) => [role, newApiKey(role, role, ['mine', 'team.*'])]))
const whole = newApiKey('whole', 'admin')
const entries = [...made.values(), whole].map(({ entry }) => entry)
const { gateway } = gatewayForAll({ OJS_API_KEYS: entries.join() })

const bearer = (key: string | undefined) => ({ Authorization: `Bearer ${key}` })
const as = (role: Role, method: string, path: string, body?: unknown) =>
  gateway.request(method, path, body, bearer(made.get(role)?.key))
const all = (method: string, path: string, body?: unknown) =>
  gateway.request(method, path, body, bearer(whole.key))

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const job = (queue: string, options: object = {}) => ({
  type: 'a',
  args: [1],
  options: { queue, ...options },
})

async function pushed(queue: string, options: object = {}): Promise<string> {
  const { body } = await all('POST', '/ojs/v1/jobs', job(queue, options))
  return body.job.id
}

async function started(queue: string): Promise<string> {
  const id = await pushed(queue)
  const { body } = await all('POST', '/ojs/v1/workers/fetch', {
    queues: [queue],
    wait_ms: 20_000,
    worker_id: 'w',
  })
  expect(body.jobs).toHaveLength(1)
  expect(body.jobs[0]?.id).toBe(id)
  return id
}

const REFUSED = { error: { code: 'x_forbidden', details: { reason: 'queue_scope' } } }

test('PUSH and batch take jobs of the queues of the key, and none of others', async () => {
  for (const [queue, status] of [
    ['mine', 201],
    ['team.a', 201],
    ['team', 403],
    ['mine2', 403],
    ['default', 403],
  ] as const) {
    const one = await as('producer', 'POST', '/ojs/v1/jobs', job(queue))
    expect({ queue, status: one.status }).toEqual({ queue, status })
    const jobs = [job('mine'), job(queue)]
    expect((await as('producer', 'POST', '/ojs/v1/jobs/batch', { jobs })).status).toBe(status)
    if (status === 403) expect(one.body).toMatchObject(REFUSED)
  }
  expect((await as('producer', 'POST', '/ojs/v1/jobs', { type: 'a', args: [] })).status).toBe(403)
})

test('a unique policy must compare the queue: it could cancel or answer jobs of others', async () => {
  const other = await pushed('other', { unique: { key: [] } })
  for (const unique of [{}, { key: ['args'] }, { keys: ['type'], on_conflict: 'replace' }]) {
    const { status, body } = await as('producer', 'POST', '/ojs/v1/jobs', job('mine', { unique }))
    expect({ status, body }).toMatchObject({ status: 403, body: REFUSED })
  }
  const unique = { keys: ['type', 'queue'] }
  expect((await as('producer', 'POST', '/ojs/v1/jobs', job('team.u', { unique }))).status).toBe(201)
  expect((await all('GET', `/ojs/v1/jobs/${other}`)).body.state).toBe('available')
})

test('FETCH serves the queues of the key, and is refused if it names another', async () => {
  await pushed('team.fetch')
  const fetch = (queues: string[]) =>
    as('worker', 'POST', '/ojs/v1/workers/fetch', { queues, wait_ms: 20_000 })
  expect((await fetch(['team.fetch'])).body.jobs).toHaveLength(1)
  const refused = await fetch(['team.fetch', 'other'])
  expect(refused).toMatchObject({ status: 403, body: REFUSED })
  expect(refused.body.error.details.field).toBe('queues[1]')
})

test('a job of another queue is unknown: 404 to reads and to every action, and nothing happens to it', async () => {
  const id = await started('other.job')
  const error = { code: 'e', message: 'm' }
  const asked: [Role, string, string, object?][] = [
    ['producer', 'GET', `/jobs/${id}`],
    ['operator', 'DELETE', `/jobs/${id}`],
    ['producer', 'POST', `/jobs/${id}/activate`],
    ['worker', 'POST', `/jobs/${id}/ack`, {}],
    ['worker', 'POST', `/jobs/${id}/nack`, { error }],
    ['worker', 'POST', '/workers/ack', { job_id: id }],
    ['worker', 'POST', '/workers/nack', { job_id: id, error }],
    ['operator', 'POST', `/dead-letter/${id}/retry`],
    ['operator', 'DELETE', `/dead-letter/${id}`],
  ]
  for (const [role, method, path, body] of asked) {
    const { status } = await as(role, method, `/ojs/v1${path}`, body)
    expect({ method, path, status }).toEqual({ method, path, status: 404 })
  }
  const beat = { worker_id: 'w', active_jobs: [id] }
  const { body } = await as('worker', 'POST', '/ojs/v1/workers/heartbeat', beat)
  expect(body).toMatchObject({ jobs_extended: [], cancelled_jobs: [] })
  expect((await all('GET', `/ojs/v1/jobs/${id}`)).body.state).toBe('active')

  const own = await started('team.own')
  expect((await as('worker', 'GET', `/ojs/v1/jobs/${own}`)).status).toBe(200)
  expect((await as('worker', 'POST', `/ojs/v1/jobs/${own}/ack`)).status).toBe(200)
})

test('the health of a worker is shown to keys of one of its queues', async () => {
  const beat = { worker_id: 'w-scoped', queues: ['other', 'team.b'] }
  await all('POST', '/ojs/v1/workers/heartbeat', beat)
  await all('POST', '/ojs/v1/workers/heartbeat', { worker_id: 'w-other', queues: ['other'] })
  const seen = async (id: string) =>
    (await as('worker', 'GET', `/ojs/v1/workers/${id}/health`)).status
  expect([await seen('w-scoped'), await seen('w-other')]).toEqual([200, 404])
})

test('lists and statistics are those of the queues of the key', async () => {
  await Promise.all([pushed('mine'), pushed('other')])
  const { body } = await as('operator', 'GET', '/ojs/v1/queues')
  const names = body.queues.map(({ name }: { name: string }) => name)
  expect(names).toContain('mine')
  expect(names.filter((name: string) => !/^(mine$|team\.)/.test(name))).toEqual([])
  expect(body.pagination.total).toBe(names.length)
  const statuses = async (paths: string[]) => {
    const asked = paths.map(async (path) => (await as('operator', 'GET', `/ojs/v1${path}`)).status)
    return await Promise.all(asked)
  }
  expect(
    await statuses(['/queues/mine/stats', '/dead-letter?queue=mine', '/events?queues=mine,team.z']),
  ).toEqual([200, 200, 200])
  expect(
    await statuses([
      '/queues/other/stats',
      '/dead-letter?queue=other',
      '/events',
      '/events?queues=mine,other',
      '/cron',
      '/workflows',
      '/schemas',
      '/admin/workers',
    ]),
  ).toEqual(Array.from({ length: 8 }, () => 403))
  const unnamed = (await as('operator', 'GET', '/ojs/v1/events')).body.error
  expect(unnamed).toMatchObject({
    details: { field: 'queues', allowed_queues: ['mine', 'team.*'] },
  })
  expect(unnamed.message).toContain("name them in the parameter 'queues'")
  const failed = { code: 'x', message: 'x', retryable: false }
  const dying = await started('other.dead')
  await all('POST', '/ojs/v1/workers/nack', { job_id: dying, error: failed })
  expect((await all('GET', '/ojs/v1/dead-letter?queue=other.dead')).body.jobs).not.toEqual([])
  const { body: dead } = await as('operator', 'GET', '/ojs/v1/dead-letter?limit=100')
  expect(
    dead.jobs.filter(({ queue }: { queue: string }) => !/^(mine$|team\.)/.test(queue)),
  ).toEqual([])
  expect((await as('operator', 'POST', '/ojs/v1/queues/other/pause')).status).toBe(403)
  expect((await all('GET', '/ojs/v1/queues/other/stats')).body.status).toBe('active')
})

const CANCEL = '/ojs/v1/admin/jobs/bulk/cancel'
const OPERATIONS = '/ojs/v1/admin/operations'

test('an operation is shown to, and stopped by, keys of all its queues, and is unknown to others', async () => {
  await Promise.all([pushed('mine'), pushed('team.a'), pushed('other')])
  type Ask = typeof all
  const own: Ask = (...call) => as('operator', ...call)
  const begun = async (ask: Ask, filter: object): Promise<string> => {
    const asked = await ask('POST', CANCEL, { filter, confirm: true, async: true })
    expect(asked).toMatchObject({ status: 202 })
    return asked.body.id
  }
  const within = [
    await begun(own, { queue: 'mine' }),
    await begun(own, {}),
    await begun(own, { type: 'none' }),
    await begun(all, { queue: ['mine', 'team.a'] }),
  ]
  const beyond = [
    await begun(all, { queue: 'other' }),
    await begun(all, { queue: ['mine', 'other'] }),
    await begun(all, { type: 'none' }),
  ]
  for (const [ids, status] of [
    [within, 200],
    [beyond, 404],
  ] as const) {
    for (const id of ids) {
      const path = `${OPERATIONS}/${id}`
      expect(await own('GET', path)).toMatchObject({ status })
      expect(await own('POST', `${path}/stop`, {})).toMatchObject({ status })
    }
  }
  const state = async (id: string) => (await all('GET', `${OPERATIONS}/${id}`)).body.state
  // Nobody has stopped them.
  for (const id of beyond) await expect.poll(() => state(id)).toBe('completed')
  const ofOthers = { filter: { queue: 'other' }, confirm: true }
  for (let n = 0; n < 101; n++) await all('POST', CANCEL, ofOthers)
  const idsOf = ({ body }: Awaited<ReturnType<Ask>>) => body.items.map(({ id }: Json) => id)
  const list = await own('GET', OPERATIONS)
  expect(idsOf(list)).toEqual(within.toReversed())
  expect(list.body.pagination).toMatchObject({ total: 4, has_more: false })
  const paged = await own('GET', `${OPERATIONS}?limit=2`)
  expect(paged.body.pagination).toMatchObject({ total: 4, has_more: true })
  const { next_cursor: cursor } = paged.body.pagination
  const rest = await own('GET', `${OPERATIONS}?limit=2&cursor=${cursor}`)
  expect([...idsOf(paged), ...idsOf(rest)]).toEqual(within.toReversed())
  expect((await all('GET', OPERATIONS)).body.pagination.total).toBeGreaterThan(101)
})

test('whatever does not say how it keeps to queues is refused, to an admin too', async () => {
  const unsaid = routesOf({} as unknown as Door).filter(
    ({ access, scoping }) => access !== 'anybody' && scoping === undefined,
  )
  expect(unsaid.length).toBeGreaterThan(10)
  for (const { method, path } of unsaid) {
    const body = method === 'GET' || method === 'DELETE' ? undefined : {}
    const answer = await as('admin', method, path.replace(/:\w+/g, 'x'), body)
    expect({ path, status: answer.status, body: answer.body }).toMatchObject({
      path,
      status: 403,
      body: REFUSED,
    })
  }
})
