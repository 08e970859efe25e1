import { describe, expect, it } from 'vitest'
import { OjsError } from '../../../src/errors.ts'
import { parseNativeHeartbeat, parseSync } from '../../../src/schemas/requests/control.ts'
import {
  parseAck,
  parseBatch,
  parseFetch,
  parseHeartbeat,
  parseNack,
  parsePush,
} from '../../../src/schemas/requests/validator.ts'

function refused(parse: (body: unknown) => unknown, body: unknown): OjsError {
  try {
    parse(body)
  } catch (error) {
    if (error instanceof OjsError) return error
    throw error
  }
  throw new Error('was accepted')
}

function expectField(error: OjsError, field: string): void {
  expect(error).toMatchObject({ status: 400, code: 'invalid_request', details: { field } })
  expect(error.message).toContain(`'${field}'`)
}

const ids = (length: number) => Array.from({ length }, (_, index) => `job-${index}`)

it.each<[(body: unknown) => unknown, object]>([
  [parseFetch, { queues: ['a'] }],
  [parseHeartbeat, {}],
  [parseSync, { queues: ['a'] }],
  [parseNativeHeartbeat, {}],
])('no worker is called *, which means all of them in a directive', (parse, body) => {
  expectField(refused(parse, { ...body, worker_id: '*' }), 'worker_id')
  for (const name of ['**', 'all', 'w*', ' *']) {
    expect(() => parse({ ...body, worker_id: name })).not.toThrow()
  }
})

describe('the error of a refused request', () => {
  const push = (member: object) => ({ type: 'a', args: [], ...member })

  it.each<[unknown, string, object]>([
    // The example of seed 001 §9.1.
    [push({ args: {} }), 'a JSON array', { field: 'args', expected: 'array', received: 'object' }],
    [push({ priority: 'x' }), 'an integer', { expected: 'integer', received: 'string' }],
    [push({ pending: 1 }), 'a boolean', { expected: 'boolean', received: 'number' }],
    [
      push({ visibility_timeout: [] }),
      'an integer or string',
      { expected: 'integer or string', received: 'array' },
    ],
  ])('for %j says that the member must be %s', (body, expected, details) => {
    const error = refused(parsePush, body)
    expect(error.message).toMatch(new RegExp(`^The '\\w+' field must be ${expected}\\.$`))
    expect(error.details).toMatchObject(details)
  })

  it.each([
    [{ timeout: 0 }, { field: 'timeout', validation: 'minimum', received: 0 }],
    [
      { queue: 'Q'.repeat(120) },
      { field: 'queue', validation: 'pattern', received: 'Q'.repeat(100) },
    ],
  ])('for %j has at most a hundred characters of what was received', (member, details) => {
    expect(refused(parsePush, push(member)).details).toEqual(details)
  })

  it('lists the accepted words for an unknown one', () => {
    const { message, details } = refused(parsePush, push({ retry: { on_exhaustion: 'drop' } }))
    const field = 'retry.on_exhaustion'
    expect(message).toBe(`The '${field}' field must be one of discard, dead_letter.`)
    const expected = ['discard', 'dead_letter']
    expect(details).toEqual({ field, validation: 'enum', expected, received: 'drop' })
  })
})

describe('FETCH', () => {
  it.each([undefined, null, -1, 0, 1, 100, 101, 1e9])('accepts count %s', (count) => {
    const body = { queues: ['default'], count }
    expect(parseFetch(body)).toBe(body)
  })

  it('accepts a hundred queues and no more', () => {
    const body = (length: number) => ({ queues: Array(length).fill('q') })
    expect(parseFetch(body(100))).toEqual(body(100))
    expectField(refused(parseFetch, body(101)), 'queues')
  })

  it('refuses a lease beyond ten years', () => {
    const body = { queues: ['q'], visibility_timeout_ms: 315_360_000_001 }
    expectField(refused(parseFetch, body), 'visibility_timeout_ms')
  })

  it.each([1.5, '1'])('refuses count %j', (count) => {
    expectField(refused(parseFetch, { queues: ['default'], count }), 'count')
  })

  it.each([
    { queues: ['q'.repeat(128)], worker_id: 'w'.repeat(255), visibility_timeout_ms: 1, wait_ms: 0 },
    { queues: ['q'], visibility_timeout_ms: 315_360_000_000, wait_ms: -1 },
    { queues: ['q'], worker_id: null, visibility_timeout_ms: null, wait_ms: null },
  ])('accepts body %#', (body) => {
    expect(parseFetch(body)).toBe(body)
  })

  it.each<[object, string]>([
    [{}, 'queues'],
    [{ queues: null }, 'queues'],
    [{ queues: 'q' }, 'queues'],
    [{ queues: [] }, 'queues'],
    [{ queues: ['q', ''] }, 'queues[1]'],
    [{ queues: ['q', 7] }, 'queues[1]'],
    [{ queues: ['q'.repeat(129)] }, 'queues[0]'],
    [{ queues: ['q'], worker_id: '' }, 'worker_id'],
    [{ queues: ['q'], worker_id: 7 }, 'worker_id'],
    [{ queues: ['q'], visibility_timeout_ms: 0 }, 'visibility_timeout_ms'],
    [{ queues: ['q'], visibility_timeout_ms: 1.5 }, 'visibility_timeout_ms'],
    [{ queues: ['q'], wait_ms: 1.5 }, 'wait_ms'],
    [{ queues: ['q'], wait_ms: '5' }, 'wait_ms'],
  ])('refuses %j and names %s', (body, field) => {
    expectField(refused(parseFetch, body), field)
  })
})

