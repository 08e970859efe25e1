import { describe, expect, it } from 'vitest'
import { fetchOne, freshQueue, gatewayForAll, nack, withChannel } from './harness.ts'

// What clients of OJS that were written for other servers send, and what they read out of the answers.

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const { vhost, gateway } = gatewayForAll()

const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  gateway.request('POST', `/ojs/v1${path}`, body, headers)

describe('an answer shows a time in seconds only if the request had it', () => {
  const SECONDS = ['timeout', 'visibility_timeout']
  const secondsIn = (job: Json) => SECONDS.filter((name) => name in job)

  it('beside timeout_ms, while the AMQP body always has it', async () => {
    const queue = freshQueue()
    const options = { queue, visibility_timeout_ms: 40_000, retry: { max_attempts: 1 } }
    const { body } = await post('/jobs', { type: 'a', args: [], options, 7: 'an index' })
    expect(body.job).toMatchObject({
      timeout_ms: 30_000,
      visibility_timeout_ms: 40_000,
      7: 'an index',
    })
    const { id } = body.job
    const jobMessage = await withChannel(vhost.url, async (channel) => {
      const message = await channel.get(`ojs.queue.${queue}`, { noAck: false })
      return message === false ? {} : JSON.parse(message.content.toString())
    })
    expect(jobMessage).toMatchObject({
      id,
      timeout: 30,
      timeout_ms: 30_000,
      visibility_timeout: 40,
    })

    const answers = [body.job, (await gateway.get(id)).body.job, await fetchOne(gateway, queue)]
    await nack(gateway, id)
    const dead = await gateway.request('GET', `/ojs/v1/dead-letter?queue=${queue}`)
    answers.push(...dead.body.jobs)
    answers.push((await post(`/dead-letter/${id}/retry`, {})).body.job)
    await fetchOne(gateway, queue)
    answers.push((await gateway.ack(id)).body.job)
    expect(answers.map(secondsIn)).toEqual(answers.map(() => []))

    const jobs = [{ type: 'a', args: [], options: { queue, timeout: 9, visibility_timeout: 5 } }]
    const [asked] = (await post('/jobs/batch', { jobs })).body.jobs
    expect(asked).toMatchObject({ timeout: 9, timeout_ms: 9_000, visibility_timeout: 5 })
    expect(await fetchOne(gateway, queue)).toMatchObject({ timeout: 9, visibility_timeout: 5 })
  })
})

describe('a unique policy', () => {
  it('takes period_ms, and reads key as keys if it names nothing but parts of a job', async () => {
    const queue = freshQueue()
    const push = async (args: unknown[], unique: object) => {
      const { status } = await post('/jobs', { type: 'a', args, options: { queue, unique } })
      return status
    }
    const ofAll = { key: ['type', 'args'], period_ms: 3_600_000 }
    expect(await push([1], ofAll)).toBe(201)
    expect(await push([2], ofAll)).toBe(201)
    expect(await push([2], ofAll)).toBe(409)
    const short = { keys: ['queue'], period_ms: 1 }
    expect(await push([3], short)).toBe(201)
    await expect.poll(() => push([3], short)).toBe(201)
    expect(await push([3], { keys: ['queue'], period_ms: 3_600_000 })).toBe(409)
  })
})

