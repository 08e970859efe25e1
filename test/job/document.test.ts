import { describe, expect, it } from 'vitest'
import { freshJobObject, jobDocument, ownEnvelope } from '../../src/job/document.ts'
import { describeJob } from '../../src/job/envelope.ts'
import { freshRow, type JobRow } from '../../src/job/job.ts'
import { parsePush } from '../../src/schemas/requests/validator.ts'

const NOW = Date.parse('2026-02-12T10:30:00.000Z')

function row(over: Partial<JobRow> = {}): JobRow {
  const job = {
    id: '019539a4-b68c-7def-8000-1a2b3c4d5e6f',
    type: 'a',
    queue: 'q',
    priority: 0,
    maxAttempts: 3,
    visibilityTimeoutMs: null,
    timeoutMs: 0,
    expiresAt: null,
    createdAt: NOW,
    envelope: '{"id":"x","args":["}"],"vendor":1}',
    carry: null,
    start: { state: 'available' as const },
    unique: null,
  }
  return { ...freshRow(job, { generation: 0, outbox: 1, enqueuedAt: NOW }), ...over }
}

it('the job document is the stored envelope with the state of the job appended', () => {
  expect(JSON.parse(jobDocument(row()))).toEqual({
    id: 'x',
    args: ['}'],
    vendor: 1,
    state: 'available',
    attempt: 0,
    enqueued_at: '2026-02-12T10:30:00.000Z',
  })
})

it('the job document names the generation of a job that begins again, and not that of its first life', () => {
  expect(JSON.parse(jobDocument(row({ generation: 2 })))).toMatchObject({
    attempt: 0,
    generation: 2,
  })
  expect(jobDocument(row())).not.toContain('generation')
})

it('the job document has all members of an ended job, and none that do not apply', () => {
  const done = row({
    state: 'completed',
    attempt: 2,
    workerId: 'w',
    startedAt: NOW + 1,
    completedAt: NOW + 2,
    result: '{"ok":true}',
    errors: '[{"attempt":1}]',
  })
  expect(JSON.parse(jobDocument(done))).toMatchObject({
    state: 'completed',
    attempt: 2,
    started_at: '2026-02-12T10:30:00.001Z',
    completed_at: '2026-02-12T10:30:00.002Z',
    result: { ok: true },
    errors: [{ attempt: 1 }],
  })
  expect(jobDocument(done)).not.toContain('worker_id')
  expect(jobDocument(done)).not.toContain('null')
})

it('the job document escapes a worker id', () => {
  const active = row({ state: 'active', workerId: 'w"\n' })
  expect(JSON.parse(jobDocument(active))['worker_id']).toBe('w"\n')
})

it('the job document shows when a retry is due, and its delay', () => {
  const waiting = row({ state: 'retryable', attempt: 1, dueAt: NOW + 1_400, retryDelayMs: 1_400 })
  expect(JSON.parse(jobDocument(waiting))).toMatchObject({
    state: 'retryable',
    next_attempt_at: '2026-02-12T10:30:01.400Z',
    retry_delay_ms: 1_400,
  })
})

it('the job document shows the delay of the retry that is running, but not its past due time (S6)', () => {
  const active = row({ state: 'active', attempt: 2, retryDelayMs: 1_000 })
  expect(JSON.parse(jobDocument(active))).toMatchObject({ retry_delay_ms: 1_000 })
  expect(jobDocument(active)).not.toContain('next_attempt_at')
})

it.each(['scheduled', 'pending'] as const)(
  'the job document does not show the due time of a %s job as a retry time',
  (state) => {
    const text = jobDocument(row({ state, dueAt: NOW + 5_000 }))
    expect(text).not.toContain('next_attempt_at')
    expect(text).not.toContain('retry_delay_ms')
  },
)

it('the job document shows when a pending job was activated', () => {
  expect(JSON.parse(jobDocument(row({ activatedAt: NOW + 3 })))).toMatchObject({
    activated_at: '2026-02-12T10:30:00.003Z',
  })
})

it.each<[string, Partial<JobRow>, string[]]>([
  ['cancelled', { state: 'cancelled', cancelledAt: NOW }, ['cancelled_at']],
  ['expired', { state: 'discarded', discardedAt: NOW }, ['discarded_at']],
  [
    'failed for good',
    { state: 'discarded', discardedAt: NOW, completedAt: NOW },
    ['completed_at', 'discarded_at'],
  ],
  ['retryable', { state: 'retryable', dueAt: NOW }, []],
])(
  'the job document shows only the timestamps of its state for a job that is %s (S4, S7)',
  (_name, over, expected) => {
    const document = JSON.parse(jobDocument(row(over))) as Record<string, unknown>
    const ends = ['completed_at', 'cancelled_at', 'discarded_at']
    expect(ends.filter((name) => name in document)).toEqual(expected)
  },
)

