import { beforeEach, expect, test, vi } from 'vitest'
import { ack } from '../../src/operations/lease/ack.ts'
import { heartbeat } from '../../src/operations/lease/heartbeat.ts'
import { nack } from '../../src/operations/lease/nack.ts'
import { openDoor } from './door.ts'
import { errorOf } from './frame.ts'
import { jobRow } from './job-rows.ts'
import { request } from './raw-client.ts'

vi.mock('../../src/operations/lease/ack.ts')
vi.mock('../../src/operations/lease/nack.ts')
vi.mock('../../src/operations/lease/heartbeat.ts')

beforeEach(() => {
  vi.resetAllMocks()
  vi.mocked(ack).mockResolvedValue(jobRow({ id: 'x', state: 'completed' }))
  vi.mocked(nack).mockResolvedValue(jobRow({ id: 'x', state: 'discarded' }))
  const told = { directive: 'running', extended: [], cancelled: [], serverTime: 0 } as const
  vi.mocked(heartbeat).mockResolvedValue({ ...told, extended: [], cancelled: [] })
})

const post = async (path: string, body?: object) =>
  (await openDoor()).ask(request('POST', path, {}, body && JSON.stringify(body)))

test.each([
  ['without a body', undefined, {}],
  [
    'with what ACK takes',
    { result: 1, worker_id: 'w', attempt: 2 },
    { result: 1, worker_id: 'w', attempt: 2 },
  ],
  ['that names the job too', { job_id: 'x' }, {}],
])('POST /jobs/:id/ack %s acknowledges the job of the path', async (_, sent, passed) => {
  const { status, body } = await post('/ojs/v1/jobs/x/ack', sent)
  expect(status).toBe(200)
  expect(JSON.parse(body)).toMatchObject({ acknowledged: true, job: { state: 'completed' } })
  expect(vi.mocked(ack).mock.calls[0]?.[1]).toEqual({ ...passed, job_id: 'x' })
})

test('POST /jobs/:id/nack fails the job of the path, and answers the job too', async () => {
  const error = { code: 'e', message: 'm' }
  const { status, body } = await post('/ojs/v1/jobs/x/nack', { error, requeue: false })
  expect(status).toBe(200)
  expect(JSON.parse(body)).toMatchObject({
    state: 'discarded',
    job: { id: 'x', state: 'discarded' },
  })
  expect(vi.mocked(nack).mock.calls[0]?.[1]).toEqual({ error, requeue: false, job_id: 'x' })
})

test.each(['ack', 'nack'])(
  'POST /jobs/:id/%s is a 400 if the body names another job',
  async (verb) => {
    const result = await post(`/ojs/v1/jobs/x/${verb}`, { job_id: 'y', error: {} })
    expect(result.status).toBe(400)
    expect(errorOf(result).details).toMatchObject({ field: 'job_id', expected: 'x' })
    expect(ack).not.toHaveBeenCalled()
    expect(nack).not.toHaveBeenCalled()
  },
)

test.each([
  [{ state: 'running' }, 'running'],
  [{ state: 'drain' }, 'quiet'],
  [{ state: 'draining' }, 'quiet'],
  [{ state: 'drain', shutdown: true }, 'terminate'],
  [{ shutdown: true }, 'terminate'],
  [{ shutdown: false }, undefined],
])('POST /workers/beat is a heartbeat: %j', async (said, state) => {
  const sent = { worker_id: 'w', active_jobs: 0, ...said }
  const { status, body } = await post('/ojs/v1/workers/beat', sent)
  expect(status).toBe(200)
  expect(JSON.parse(body)).toMatchObject({ acknowledged: true, directive: 'running' })
  expect(vi.mocked(heartbeat).mock.calls[0]?.[1]).toEqual({ ...sent, ...(state && { state }) })
})