describe('ACK', () => {
  it.each([
    { job_id: 'x' },
    { job_id: 'x'.repeat(255), worker_id: 'w'.repeat(255), attempt: 1, result: [] },
    { job_id: 'x', worker_id: null, attempt: null, vendor: 1 },
  ])('accepts body %#', (body) => {
    expect(parseAck(body)).toBe(body)
  })

  it.each<[unknown, string]>([
    [[], 'body'],
    [null, 'body'],
    [{}, 'job_id'],
    [{ job_id: null }, 'job_id'],
    [{ job_id: '' }, 'job_id'],
    [{ job_id: 7 }, 'job_id'],
    [{ job_id: 'x', worker_id: '' }, 'worker_id'],
    [{ job_id: 'x', worker_id: 7 }, 'worker_id'],
    [{ job_id: 'x', attempt: 0 }, 'attempt'],
    [{ job_id: 'x', attempt: '1' }, 'attempt'],
  ])('refuses %j and names %s', (body, field) => {
    expectField(refused(parseAck, body), field)
  })
})

describe('NACK', () => {
  const error = { code: 'handler_error', message: 'no route' }

  it.each([
    { job_id: 'x', error },
    { job_id: 'x', error: { type: 'SmtpError', message: 'm' } },
    { job_id: 'x', error: { code: 'c', type: 'T', message: 'm' } },
    { job_id: 'x', error: { code: 'handler_error', message: '' } },
    { job_id: 'x', error: { code: null, type: 'T', message: 'm' } },
    { job_id: 'x', error: { ...error, type: null, retryable: null, details: null } },
    { job_id: 'x', error: { ...error, retryable: false, details: { a: 1 }, backtrace: ['f'] } },
    { job_id: 'x', error: { ...error, code: 'c'.repeat(9_000), message: 'm'.repeat(90_000) } },
    { job_id: 'x', error: { ...error, vendor: 1 }, worker_id: 'w', attempt: 2, requeue: true },
    { job_id: 'x', error: { code: 'c', message: 'm' }, attempt: 1 },
    { job_id: 'x', error, worker_id: null, attempt: null, requeue: null, vendor: 1 },
  ])('accepts %j', (body) => {
    expect(parseNack(body)).toBe(body)
  })

  it.each<[unknown, string]>([
    [[], 'body'],
    [{ error }, 'job_id'],
    [{ job_id: '', error }, 'job_id'],
    [{ job_id: 'x'.repeat(256), error }, 'job_id'],
    [{ job_id: 7, error }, 'job_id'],
    [{ job_id: 'x' }, 'error'],
    [{ job_id: 'x', error: null }, 'error'],
    [{ job_id: 'x', error: 'no route' }, 'error'],
    [{ job_id: 'x', error: { code: 'c' } }, 'error.message'],
    [{ job_id: 'x', error: { code: 'c', message: null } }, 'error.message'],
    [{ job_id: 'x', error: { message: 'm' } }, 'error.code'],
    [{ job_id: 'x', error: { code: null, message: 'm' } }, 'error.code'],
    [{ job_id: 'x', error: { code: '', message: 'm' } }, 'error.code'],
    [{ job_id: 'x', error: { code: 7, message: 'm' } }, 'error.code'],
    [{ job_id: 'x', error: { ...error, type: 7 } }, 'error.type'],
    [{ job_id: 'x', error: { ...error, type: '' } }, 'error.type'],
    [{ job_id: 'x', error: { ...error, retryable: 'no' } }, 'error.retryable'],
    [{ job_id: 'x', error: { ...error, details: [] } }, 'error.details'],
    [{ job_id: 'x', error, worker_id: '' }, 'worker_id'],
    [{ job_id: 'x', error, worker_id: 'w'.repeat(256) }, 'worker_id'],
    [{ job_id: 'x', error, worker_id: 'w\0' }, 'worker_id'],
    [{ job_id: 'x', error, worker_id: 'w\ud83d' }, 'worker_id'],
    [{ job_id: 'x\0y', error }, 'job_id'],
    [{ job_id: 'x', error, attempt: 0 }, 'attempt'],
    [{ job_id: 'x', error, attempt: 1.5 }, 'attempt'],
    [{ job_id: 'x', error, requeue: 'yes' }, 'requeue'],
  ])('refuses %j and names %s', (body, field) => {
    expectField(refused(parseNack, body), field)
  })

  it('says that a missing code is required, not that it has the wrong type', () => {
    const { message } = refused(parseNack, { job_id: 'x', error: { message: 'm' } })
    expect(message).toBe("The 'error.code' field is required.")
  })
})