it.each([
  ['few members', {}],
  [
    'a schedule',
    { options: { delay_until: '2099-01-01T00:00:00Z', expires_at: '2099-01-02T00:00:00Z' } },
  ],
  [
    'a retry policy',
    {
      options: {
        retry: { max_attempts: 5, non_retryable_errors: ['a.*'], backoff_strategy: 'linear' },
      },
    },
  ],
  [
    'every option',
    {
      queue: 'x',
      priority: 'HIGH',
      timeout: 5,
      visibility_timeout: 'PT1M',
      tags: ['a'],
      meta: { b: [1] },
      schema: 'urn:a',
    },
  ],
  ['unknown members', { vendor: { a: null }, options: { own: true }, state: 'active' }],
  ['a member __proto__', JSON.parse('{"__proto__":{"a":1},"b":2}')],
])('the document of a new job has the same text as its object form: %s', (_what, body) => {
  const request = parsePush({ type: 'a', args: [{ n: 1 }], ...body })
  const now = { newId: () => 'x', now: NOW, wall: NOW, timeoutMs: 30_000, prefix: '' }
  const { job, members } = describeJob(request, now)
  // 1: the id is that of a PUSH that was refused.
  for (const generation of [0, 1]) {
    const fresh = freshRow(job, { generation, outbox: null, enqueuedAt: NOW + 1 })
    const object = freshJobObject({ job: fresh, members })
    expect(object).toStrictEqual(JSON.parse(jobDocument(fresh)))
    expect(Object.keys(object)).toStrictEqual(Object.keys(JSON.parse(jobDocument(fresh))))
  }
})

describe('times in seconds', () => {
  const now = { newId: () => 'x', now: NOW, wall: NOW, timeoutMs: 30_000, prefix: '' }
  const described = (body: object, native?: object) =>
    describeJob(parsePush({ type: 'a', args: [], ...body }), { ...now, ...native })
  const shown = (body: object, native?: object) => {
    const { job } = described(body, native)
    return JSON.parse(jobDocument(freshRow(job, { generation: 0, outbox: null, enqueuedAt: NOW })))
  }
  const SECONDS = { timeout: 30, visibility_timeout: 1 }

  it.each([{}, { 7: 'an index, which JSON.stringify writes first' }])(
    'are in the AMQP body, and in an answer only if the request had them: %j',
    (others) => {
      const body = { visibility_timeout_ms: 900, ...others }
      expect(JSON.parse(described(body).job.envelope)).toMatchObject({ ...SECONDS, ...others })
      expect(shown(body)).not.toHaveProperty('timeout')
      expect(shown(body)).not.toHaveProperty('visibility_timeout')
      expect(shown(body)).toMatchObject({ ...body, timeout_ms: 30_000 })
      expect(shown({ timeout_ms: 30_000, ...SECONDS, ...others })).toMatchObject(SECONDS)
    },
  )

  it('stand behind the id: native workers know a body of a gateway by its beginning', () => {
    const { envelope } = described({}).job
    expect(envelope).toMatch(/^\{"specversion":"1.0","id":"x","timeout":30,"type":"a",/)
    // An old row, of which nobody knows whether the request had it.
    const old = envelope.replace('"timeout":30,', '').replace(/}$/, ',"timeout":30}')
    expect(JSON.parse(jobDocument(row({ envelope: old })))).toMatchObject({ timeout: 30 })
  })

  it('are not shown of the body of another gateway’s job message, which has both units', () => {
    const native = { native: { queue: 'default', createdAt: NOW, maxAttempts: null } }
    const { envelope } = described({ visibility_timeout_ms: 900 }).job
    const jobMessage = { ...JSON.parse(envelope), id: null }
    expect(shown(jobMessage, native)).toStrictEqual(shown({ visibility_timeout_ms: 900 }))
    expect(shown({ timeout: 5 }, native)).toMatchObject({ timeout: 5, timeout_ms: 5000 })
  })
})

it('an envelope as its producer wrote it has times in seconds only if these were written', () => {
  const own = (options: object) => {
    const context = { newId: () => row().id, now: NOW, wall: NOW, timeoutMs: 0, prefix: 'ojs' }
    const { job } = describeJob(parsePush({ type: 'a', args: [], options }), context)
    return JSON.parse(ownEnvelope(job.envelope))
  }
  const exact = own({ timeout_ms: 1_500, visibility_timeout_ms: 2_500 })
  expect(exact).toMatchObject({ timeout_ms: 1_500, visibility_timeout_ms: 2_500, args: [] })
  expect(exact).not.toHaveProperty('timeout')
  expect(exact).not.toHaveProperty('visibility_timeout')
  const whole = { timeout: 7, visibility_timeout: 40 }
  expect(own(whole)).toMatchObject({ ...whole, timeout_ms: 7_000, visibility_timeout_ms: 40_000 })
})
