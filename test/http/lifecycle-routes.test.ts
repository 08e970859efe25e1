import { beforeEach, describe, expect, test, vi } from 'vitest'
import { OjsError } from '../../src/errors.ts'
import type { JobRow } from '../../src/job/job.ts'
import {
  deleteDeadLetter,
  listDeadLetters,
  retryDeadLetter,
} from '../../src/operations/dead-letters/dead-letters.ts'
import { activate } from '../../src/operations/enqueue/activate.ts'
import { pushBatch } from '../../src/operations/enqueue/push-batch.ts'
import { nack } from '../../src/operations/lease/nack.ts'
import { openDoor } from './door.ts'
import { errorOf, OJS } from './frame.ts'
import { jobRow } from './job-rows.ts'
import { request } from './raw-client.ts'

// Routes parse, call an operation and render its result. The operations have tests of their own.
vi.mock('../../src/operations/enqueue/activate.ts')
vi.mock('../../src/operations/dead-letters/dead-letters.ts')
vi.mock('../../src/operations/lease/nack.ts')
vi.mock('../../src/operations/enqueue/push-batch.ts')

beforeEach(() => {
  vi.resetAllMocks()
})

const ID = jobRow().id
const CONTEXT = { requestId: 'req_t' }

async function ask(method: string, path: string, body?: object) {
  const door = await openDoor()
  const text = body && JSON.stringify(body)
  return await door.ask(request(method, path, { 'X-Request-Id': 'req_t' }, text))
}

describe('NACK', () => {
  const sent = { job_id: ID, error: { code: 'x', message: 'y' } }

  test('answers time and delay of the next attempt of a job that is retried (seed 001 §10.3)', async () => {
    const job = jobRow({ state: 'retryable', attempt: 2, dueAt: 5_000, retryDelayMs: 1_400 })
    vi.mocked(nack).mockResolvedValue(job)
    const result = await ask('POST', '/ojs/v1/workers/nack', sent)
    expect(result).toMatchObject({ status: 200, headers: { 'content-type': OJS } })
    expect(JSON.parse(result.body)).toEqual({
      job_id: ID,
      id: ID,
      state: 'retryable',
      attempt: 2,
      max_attempts: 3,
      next_attempt_at: '1970-01-01T00:00:05.000Z',
      retry_delay_ms: 1_400,
    })
    expect(vi.mocked(nack).mock.calls[0]?.slice(1)).toEqual([sent, CONTEXT])
  })

  test('answers discarded_at and completed_at of a job that is discarded', async () => {
    const job = jobRow({ state: 'discarded', attempt: 3, completedAt: 4_000, discardedAt: 4_000 })
    vi.mocked(nack).mockResolvedValue(job)
    expect(JSON.parse((await ask('POST', '/ojs/v1/workers/nack', sent)).body)).toEqual({
      job_id: ID,
      id: ID,
      state: 'discarded',
      attempt: 3,
      max_attempts: 3,
      discarded_at: '1970-01-01T00:00:04.000Z',
      completed_at: '1970-01-01T00:00:04.000Z',
    })
  })

  test('answers no delay for a job that was given back with requeue', async () => {
    vi.mocked(nack).mockResolvedValue(jobRow({ attempt: 0 }))
    const { body } = await ask('POST', '/ojs/v1/workers/nack', { ...sent, requeue: true })
    const plain = { job_id: ID, id: ID, state: 'available', attempt: 0, max_attempts: 3 }
    expect(JSON.parse(body)).toEqual(plain)
  })
})

test('PUSH batch answers 201 with every job and their count', async () => {
  vi.mocked(pushBatch).mockResolvedValue({
    jobs: [jobRow({ id: 'a' }), jobRow({ id: 'b' })],
    existing: [],
  })
  const result = await ask('POST', '/ojs/v1/jobs/batch', { jobs: [{}, {}] })
  expect(result.status).toBe(201)
  expect(JSON.parse(result.body)).toMatchObject({ jobs: [{ id: 'a' }, { id: 'b' }], count: 2 })
  expect(vi.mocked(pushBatch).mock.calls[0]?.slice(1)).toEqual([{ jobs: [{}, {}] }, CONTEXT])
})

test.each([
  [[1], true, 201, { deduplicated: [1] }],
  [[0, 1], undefined, 200, { deduplicated: [0, 1] }],
  [[], true, 201, {}],
])(
  'PUSH batch answers deduplicated, replay and status if these of two jobs existed before: %j',
  async (existing, isReplay, status, more) => {
    const jobs = [jobRow({ id: 'a' }), jobRow({ id: 'b' })]
    vi.mocked(pushBatch).mockResolvedValue({ jobs, existing, ...(isReplay && { isReplay }) })
    const result = await ask('POST', '/ojs/v1/jobs/batch', { jobs: [{}, {}] })
    expect(result.status).toBe(status)
    const { jobs: list, ...told } = JSON.parse(result.body)
    expect([list.length, told]).toEqual([2, { count: 2, ...more }])
    expect(result.headers['idempotent-replayed']).toBe(isReplay && 'true')
  },
)