describe('a setting in another place', () => {
  it('counts, if it is max_attempts; else the request is refused, and nothing is stored', async () => {
    const queue = freshQueue()
    for (const body of [
      { max_attempts: 1, options: { queue } },
      { options: { queue, max_attempts: 1 } },
    ]) {
      const { status, body: answer } = await post('/jobs', { type: 'a', args: [], ...body })
      expect([status, answer.job.max_attempts]).toEqual([201, 1])
      await fetchOne(gateway, queue)
      expect((await nack(gateway, answer.job.id)).body).toMatchObject({ state: 'discarded' })
    }
    const job = { type: 'a', args: [] }
    const misplaced = [
      await post('/jobs', { ...job, queue, jitter: false }),
      await post('/jobs', { ...job, options: { queue, timeoutMs: 5 } }),
      await post('/jobs', { ...job, queue, max_attempts: 2, retry: { max_attempts: 3 } }),
      await post('/jobs/batch', { jobs: [job], queue }),
      await post('/workflows', { type: 'chain', steps: [job], queue }),
      await post('/cron', { name: 'misplaced', cron: '0 0 1 1 *', job_template: job, queue }),
      await post('/cron', { name: 'misplaced', cron: '0 0 1 1 *', ...job, tz: 'Europe/Berlin' }),
      await post('/workflows', { type: 'batch', jobs: [job], on_failure: job }),
      await post('/workers/fetch', { queues: [queue], waitMs: 5_000 }),
      await post('/workers/ack', { job_id: 'a', workerId: 'w' }),
      await post('/workers/nack', { job_id: 'a', error: { message: 'm' }, workerId: 'w' }),
      await post('/workers/heartbeat', { worker_id: 'w', activeJobs: ['a'] }),
    ]
    expect(misplaced.map(({ status, body }) => [status, body.error.details.field])).toEqual([
      [400, 'jitter'],
      [400, 'options.timeoutMs'],
      [400, 'max_attempts'],
      ...Array(3).fill([400, 'queue']),
      [400, 'tz'],
      [400, 'on_failure'],
      [400, 'waitMs'],
      [400, 'workerId'],
      [400, 'workerId'],
      [400, 'activeJobs'],
    ])
    expect(await gateway.fetch([queue], { wait_ms: 50 })).toEqual([])
    const out = { ...job, options: { queue, max_attempts: -1 } }
    expect(await post('/jobs', out)).toMatchObject({ status: 422 })
  })

  it('limits nothing as rate_limit, and starts nothing as a second time: refused', async () => {
    const options = { queue: freshQueue(), rate_limit: { limit: 1, period: 'PT1S' } }
    const job = { type: 'a', args: [], options }
    const cron = { name: 'unlimited', cron: '0 0 1 1 *' }
    const times = { delay_until: '+PT1H', scheduled_at: '+PT2H' }
    const answers = [
      await post('/jobs', job),
      await post('/jobs/batch', { jobs: [{ type: 'a', args: [] }, job] }),
      await post('/cron', { ...cron, ...job }),
      await post('/cron', { ...cron, job_template: job }),
      await post('/workflows', { name: 'w', steps: [{ ...job, id: 's' }] }),
      await post('/workflows', { type: 'group', jobs: [{ type: 'a', args: [] }], options }),
      await post('/jobs', { type: 'a', args: [], options: times }),
    ]
    const member = 'options.rate_limit.max_per_second'
    expect(answers.map(({ status, body }) => [status, body.error.details.field])).toEqual([
      ...Array(3).fill([400, member]),
      [400, `job_template.${member}`],
      [400, `steps[0].${member}`],
      [400, `jobs[0].${member}`],
      [400, 'options.scheduled_at'],
    ])
    const others = { max_per_second: 5, key: 'k', concurrency: 1 }
    const kept = await post('/jobs', { ...job, options: { ...options, rate_limit: others } })
    expect([kept.status, kept.body.job.rate_limit]).toEqual([201, others])
  })

  it.each([
    ['rate_limit.concurrency', { rate_limit: { concurrency: 0 } }],
    ['rate_limit.concurrency', { rate_limit: { concurrency: '1' } }],
    ['rate_limit.concurrency', { rate_limit: { concurrency: 1.5, max_per_second: 9 } }],
    ['rate_limit.concurrency', { rate_limit: { concurrency: 10_001 } }],
    ['rate_limit.key', { rate_limit: { concurrency: 1, key: '' } }],
    ['rate_limit.key', { rate_limit: { concurrency: 1, key: 'k'.repeat(256) } }],
    ['rate_limit.key', { rate_limit: { concurrency: 1, key: 1 } }],
    ['rate_limit.key', { rate_limit: { concurrency: 1, key: 'a\nb' } }],
    ['retry_policy', { retry: { max_attempts: 2 }, retry_policy: { max_attempts: 5 } }],
    ['retry_policy', { retry: {}, retry_policy: { max_attempts: 5 } }],
  ])('limits as something else, or not at all: refused, %s of %j', async (field, options) => {
    const job = { type: 'a', args: [] }
    const nested = await post('/jobs', { ...job, options })
    expect([nested.status, nested.body.error.details.field]).toEqual([400, `options.${field}`])
    const beside = await post('/jobs', { ...job, ...options })
    expect([beside.status, beside.body.error.details.field]).toEqual([400, field])
  })

  it('says the same twice, or something that other servers know: kept', async () => {
    const retry = { max_attempts: 2 }
    const rate_limit = { max_per_second: 9, key: 5 }
    const options = { queue: freshQueue(), retry, retry_policy: { max_attempts: 2 }, rate_limit }
    const kept = await post('/jobs', { type: 'a', args: [], options })
    expect([kept.status, kept.body.job.max_attempts]).toEqual([201, 2])
    expect(kept.body.job.rate_limit).toEqual(rate_limit)
  })

  it('is honoured by FETCH, NACK and heartbeats', async () => {
    const queue = freshQueue()
    const jobs = [1, 2, 3].map((n) => ({ type: 'a', args: [n], options: { queue } }))
    await post('/jobs/batch', { jobs })
    const worker = { worker_id: 'w-other-places' }
    const asked = { queues: [queue], batch_size: 3, wait_ms: 5_000, ...worker }
    const [first, second] = (await post('/workers/fetch', { ...asked, visibility_timeout: 'PT1H' }))
      .body.jobs
    expect(second).toMatchObject({ args: [2] })
    const error = { code: 'x', message: 'it broke' }
    const nacked = await post('/workers/nack', { job_id: first.id, error, retryable: false })
    expect(nacked.body.state).toBe('discarded')
    const beat = { ...worker, active_jobs: [second.id], visibility_timeout: 'soon' }
    expect((await post('/workers/heartbeat', beat)).status).toBe(400)
    const short = await post('/workers/heartbeat', { ...beat, visibility_timeout: 'PT0.05S' })
    expect(short.body.jobs_extended).toEqual([second.id])
    await expect.poll(async () => (await gateway.get(second.id)).body.state).toBe('available')
  })
})

