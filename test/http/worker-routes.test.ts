import { beforeEach, describe, expect, test, vi } from 'vitest'
import { heartbeat } from '../../src/operations/lease/heartbeat.ts'
import type { ListedWorker } from '../../src/operations/workers/worker-registry.ts'
import { directWorker, listWorkers } from '../../src/operations/workers/workers.ts'
import { openDoor } from './door.ts'
import { errorOf, OJS } from './frame.ts'
import { request } from './raw-client.ts'

// Routes parse, call an operation and render its result. The operations have tests of their own.
vi.mock('../../src/operations/lease/heartbeat.ts')
vi.mock('../../src/operations/workers/workers.ts')

beforeEach(() => {
  vi.resetAllMocks()
})

const send = (method: string, path: string, body?: object) =>
  request(method, path, { 'X-Request-Id': 'req_t' }, body && JSON.stringify(body))

function listed(over: Partial<ListedWorker> = {}): ListedWorker {
  return {
    id: 'w1',
    state: 'running',
    reported: null,
    directive: 'running',
    hostname: null,
    pid: null,
    queues: ['a'],
    concurrency: null,
    labels: [],
    version: null,
    activeJobs: 0,
    activeJobIds: [],
    startedAt: 1_000,
    lastHeartbeatAt: null,
    lastSeenAt: 2_000,
    ...over,
  }
}

test("BEAT passes its body to the operation and renders the operation's result", async () => {
  vi.mocked(heartbeat).mockResolvedValue({
    directive: 'quiet',
    extended: ['x'],
    cancelled: ['y'],
    serverTime: 3_000,
  })
  const door = await openDoor()
  const sent = { worker_id: 'w1', active_jobs: ['x', 'y'] }
  const result = await door.ask(send('POST', '/ojs/v1/workers/heartbeat', sent))
  expect(result).toMatchObject({ status: 200, headers: { 'content-type': OJS } })
  expect(JSON.parse(result.body)).toEqual({
    state: 'quiet',
    directive: 'quiet',
    jobs_extended: ['x'],
    cancelled_jobs: ['y'],
    server_time: '1970-01-01T00:00:03.000Z',
    heartbeat_interval_ms: 5_000,
  })
  expect(vi.mocked(heartbeat).mock.calls[0]?.[1]).toEqual(sent)
})

test.each([
  [30_000, 5_000],
  [14_999, 4_999],
  [4_000, 1_333],
  [1, 50],
])(
  'BEAT with leases of %i ms answers a heartbeat_interval_ms of %i',
  async (visibilityTimeoutMs, wanted) => {
    const answered = { directive: 'running', extended: [], cancelled: [], serverTime: 0 } as const
    vi.mocked(heartbeat).mockResolvedValue({ ...answered, extended: [], cancelled: [] })
    const door = await openDoor(10_000, {}, { visibilityTimeoutMs })
    const { body } = await door.ask(send('POST', '/ojs/v1/workers/heartbeat', { worker_id: 'w1' }))
    expect(JSON.parse(body)).toMatchObject({ heartbeat_interval_ms: wanted })
  },
)

describe('GET /ojs/v1/admin/workers', () => {
  test('answers items, summary and pagination', async () => {
    const known = {
      hostname: 'h',
      pid: 7,
      concurrency: 10,
      labels: ['l'],
      version: '1.0',
      activeJobs: 2,
      activeJobIds: ['x'],
      lastHeartbeatAt: 1_500,
    }
    const summary = { total: 60, running: 58, quiet: 1, terminate: 0, stale: 1 }
    vi.mocked(listWorkers).mockResolvedValue({
      workers: [listed({ id: 'w2', state: 'stale', ...known }), listed()],
      summary,
    })
    const door = await openDoor()
    const result = await door.ask(send('GET', '/ojs/v1/admin/workers?limit=2&offset=4'))
    expect(result.status).toBe(200)
    expect(JSON.parse(result.body)).toEqual({
      items: [
        {
          id: 'w2',
          worker_id: 'w2',
          state: 'stale',
          directive: 'running',
          hostname: 'h',
          pid: 7,
          queues: ['a'],
          concurrency: 10,
          labels: ['l'],
          version: '1.0',
          active_jobs: 2,
          active_job_ids: ['x'],
          started_at: '1970-01-01T00:00:01.000Z',
          last_heartbeat_at: '1970-01-01T00:00:01.500Z',
          last_heartbeat: '1970-01-01T00:00:01.500Z',
          metadata: {},
          last_seen_at: '1970-01-01T00:00:02.000Z',
        },
        {
          id: 'w1',
          worker_id: 'w1',
          state: 'running',
          directive: 'running',
          queues: ['a'],
          labels: [],
          active_jobs: 0,
          active_job_ids: [],
          started_at: '1970-01-01T00:00:01.000Z',
          last_heartbeat_at: '1970-01-01T00:00:02.000Z',
          last_heartbeat: '1970-01-01T00:00:02.000Z',
          metadata: {},
          last_seen_at: '1970-01-01T00:00:02.000Z',
        },
      ],
      summary,
      pagination: {
        ...{ total: 60, limit: 2, offset: 4, page: 3, per_page: 2, has_more: true },
        next_cursor: expect.any(String),
      },
    })
    expect(vi.mocked(listWorkers).mock.calls[0]?.[1]).toEqual({ limit: 2, offset: 4 })
  })

  test('answers 400 to a limit that is no number', async () => {
    const door = await openDoor()
    const result = await door.ask(send('GET', '/ojs/v1/admin/workers?limit=x'))
    expect(result.status).toBe(400)
    expect(errorOf(result)).toMatchObject({ code: 'invalid_request' })
    expect(listWorkers).not.toHaveBeenCalled()
  })
})

describe('POST /ojs/v1/admin/workers/:id/:directive', () => {
  test.each(['quiet', 'terminate'] as const)('sends %s to one worker', async (directive) => {
    vi.mocked(directWorker).mockResolvedValue({ worker: listed({ directive }) })
    const door = await openDoor()
    const result = await door.ask(send('POST', `/ojs/v1/admin/workers/host%2F1/${directive}`))
    expect(result.status).toBe(200)
    expect(JSON.parse(result.body)).toMatchObject({ worker: { worker_id: 'w1', directive } })
    const [, ...args] = vi.mocked(directWorker).mock.calls[0] ?? []
    expect(args).toEqual(['host/1', directive, { requestId: 'req_t' }])
  })

  test('sends quiet to all workers for the id *', async () => {
    vi.mocked(directWorker).mockResolvedValue({ workers: 3 })
    const door = await openDoor()
    const result = await door.ask(send('POST', '/ojs/v1/admin/workers/*/quiet', {}))
    expect(result).toMatchObject({ status: 200, body: '{"workers":3}' })
    expect(vi.mocked(directWorker).mock.calls[0]?.[1]).toBe('*')
  })

  test('answers 400 and sends no directive if the body is no JSON', async () => {
    const door = await openDoor()
    const path = '/ojs/v1/admin/workers/w1/quiet'
    const result = await door.ask(request('POST', path, { 'X-Request-Id': 'req_t' }, '[1'))
    expect(result.status).toBe(400)
    expect(directWorker).not.toHaveBeenCalled()
  })
})