describe('heartbeat', () => {
  const full = {
    worker_id: 'w',
    active_jobs: 3,
    active_job_ids: ids(1000),
    job_id: 'x',
    attempt: 1,
    visibility_timeout_ms: 30_000,
    state: 'running',
    queues: ['default'],
    hostname: 'h',
    pid: 0,
    concurrency: 10,
    labels: ['', 'gpu'],
    version: '1.2.3',
  }
  const nulls = Object.fromEntries(Object.keys(full).map((name) => [name, null]))

  it.each([
    { worker_id: 'w' },
    { worker_id: 'w', active_jobs: ids(1000) },
    { worker_id: 'w', active_jobs: [] },
    { worker_id: 'w', state: 'on strike', memory_mb: 80 },
    full,
    { ...full, active_jobs: 0, visibility_timeout_ms: 1, concurrency: 0 },
    {
      worker_id: 'w'.repeat(255),
      state: 's'.repeat(255),
      queues: Array(100).fill('q'.repeat(128)),
      labels: Array(64).fill('l'.repeat(255)),
    },
    { ...nulls, worker_id: 'w' },
  ])('accepts body %#', (body) => {
    expect(parseHeartbeat(body)).toBe(body)
  })

  it.each<[string, unknown, string]>([
    ['worker_id', undefined, 'worker_id'],
    ['worker_id', null, 'worker_id'],
    ['worker_id', '', 'worker_id'],
    ['worker_id', 'w'.repeat(256), 'worker_id'],
    ['active_jobs', 'x', 'active_jobs'],
    ['active_jobs', -1, 'active_jobs'],
    ['active_jobs', 1.5, 'active_jobs'],
    ['active_jobs', ids(1001), 'active_jobs'],
    ['active_jobs', ['a', 7], 'active_jobs[1]'],
    ['active_job_ids', 3, 'active_job_ids'],
    ['active_job_ids', ids(1001), 'active_job_ids'],
    ['active_job_ids', ['a', null], 'active_job_ids[1]'],
    ['job_id', '', 'job_id'],
    ['attempt', 0, 'attempt'],
    ['visibility_timeout_ms', 0, 'visibility_timeout_ms'],
    ['visibility_timeout_ms', 315_360_000_001, 'visibility_timeout_ms'],
    ['visibility_timeout_ms', '30000', 'visibility_timeout_ms'],
    ['state', 7, 'state'],
    ['state', 's'.repeat(256), 'state'],
    ['queues', Array.from({ length: 101 }, () => 'q'), 'queues'],
    ['queues', ['q'.repeat(129)], 'queues[0]'],
    ['hostname', 'h'.repeat(256), 'hostname'],
    ['pid', -1, 'pid'],
    ['concurrency', '10', 'concurrency'],
    ['labels', ids(65), 'labels'],
    ['labels', { gpu: true }, 'labels'],
    ['labels', ['x'.repeat(256)], 'labels[0]'],
    ['version', 'v'.repeat(256), 'version'],
  ])('refuses %s: %j', (name, value, field) => {
    expectField(refused(parseHeartbeat, { worker_id: 'w', [name]: value }), field)
  })
})

describe('batch', () => {
  it.each([1, 1000])('accepts %i jobs of any content', (length) => {
    const body = { jobs: Array.from({ length }, () => 7) }
    expect(parseBatch(body)).toBe(body)
  })

  it.each<[string, unknown, string]>([
    ['nothing', {}, 'jobs'],
    ['null', { jobs: null }, 'jobs'],
    ['an object', { jobs: {} }, 'jobs'],
    ['no job', { jobs: [] }, 'jobs'],
    ['1001 jobs', { jobs: ids(1001) }, 'jobs'],
    ['an array', [], 'body'],
  ])('refuses %s', (_name, body, field) => {
    expectField(refused(parseBatch, body), field)
  })
})
