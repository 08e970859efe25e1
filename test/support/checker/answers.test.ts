import { expect, it } from 'vitest'
import { assertDescribed, OPERATION_IDS } from './answers.ts'

const told = (path: string, status: number, body: unknown, isExact = false) =>
  assertDescribed({ method: 'GET', path, status, body }, isExact)

const page = { total: 0, limit: 50, offset: 0, has_more: false }
const error = { code: 'not_found', message: 'm', retryable: false, request_id: 'r' }
const job = {
  ...{ specversion: '1.0', id: 'x', type: 'a', queue: 'q', args: [], meta: {}, priority: 0 },
  ...{ timeout_ms: 1, max_attempts: 3, tags: [], state: 'available', attempt: 0 },
  ...{ created_at: '2026-01-01T00:00:00Z', enqueued_at: '2026-01-01T00:00:00.000Z' },
}

it('takes an answer that is as the document says, and names its operation', () => {
  expect(told('/ojs/v1/queues?limit=1', 200, { queues: [], pagination: page })).toBe('listQueues')
  expect(told('/ojs/v1/jobs/x', 404, { error })).toBe('getJob')
  expect(told('/ojs/v1/jobs/x', 418, { error })).toBe('getJob')
  expect(told('/ojs/v1/dead-letter', 200, { jobs: [job], pagination: page })).toBe(
    'listDeadLetters',
  )
  expect(OPERATION_IDS).toContain('listQueues')
})

it('takes what is not of the API', () => {
  expect(told('/nowhere', 404, {})).toBeNull()
})

it.each([
  ['a status', 201, { queues: [], pagination: page }],
  ['a member that must be there', 200, { queues: [] }],
  ['a member that no schema has', 200, { queues: [], pagination: page, more: 1 }],
  ['one deeper', 200, { queues: [], pagination: { ...page, more: 1 } }],
  ['a type', 200, { queues: {}, pagination: page }],
  ['an error', 404, { error: { ...error, code: 'odd' } }],
])('refuses another: %s', (_what, status, body) => {
  expect(() => told('/ojs/v1/queues', status, body)).toThrow('listQueues')
})

it('refuses a parameter that the document does not have, of a request that succeeded', () => {
  expect(() => told('/ojs/v1/queues?odd=1', 200, { queues: [], pagination: page })).toThrow('odd')
  expect(told('/ojs/v1/queues?odd=1', 400, { error })).toBe('listQueues')
  const jobs = { jobs: [], total: 0, pagination: page }
  expect(told('/ojs/v1/jobs?meta.tenant=t7&tag=a', 200, jobs)).toBe('findJobs')
})

it('takes further members of a job, which its producer chose, unless it is to be exact', () => {
  for (const path of ['/ojs/v1/dead-letter', '/ojs/v1/jobs/x']) {
    const of = (shown: object) =>
      path.endsWith('x') ? { job: shown, state: 'available' } : { jobs: [shown], pagination: page }
    expect(told(path, 200, of({ ...job, mine: 1 }))).not.toBeNull()
    expect(told(path, 200, of(job), true)).not.toBeNull()
    expect(() => told(path, 200, of({ ...job, mine: 1 }), true)).toThrow('mine')
    expect(() => told(path, 200, of({ ...job, state: 'odd' }))).toThrow('state')
    expect(() => told(path, 200, of({ ...job, enqueued_at: 'now' }))).toThrow('enqueued_at')
  }
})
