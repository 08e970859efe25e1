import { beforeEach, describe, expect, test, vi } from 'vitest'
import type { Dialect } from '../../src/dialect.ts'
import { pauseQueue, resumeQueue } from '../../src/operations/queues/pause.ts'
import { listQueues, queuePriorities, queueStats } from '../../src/operations/queues/queues.ts'
import { recoverQueue } from '../../src/operations/queues/recover.ts'
import { openDoor } from './door.ts'
import { request } from './raw-client.ts'

// Routes parse, call an operation and render its result. The operations have tests of their own.
vi.mock('../../src/operations/queues/pause.ts')
vi.mock('../../src/operations/queues/queues.ts')
vi.mock('../../src/operations/queues/recover.ts')

beforeEach(() => {
  vi.resetAllMocks()
})

async function ask(method: string, path: string, dialect: Dialect = 'seed') {
  const door = await openDoor(undefined, {}, { dialect })
  const result = await door.ask(request(method, `/ojs/v1/queues${path}`))
  expect(result.status).toBe(200)
  return JSON.parse(result.body)
}

describe('GET /ojs/v1/queues/:name/stats', () => {
  const counts = {
    available: 1,
    active: 20,
    scheduled: 300,
    retryable: 4_000,
    discarded: 5,
    pending: 6,
    completed: 7,
    cancelled: 8,
  }
  const lastHour = {
    enqueued: 9,
    retried: 1,
    completed: 5,
    failed: 2,
    timed: 4,
    durationMs: 1_002,
    waited: 3,
    waitMs: 200,
  }

  test('answers each count under its name, and a depth without active and ended jobs', async () => {
    const oldest = { available: 1_000, retryable: null, scheduled: 500 }
    const found = {
      status: 'paused' as const,
      counts,
      held: 1,
      lastHour,
      oldest,
      computedAt: 3_000,
    }
    vi.mocked(queueStats).mockResolvedValue(found)
    const stats = {
      ...counts,
      held: 1,
      completed_last_hour: 5,
      failed_last_hour: 2,
      // Averages over the jobs whose times are known, which may be fewer.
      avg_duration_ms: 251,
      avg_wait_ms: 67,
      throughput_per_second: 0.00139,
      depth: 4_301,
    }
    expect(await ask('GET', '/a/stats')).toEqual({
      ...stats,
      queue: 'a',
      status: 'paused',
      stats,
      oldest_available_at: '1970-01-01T00:00:01.000Z',
      oldest_available_age_seconds: 2,
      oldest_overdue_schedule_at: '1970-01-01T00:00:00.500Z',
      computed_at: '1970-01-01T00:00:03.000Z',
    })
    expect(vi.mocked(queueStats).mock.calls[0]?.[1]).toBe('a')
  })
})

test('GET /ojs/v1/queues/:name/priority-stats begins with the highest priority, and tells of a part', async () => {
  const counts = new Map([
    [0, 7],
    [-5, 1],
    [50, 2],
    [9, 3],
  ])
  vi.mocked(queuePriorities).mockResolvedValueOnce({ counts, searched: null })
  const distribution = [
    { priority: 50, count: 2 },
    { priority: 9, count: 3 },
    { priority: 0, count: 7 },
    { priority: -5, count: 1 },
  ]
  expect(await ask('GET', '/a/priority-stats')).toEqual({ queue: 'a', distribution })
  vi.mocked(queuePriorities).mockResolvedValueOnce({ counts, searched: 100_000 })
  expect(await ask('GET', '/a/priority-stats')).toEqual({
    ...{ queue: 'a', distribution, stats_are_partial: true, searched: 100_000 },
  })
})

test('GET /ojs/v1/queues answers a page with the total number of queues', async () => {
  const counts = { available: 4, active: 2, scheduled: 1, retryable: 0 }
  const queue = {
    ...{ name: 'b', status: 'active' as const, createdAt: 1_000, pausedAt: null, computedAt: 0 },
    counts: { ...counts, discarded: 0, pending: 9, completed: 0, cancelled: 0 },
    recent: {
      enqueued: 0,
      retried: 0,
      completed: 0,
      failed: 0,
      timed: 0,
      durationMs: 0,
      waited: 0,
      waitMs: 0,
    },
    oldest: { available: null, retryable: null, scheduled: null },
    drain: null,
  }
  vi.mocked(listQueues).mockResolvedValue({ queues: [queue], total: 3 })
  expect(await ask('GET', '?limit=1&offset=1')).toEqual({
    queues: [
      {
        ...{ name: 'b', status: 'active', created_at: '1970-01-01T00:00:01.000Z' },
        // The jobs that wait to run, as autoscalers read it.
        pending: 4,
        active: 2,
      },
    ],
    pagination: { total: 3, limit: 1, offset: 1, has_more: true },
  })
  expect(vi.mocked(listQueues).mock.calls[0]?.[1]).toEqual({ limit: 1, offset: 1 })
})

test('pause and resume answer the status of the queue and the time', async () => {
  vi.mocked(pauseQueue).mockResolvedValue({ pausedAt: 4_000 })
  vi.mocked(resumeQueue).mockResolvedValue({ resumedAt: 5_000 })
  expect(await ask('POST', '/a/pause')).toEqual({
    queue: 'a',
    status: 'paused',
    paused_at: '1970-01-01T00:00:04.000Z',
  })
  expect(await ask('POST', '/a/resume')).toEqual({
    queue: 'a',
    status: 'active',
    resumed_at: '1970-01-01T00:00:05.000Z',
  })
})

// T2 of `src/dialect.ts`. Tested here too, because not every run includes OJS's public suite, which needs it.
test('pause and resume answer a queue object with OJS_DIALECT=conformance', async () => {
  vi.mocked(pauseQueue).mockResolvedValue({ pausedAt: 4_000 })
  vi.mocked(resumeQueue).mockResolvedValue({ resumedAt: 5_000 })
  const pause = await ask('POST', '/a/pause', 'conformance')
  expect(pause.queue).toEqual({ name: 'a', paused: true })
  const resume = await ask('POST', '/a/resume', 'conformance')
  expect(resume.queue).toEqual({ name: 'a', paused: false })
})

test.each(['/queues/a/pause', '/queues/a/resume', '/admin/queues/a/recover'])(
  'POST %s is refused with a body that is no JSON, and nothing is done',
  async (path) => {
    const door = await openDoor()
    const type = { 'Content-Type': 'application/json' }
    const { status, body } = await door.ask(request('POST', `/ojs/v1${path}`, type, '{'))
    expect([status, JSON.parse(body).error.code]).toEqual([400, 'invalid_payload'])
    for (const done of [pauseQueue, resumeQueue, recoverQueue]) expect(done).not.toHaveBeenCalled()
  },
)