test('PUSH batch accepts a body beyond the limit for a single job', async () => {
  vi.mocked(pushBatch).mockResolvedValue({ jobs: [jobRow()], existing: [] })
  const body = { jobs: ['a'.repeat(2_000)] }
  const door = await openDoor(1_000)
  const result = await door.ask(request('POST', '/ojs/v1/jobs/batch', {}, JSON.stringify(body)))
  expect(result.status).toBe(201)
})

test('ACTIVATE answers the job with its previous state (seed 001 §9.5)', async () => {
  vi.mocked(activate).mockResolvedValue(jobRow({ activatedAt: 3_000 }))
  const result = await ask('POST', '/ojs/v1/jobs/any%20id/activate')
  expect(result.status).toBe(200)
  expect(JSON.parse(result.body)).toMatchObject({
    job: { id: ID, activated_at: '1970-01-01T00:00:03.000Z', previous_state: 'pending' },
  })
  expect(vi.mocked(activate).mock.calls[0]?.slice(1)).toEqual(['any id', CONTEXT])
})

test('ACTIVATE answers 400 to a body that is no JSON, and activates nothing', async () => {
  const door = await openDoor()
  const result = await door.ask(request('POST', `/ojs/v1/jobs/${ID}/activate`, {}, '{'))
  expect([result.status, errorOf(result).code]).toEqual([400, 'invalid_payload'])
  expect(activate).not.toHaveBeenCalled()
})

describe('the dead letter routes', () => {
  const path = '/ojs/v1/dead-letter'

  const found = (jobs: JobRow[], count: number) => ({
    jobs: jobs.map((whole) => ({ ...whole, workflowId: null, whole })),
    next: jobs.length > 0 ? ([1, 2] as const) : null,
    isEarly: false,
    searched: null,
    total: { count, isBound: false },
  })

  test('list a page of jobs with its pagination (seed 001 §12.1)', async () => {
    const job = jobRow({ state: 'discarded', discardedAt: 4_000, error: '{"code":"x"}' })
    vi.mocked(listDeadLetters).mockResolvedValue(found([job], 12))
    const result = await ask('GET', `${path}?queue=email&limit=1&offset=10`)
    expect(JSON.parse(result.body)).toEqual({
      jobs: [expect.objectContaining({ id: ID, state: 'discarded', error: { code: 'x' } })],
      pagination: {
        ...{ total: 12, limit: 1, offset: 10, has_more: true },
        next_cursor: expect.any(String),
      },
    })
    const [, filter, place] = vi.mocked(listDeadLetters).mock.calls[0] ?? []
    expect(filter).toMatchObject({ queues: ['email'] })
    expect(place).toEqual({ after: null, limit: 1, offset: 10, isWhole: true })
  })

  test('list a shortened page with its real limit', async () => {
    vi.mocked(listDeadLetters).mockResolvedValue(found([jobRow()], 12))
    const { pagination } = JSON.parse((await ask('GET', `${path}?limit=5`)).body)
    expect(pagination).toMatchObject({ total: 12, limit: 1, offset: 0, has_more: true })
  })

  test.each([
    ['', { limit: 50, offset: 0 }],
    ['?limit=1000', { limit: 100, offset: 0 }],
    ['?limit=0', { limit: 0, offset: 0 }],
  ])('list with defaults and bounds of limit and offset: "%s"', async (query, expected) => {
    vi.mocked(listDeadLetters).mockResolvedValue(found([], 0))
    expect((await ask('GET', `${path}${query}`)).status).toBe(200)
    expect(vi.mocked(listDeadLetters).mock.calls[0]?.[2]).toMatchObject(expected)
  })

  test('list an empty page for a limit of 0, which says whether there are any', async () => {
    for (const total of [0, 3]) {
      vi.mocked(listDeadLetters).mockResolvedValue(found([], total))
      expect(JSON.parse((await ask('GET', `${path}?limit=0`)).body)).toEqual({
        jobs: [],
        pagination: { total, limit: 0, offset: 0, has_more: total > 0 },
      })
    }
  })

  test('retry a job and answer its time, with and without a body (seed 001 §12.2)', async () => {
    vi.mocked(retryDeadLetter).mockResolvedValue(jobRow())
    for (const body of [undefined, {}]) {
      const result = await ask('POST', `${path}/x/retry`, body)
      expect(result.status).toBe(200)
      expect(JSON.parse(result.body)).toMatchObject({
        job: { id: ID, state: 'available', re_enqueued_at: '1970-01-01T00:00:02.000Z' },
      })
    }
  })

  test('delete a job (seed 001 §12.3), or answer 404', async () => {
    vi.mocked(deleteDeadLetter).mockResolvedValueOnce(undefined)
    const result = await ask('DELETE', `${path}/x`)
    expect(result).toMatchObject({ status: 200, body: '{"deleted":true,"job_id":"x"}' })
    vi.mocked(deleteDeadLetter).mockRejectedValue(new OjsError('not_found', 'None.'))
    const missing = await ask('DELETE', `${path}/x`)
    expect(missing.status).toBe(404)
    expect(errorOf(missing)).toMatchObject({ code: 'not_found' })
  })
})
