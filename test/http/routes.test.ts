import { beforeEach, describe, expect, test, vi } from 'vitest'
import { notFound, OjsError, stateConflict, unavailable } from '../../src/errors.ts'
import { cancel } from '../../src/operations/cancel.ts'
import { push } from '../../src/operations/enqueue/push.ts'
import { fetch } from '../../src/operations/fetch/fetch.ts'
import { health } from '../../src/operations/health.ts'
import { info } from '../../src/operations/info.ts'
import { ack } from '../../src/operations/lease/ack.ts'
import { recoverQueue } from '../../src/operations/queues/recover.ts'
import { NO_EVENTS, openDoor } from './door.ts'
import { errorOf, OJS } from './frame.ts'
import { jobRow } from './job-rows.ts'
import { request } from './raw-client.ts'

// Routes parse, call an operation and render its result. The operations have tests of their own.
vi.mock('../../src/operations/enqueue/push.ts')
vi.mock('../../src/operations/info.ts')
vi.mock('../../src/operations/cancel.ts')
vi.mock('../../src/operations/fetch/fetch.ts')
vi.mock('../../src/operations/lease/ack.ts')
vi.mock('../../src/operations/health.ts')
vi.mock('../../src/operations/queues/recover.ts')

beforeEach(() => {
  vi.resetAllMocks()
})

const ID = '019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d6'
const send = (method: string, path: string, body?: object) =>
  request(method, path, { 'X-Request-Id': 'req_t' }, body && JSON.stringify(body))