describe('members that other clients read', () => {
  it('of workflows, statistics, workers and pages', async () => {
    const queue = freshQueue()
    const steps = [{ id: 's', type: 'a', args: [], options: { queue } }]
    const { body: made } = await post('/workflows', { name: 'flat', steps })
    const path = `/ojs/v1/workflows/${made.workflow.id}`
    const read = (await gateway.request('GET', path)).body
    const { id, name, type, state } = made.workflow
    for (const body of [made, read]) expect(body).toMatchObject({ id, name, type, state })
    const ended = (await gateway.request('DELETE', path)).body
    expect(ended).toMatchObject({ id, name, state: 'cancelled', workflow: { state: 'cancelled' } })

    const { body: counts } = await gateway.request('GET', `/ojs/v1/queues/${queue}/stats`)
    expect(counts).toMatchObject({ queue, cancelled: 1, available: 0, stats: { cancelled: 1 } })

    await post('/workers/fetch', { queues: [queue], worker_id: 'w-fetches-only' })
    const { items } = (await gateway.request('GET', '/ojs/v1/admin/workers')).body
    const worker = items.find((item: Json) => item.id === 'w-fetches-only')
    expect(worker.last_heartbeat_at).toBe(worker.last_seen_at)

    await post('/jobs', { type: 'a', args: [], options: { queue: freshQueue() } })
    const { body: page } = await gateway.request('GET', '/ojs/v1/queues?page=2&per_page=1')
    expect(page.queues).toHaveLength(1)
    expect(page.pagination).toMatchObject({ page: 2, per_page: 1, offset: 1, limit: 1 })
    const commands = [`/queues/${queue}/pause`, `/queues/${queue}/resume`]
    for (const command of commands) expect((await post(command, [])).status).toBe(200)
  })
})