describe('the answer of a route', () => {
  test('PUSH: 201 with Location and the job', async () => {
    vi.mocked(push).mockResolvedValue({ job: jobRow() })
    const door = await openDoor()
    const result = await door.ask(send('POST', '/ojs/v1/jobs', { type: 'a', args: [1] }))
    expect(result.status).toBe(201)
    expect(result.headers).toMatchObject({ location: `/ojs/v1/jobs/${ID}`, 'content-type': OJS })
    expect(JSON.parse(result.body)).toMatchObject({
      job: { id: ID, args: ['\u00fc'], state: 'available' },
    })
    const [, body, context] = vi.mocked(push).mock.calls[0] ?? []
    expect(body).toEqual({ type: 'a', args: [1] })
    expect(context).toEqual({ requestId: 'req_t' })
  })

  test.each([undefined, true])(
    'PUSH: 200 and deduplicated for a job that existed, replay: %s',
    async (isReplay) => {
      vi.mocked(push).mockResolvedValue({
        job: jobRow(),
        isDuplicate: true,
        ...(isReplay && { isReplay }),
      })
      const door = await openDoor()
      const result = await door.ask(send('POST', '/ojs/v1/jobs', { type: 'a', args: [1] }))
      expect(result.status).toBe(200)
      const { job, ...told } = JSON.parse(result.body)
      expect([job.id, told]).toEqual([ID, { deduplicated: true }])
      expect(result.headers['location']).toBeUndefined()
      expect(result.headers['idempotent-replayed']).toBe(isReplay && 'true')
    },
  )

  test('PUSH: 201 with Idempotent-Replayed for a replay', async () => {
    vi.mocked(push).mockResolvedValue({ job: jobRow(), isReplay: true })
    const door = await openDoor()
    const result = await door.ask(send('POST', '/ojs/v1/jobs', { type: 'a', args: [1] }))
    expect(result.status).toBe(201)
    expect(result.headers).toMatchObject({
      location: `/ojs/v1/jobs/${ID}`,
      'idempotent-replayed': 'true',
    })
  })

  test('INFO: the job, with its state beside it', async () => {
    vi.mocked(info).mockResolvedValue({ job: jobRow({ state: 'scheduled' }), progress: null })
    const door = await openDoor()
    const result = await door.ask(send('GET', `/ojs/v1/jobs/${ID}`))
    expect(result.status).toBe(200)
    expect(JSON.parse(result.body)).toMatchObject({ job: { id: ID }, state: 'scheduled' })
    expect(vi.mocked(info).mock.calls[0]?.[1]).toBe(ID)
  })

  test('CANCEL: the job with its previous state', async () => {
    vi.mocked(cancel).mockResolvedValue({
      job: jobRow({ state: 'cancelled', cancelledAt: 3_000 }),
      previousState: 'available',
      isMessageOwed: false,
    })
    const door = await openDoor()
    const result = await door.ask(send('DELETE', '/ojs/v1/jobs/any%20id'))
    expect(result.status).toBe(200)
    expect(JSON.parse(result.body)).toEqual({
      job: expect.objectContaining({
        id: ID,
        type: 'email.send',
        state: 'cancelled',
        cancelled_at: '1970-01-01T00:00:03.000Z',
        previous_state: 'available',
      }),
    })
    expect(vi.mocked(cancel).mock.calls[0]?.slice(1)).toEqual(['any id', { requestId: 'req_t' }])
  })

  test('FETCH: a list of jobs, which may be empty', async () => {
    const door = await openDoor()
    const ask = async () => {
      const result = await door.ask(send('POST', '/ojs/v1/workers/fetch', { queues: ['q'] }))
      expect(result.status).toBe(200)
      return result.body
    }
    vi.mocked(fetch).mockResolvedValue([])
    expect(await ask()).toBe('{"jobs":[]}')
    vi.mocked(fetch).mockResolvedValue([jobRow({ id: 'a' }), jobRow({ id: 'b' })])
    expect(JSON.parse(await ask())).toMatchObject({ jobs: [{ id: 'a' }, { id: 'b' }] })
    expect(vi.mocked(fetch).mock.calls[0]?.[1]).toEqual({ queues: ['q'] })
  })

  test('ACK: the completed job', async () => {
    const job = jobRow({ state: 'completed', completedAt: 4_000, result: '{"ok":true}' })
    vi.mocked(ack).mockResolvedValue(job)
    const door = await openDoor()
    const result = await door.ask(send('POST', '/ojs/v1/workers/ack', { job_id: ID }))
    expect(result.status).toBe(200)
    expect(JSON.parse(result.body)).toEqual({
      acknowledged: true,
      id: ID,
      job_id: ID,
      state: 'completed',
      completed_at: '1970-01-01T00:00:04.000Z',
      job: expect.objectContaining({ id: ID, state: 'completed', result: { ok: true } }),
    })
  })

  test.each([
    [true, 200],
    [false, 503],
  ])(
    'health: if healthy is %s, status %i and the body of the operation',
    async (healthy, status) => {
      const body = { status: healthy ? 'ok' : 'degraded' }
      vi.mocked(health).mockResolvedValue({ healthy, body } as Awaited<ReturnType<typeof health>>)
      const door = await openDoor()
      const result = await door.ask(send('GET', '/ojs/v1/health'))
      expect(result).toMatchObject({ status, body: JSON.stringify(body) })
      expect(result.headers['content-type']).toBe(OJS)
    },
  )

  test('manifest: the base_url at which the gateway listens', async () => {
    const door = await openDoor()
    const result = await door.ask(send('GET', '/ojs/manifest'))
    expect(JSON.parse(result.body)).toMatchObject({
      ojs_version: '1.0',
      implementation: { version: '1.2.3' },
      endpoints: { base_url: `http://127.0.0.1:${door.port}/ojs/v1` },
    })
  })

  test.each([
    ['0.0.0.0', 'jobs.example.com', 'http://jobs.example.com/ojs/v1'],
    ['0.0.0.0', '10.1.2.3:9000', 'http://10.1.2.3:9000/ojs/v1'],
    ['0.0.0.0', 'no host at all', 'http://0.0.0.0:%/ojs/v1'],
    ['127.0.0.1', 'jobs.example.com', 'http://127.0.0.1:%/ojs/v1'],
  ])('manifest: of a gateway on %s with the Host %s, the base_url %s', async (host, name, url) => {
    const door = await openDoor(10_000, { host })
    const result = await door.ask(
      `GET /ojs/manifest HTTP/1.1\r\nHost: ${name}\r\nConnection: close\r\n\r\n`,
    )
    const { base_url } = JSON.parse(result.body).endpoints
    expect(base_url).toBe(url.replace('%', String(door.port)))
  })

  test('events: a page with the given filters and a limit of at most 1000', async () => {
    const asked: unknown[] = []
    const page = { events: [], cursor: 'evt_2', has_more: false, gap: true }
    const list = (query: unknown) => {
      asked.push(query)
      return page
    }
    const door = await openDoor(10_000, { events: { ...NO_EVENTS, list } })
    const query = 'limit=5000&after=evt_1&types=a&queues=b,c'
    const result = await door.ask(send('GET', `/ojs/v1/events?${query}`))
    expect(JSON.parse(result.body)).toEqual(page)
    await door.ask(send('GET', '/ojs/v1/events'))
    expect(asked).toEqual([
      { limit: 1_000, after: 'evt_1', types: new Set(['a']), queues: new Set(['b', 'c']) },
      { limit: 100, after: null, types: new Set(), queues: new Set() },
    ])
  })

  test('metrics: text with OJS-Version and X-Request-Id', async () => {
    const door = await openDoor()
    const result = await door.ask(send('GET', '/metrics'))
    expect(result).toMatchObject({ status: 200, body: 'up 1\n' })
    expect(result.headers).toMatchObject({
      'content-type': 'text/plain; version=0.0.4; charset=utf-8',
      'ojs-version': '1.0',
      'x-request-id': 'req_t',
    })
  })

  test('recover: the queue and the number of republished jobs', async () => {
    vi.mocked(recoverQueue).mockResolvedValue({ queue: 'a.b', republished: 3 })
    const door = await openDoor()
    const result = await door.ask(send('POST', '/ojs/v1/admin/queues/a.b/recover'))
    expect(result).toMatchObject({ status: 200, body: '{"queue":"a.b","republished":3}' })
    expect(vi.mocked(recoverQueue).mock.calls[0]?.slice(1)).toEqual(['a.b', { requestId: 'req_t' }])
  })
})