describe('Idempotency-Key', () => {
  const ID = '019539a4-b68c-7def-8000-1a2b3c4d5e6f'
  const queue = freshQueue()
  const steps = [{ id: 's', type: 'a', args: [], options: { queue } }]
  const schema = { type: 'array', maxItems: 3 }
  it.each<[string, object, object, (body: Json) => unknown]>([
    ['/workflows', { name: 'keyed', steps }, { name: 'other' }, ({ workflow }) => workflow.id],
    [
      '/cron',
      { name: 'keyed', cron: '0 0 1 1 *', type: 'a', args: [], options: { queue } },
      { cron: '0 0 2 1 *' },
      ({ cron_job }) => [cron_job.name, cron_job.created_at],
    ],
    [
      '/schemas',
      { uri: 'urn:keyed', type: 'a', version: 1, schema },
      { version: 2 },
      (body) => body.schema.created_at,
    ],
  ])('on %s gives the first answer again', async (path, body, change, identity) => {
    const headers = { 'Idempotency-Key': `k${path}` }
    const both = await Promise.all([post(path, body, headers), post(path, body, headers)])
    const later = await post(path, body, headers)
    const answers = [...both, later]
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201])
    expect(new Set(answers.map((answer) => JSON.stringify(identity(answer.body)))).size).toBe(1)
    const isReplay = ({ headers }: Json) => headers.get('idempotent-replayed') === 'true'
    expect(answers.filter(isReplay)).toHaveLength(2)
    const other = await post(path, { ...body, ...change }, headers)
    expect(other).toMatchObject({
      status: 409,
      body: { error: { details: { reason: 'other_body' } } },
    })
  })

  it('gives the answer of a replaced cron entry again, as one of its own', async () => {
    const body = { name: 'replaced', cron: '0 0 1 1 *', type: 'a', args: [] }
    const headers = { 'Idempotency-Key': 'replaced' }
    await post('/cron', body, headers)
    const again = { ...body, cron: '0 0 2 1 *' }
    const replace = () => post('/cron?replace=true', again, headers)
    for (const { status, body: answer } of [await replace(), await replace()]) {
      expect([status, answer.cron_job.cron]).toEqual([200, '0 0 2 1 *'])
    }
  })

  it('is gone with a cron entry, also if another one has its name by now', async () => {
    const body = { name: 'gone', cron: '0 0 1 1 *', type: 'a', args: [] }
    const headers = { 'Idempotency-Key': 'gone' }
    await post('/cron', body, headers)
    await gateway.request('DELETE', '/ojs/v1/cron/gone')
    await post('/cron', body)
    const { status, body: answer } = await post('/cron', body, headers)
    expect([status, answer.error.details.reason]).toEqual([409, 'resource_gone'])
  })

  it('is gone with a schema, also if another one has its URI, unless that is the same', async () => {
    const body = { uri: 'urn:gone', type: 'a', version: 1, schema: { items: { type: 'integer' } } }
    const headers = { 'Idempotency-Key': 'gone' }
    const remove = () => gateway.request('DELETE', '/ojs/v1/schemas/urn%3Agone')
    const again = async () => {
      const { status, body: answer } = await post('/schemas', body, headers)
      return [status, answer.error?.details.reason]
    }
    const texts = { items: { type: 'string' } }
    expect(await again()).toEqual([201, undefined])
    for (const other of [{ schema: texts }, { version: 2 }, { type: 'b' }]) {
      await remove()
      expect(await again()).toEqual([409, 'resource_gone'])
      expect((await post('/schemas', { ...body, ...other })).status).toBe(201)
      expect(await again()).toEqual([409, 'resource_gone'])
    }
    await remove()
    expect((await post('/schemas', body)).status).toBe(201)
    expect(await again()).toEqual([201, undefined])
  })

  it('is not needed for a workflow with an id of the client’s', async () => {
    const body = { id: ID, name: 'chosen', steps }
    const [one, two] = await Promise.all([post('/workflows', body), post('/workflows', body)])
    expect(new Set([one.status, two.status])).toEqual(new Set([201, 409]))
    const refused = one.status === 409 ? one : two
    expect(refused.body.error).toMatchObject({ code: 'duplicate', details: { resource_id: ID } })
    expect((await gateway.request('GET', `/ojs/v1/workflows/${ID}`)).body.name).toBe('chosen')
    expect((await post('/workflows', { ...body, id: 'mine' })).status).toBe(400)
  })
})

it('the version of a schema is a text or an integer, and answered as it was sent', async () => {
  const register = async (uri: string, version: unknown, type = 'a') => {
    const { status, body } = await post('/schemas', { uri, type, version, schema: {} })
    return [status, body.schema?.version ?? body.error.code]
  }
  expect(await register('urn:text', '2.0.0')).toEqual([201, '2.0.0'])
  expect(await register('urn:text', '2.0.0')).toEqual([200, '2.0.0'])
  expect(await register('urn:text', '2.0.1')).toEqual([409, 'duplicate'])
  expect(await register('urn:digits', '1')).toEqual([201, '1'])
  expect(await register('urn:digits', 1)).toEqual([200, 1])
  expect(await register('urn:number', 7)).toEqual([201, 7])
  expect(await register('urn:number', '7')).toEqual([200, '7'])
  expect(await register('urn:empty', '')).toEqual([400, 'invalid_request'])
  const listed = (await gateway.request('GET', '/ojs/v1/schemas')).body.schemas
  const versions = listed.map(({ uri, version }: Json) => [uri, version])
  expect(versions).toEqual(
    expect.arrayContaining([
      ['urn:text', '2.0.0'],
      ['urn:digits', '1'],
      ['urn:number', 7],
    ]),
  )
  const { body } = await gateway.request('GET', '/ojs/v1/schemas/urn%3Atext')
  expect(body.schema.version).toBe('2.0.0')
})