describe('the error answer of a route', () => {
  const failing = async (error: unknown) => {
    vi.mocked(push).mockRejectedValue(error)
    const door = await openDoor()
    const result = await door.ask(send('POST', '/ojs/v1/jobs', {}))
    return { door, result, error: errorOf(result) }
  }

  test('has every member of seed 001 §16.1 and of the public suite', async () => {
    const thrown = new OjsError('invalid_request', 'No.', {
      status: 422,
      type: 'validation_error',
      details: { field: 'retry.max_attempts' },
    })
    const { result, error } = await failing(thrown)
    expect(result.status).toBe(422)
    expect(error).toEqual({
      code: 'invalid_request',
      type: 'validation_error',
      message: 'No.',
      retryable: false,
      details: { field: 'retry.max_attempts' },
      request_id: 'req_t',
    })
  })

  test.each([
    ['503', unavailable('RabbitMQ is away.', 'broker_down'), 503, '1'],
    ['503 without a time', new OjsError('backend_error', 'Away.', { status: 503 }), 503, '1'],
    ['429 without a time', new OjsError('rate_limited', 'Full.'), 429, '1'],
    ['429 with one', new OjsError('rate_limited', 'Full.', { retryAfterSeconds: 60 }), 429, '60'],
    ['409', stateConflict('No.', { job_id: 'x', current_state: 'completed' }), 409, undefined],
  ])('has the right Retry-After: %s', async (_name, thrown, status, seconds) => {
    const { result, door } = await failing(thrown)
    expect(result.status).toBe(status)
    expect(result.headers['retry-after']).toBe(seconds)
    expect(door.log).toEqual([])
  })

  test.each([
    ['an Error', new Error('secret amqp://u:p@h')],
    ['a TypeError', new TypeError('x is not a function')],
    ['a string', 'secret'],
  ])(
    'is 500 for an unknown exception, which is logged once and not shown, %s',
    async (_name, thrown) => {
      const { result, error, door } = await failing(thrown)
      expect(result.status).toBe(500)
      expect(error).toMatchObject({ code: 'backend_error', retryable: true })
      expect(error).not.toHaveProperty('details')
      expect(result.body).not.toMatch(/secret|function|stack/)
      expect(door.log).toEqual([
        {
          level: 'error',
          message: 'request failed',
          fields: { err: thrown, requestId: 'req_t', method: 'POST', path: '/ojs/v1/jobs' },
        },
      ])
    },
  )

  test('is 500 if undefined is thrown', async () => {
    const { result } = await failing(undefined)
    expect(result.status).toBe(500)
  })

  test('is 404 with hint and link for an unknown job', async () => {
    vi.mocked(info).mockImplementation((_deps, id) => {
      throw notFound('job', id)
    })
    const door = await openDoor()
    const error = errorOf(await door.ask(send('GET', '/ojs/v1/jobs/nope')))
    expect(error).toMatchObject({
      code: 'not_found',
      details: { resource_type: 'job', resource_id: 'nope' },
      hint: expect.any(String),
      docs_url: expect.any(String),
    })
  })

  test('is 413 for a body above the limit of the service', async () => {
    const door = await openDoor(100)
    const result = await door.ask(send('POST', '/ojs/v1/jobs', { type: 'a'.repeat(100) }))
    expect(result.status).toBe(413)
    expect(push).not.toHaveBeenCalled()
  })
})
