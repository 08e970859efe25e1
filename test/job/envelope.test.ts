import { describe, expect, it } from 'vitest'
import { OjsError } from '../../src/errors.ts'
import { type EnvelopeContext, toNewJob } from '../../src/job/envelope.ts'
import { parseJobMessage, parsePush } from '../../src/schemas/requests/validator.ts'

const ID = '019539a4-b68c-7def-8000-1a2b3c4d5e6f'
const NOW = Date.parse('2026-02-12T10:30:00.000Z')
const FUTURE = '2026-02-12T10:30:05Z'
const FAR = '2099-01-01T00:00:00Z'

const context: EnvelopeContext = {
  newId: () => ID,
  now: NOW,
  wall: NOW,
  timeoutMs: 30_000,
  prefix: '',
}

function job(body: object, over: Partial<EnvelopeContext> = {}) {
  const made = toNewJob(parsePush(body), { ...context, ...over })
  return { ...made, document: JSON.parse(made.envelope) as Record<string, unknown> }
}

function refused(body: object, over: Partial<EnvelopeContext> = {}): OjsError {
  try {
    job(body, over)
  } catch (error) {
    if (error instanceof OjsError) return error
    throw error
  }
  throw new Error('was accepted')
}

describe('defaults of a PUSH', () => {
  it('are those of seed 001 §9.1', () => {
    const made = job({ type: 'email.send', args: [] })
    expect(made).toMatchObject({
      id: ID,
      queue: 'default',
      priority: 0,
      maxAttempts: 3,
      timeoutMs: 30_000,
      visibilityTimeoutMs: null,
      expiresAt: null,
      createdAt: NOW,
      carry: null,
    })
    expect(made.document).toEqual({
      specversion: '1.0',
      id: ID,
      type: 'email.send',
      queue: 'default',
      args: [],
      meta: {},
      priority: 0,
      timeout: 30,
      timeout_ms: 30_000,
      max_attempts: 3,
      tags: [],
      created_at: '2026-02-12T10:30:00.000Z',
    })
  })

  it('apply to a member that is null', () => {
    const body = {
      type: 'a',
      args: [],
      id: null,
      options: { queue: null, retry: null, tags: null },
    }
    expect(job(body).document).toMatchObject({ id: ID, queue: 'default', tags: [] })
  })
})

describe('the two dialects of a PUSH', () => {
  it('options override the top level, and milliseconds override seconds', () => {
    const made = job({
      type: 'a',
      args: [],
      queue: 'low',
      priority: 1,
      timeout: 5,
      options: { queue: 'high', timeout: 9, timeout_ms: 1500, visibility_timeout: 'PT1M30S' },
    })
    expect(made).toMatchObject({ queue: 'high', priority: 1, timeoutMs: 1500 })
    expect(made.visibilityTimeoutMs).toBe(90_000)
    expect(made.document).toMatchObject({
      timeout: 2,
      timeout_ms: 1500,
      visibility_timeout: 90,
      visibility_timeout_ms: 90_000,
    })
  })

  it('merge the members of meta from all four places', () => {
    const options = { meta: { a: 1, b: 1 }, metadata: { b: 2, c: 2 } }
    const { document } = job({
      ...{ type: 'a', args: [], options },
      ...{ meta: { c: 3, d: 3 }, metadata: { d: 4, e: 4 } },
    })
    expect(document['meta']).toEqual({ a: 1, b: 1, c: 2, d: 3, e: 4 })
  })

  it.each<[string, object, object]>([
    [
      'scheduled_at',
      { options: { scheduled_at: FUTURE }, delay_until: FAR },
      { scheduled_at: FUTURE },
    ],
    [
      'delay_until',
      { options: { delay_until: FUTURE }, scheduled_at: FAR },
      { scheduled_at: FUTURE },
    ],
    ['a timeout', { options: { timeout: 9 }, timeout_ms: 1 }, { timeout_ms: 9_000 }],
    ['a timeout of zero', { options: { timeout_ms: 0 }, timeout: 9 }, { timeout_ms: 0 }],
    [
      'a lease',
      { options: { visibility_timeout: 'PT9S' }, visibility_timeout_ms: 1 },
      { visibility_timeout_ms: 9_000 },
    ],
    [
      'a policy',
      { options: { retry_policy: { max_attempts: 9 } }, retry: { max_attempts: 1 } },
      { max_attempts: 9, retry: { max_attempts: 9 } },
    ],
    ['metadata', { options: { metadata: { a: 1 } }, meta: { a: 2 } }, { meta: { a: 1 } }],
    ['meta', { options: { meta: { a: 1 } }, metadata: { a: 2 } }, { meta: { a: 1 } }],
  ])('%s in options overrides the other spelling outside options', (_, more, expected) => {
    const { document } = job({ type: 'a', args: [], ...more })
    expect(document).toMatchObject(expected)
    // A null in options counts as absent, under every name.
    const nulls = { meta: null, retry: null, timeout_ms: null, scheduled_at: null, tags: [] }
    const outer = Object.fromEntries(Object.entries(more).filter(([name]) => name !== 'options'))
    const alone = job({ type: 'a', args: [], ...outer, options: { tags: [] } }).document
    expect(job({ type: 'a', args: [], ...outer, options: nulls }).document).toEqual(alone)
    expect(job({ type: 'a', args: [], ...outer }).document).toEqual(alone)
  })

  it('refuse a schema URI with a NUL, which the ledger would confuse with another one', () => {
    const answer = refused({ type: 'a', args: [], schema: 'urn:x\0y' })
    expect(answer).toMatchObject({ status: 400, details: { field: 'schema' } })
  })

  it('treat retry_policy like retry, in every place and with the same checks', () => {
    const policy = { max_attempts: 7, initial_interval_ms: 1500 }
    const plain = job({ type: 'a', args: [], retry: policy }).document
    expect(plain).toMatchObject({ max_attempts: 7 })
    expect(job({ type: 'a', args: [], retry_policy: policy }).document).toEqual(plain)
    expect(job({ type: 'a', args: [], retry_policy: policy, options: {} }).document).toEqual(plain)
    expect(job({ type: 'a', args: [], options: { retry_policy: policy } }).document).toEqual(plain)
    const both = { retry: policy, retry_policy: { ...policy } }
    expect(job({ type: 'a', args: [], ...both }).document).toEqual(plain)
    const contrary = { retry: policy, retry_policy: { max_attempts: 1 } }
    expect(refused({ type: 'a', args: [], ...contrary })).toMatchObject({
      ...{ status: 400, details: { field: 'retry_policy' } },
    })
    const field = 'retry_policy.max_attempts'
    const mistyped = refused({ type: 'a', args: [], retry_policy: { max_attempts: 'many' } })
    expect(mistyped).toMatchObject({ status: 400, details: { field } })
    const unknown = refused({ type: 'a', args: [], retry_policy: { attempts: 7 } })
    expect(unknown).toMatchObject({ status: 400, details: { field: 'retry_policy.attempts' } })
    expect(refused({ type: 'a', args: [], retry_policy: { max_attempts: -1 } }).status).toBe(422)
  })

  it.each([
    ['HIGH', 10],
    ['NORMAL', 0],
    ['LOW', -10],
    [-100, -100],
    [100, 100],
  ])('read priority %s as %i', (priority, expected) => {
    expect(job({ type: 'a', args: [], options: { priority } }).priority).toBe(expected)
  })

  it('write a retry policy in seed 003’s closed form, and what that lacks in retry_extra', () => {
    const retry = { max_attempts: 5, initial_interval_ms: 1500, max_interval: 'PT5M' }
    const { document } = job({
      type: 'a',
      args: [],
      options: { retry: { ...retry, backoff_strategy: 'linear' } },
    })
    expect(document['retry']).toEqual({
      max_attempts: 5,
      initial_interval: 'PT1.5S',
      max_interval: 'PT5M',
    })
    expect(document['retry_extra']).toEqual({ backoff_strategy: 'linear' })
    expect(document['max_attempts']).toBe(5)
  })

  it('split a unique policy in the same way', () => {
    const unique = { keys: ['type'], period: 'PT1H', on_conflict: 'ignore' }
    const { document } = job({ type: 'a', args: [], options: { unique } })
    expect(document['unique']).toEqual({ period: 'PT1H', on_conflict: 'ignore' })
    expect(document['unique_extra']).toEqual({ keys: ['type'] })
  })

  it('read a job’s own document as the same job', () => {
    const retry = { max_attempts: 5, backoff_strategy: 'none' }
    const unique = { keys: ['type', 'meta'], meta_keys: ['u'], on_conflict: 'ignore' }
    const made = job({ type: 'a', args: [], meta: { u: 1 }, options: { retry, unique } })
    const again = job(made.document)
    expect(again.document).toEqual(made.document)
    expect(again.unique).toEqual(made.unique)
    expect(made.unique?.key).not.toBe(job({ type: 'a', args: [], unique: {} }).unique?.key)
  })

  it.each([
    { retry: {}, retry_extra: 7 },
    { retry_extra: { backoff_strategy: 'none' } },
    { retry: { backoff_strategy: 'none' }, retry_extra: { other: 1, backoff_strategy: 'linear' } },
  ])('use only the known members of retry_extra, and only beside a policy: %j', (given) => {
    const { document } = job({ type: 'a', args: [], ...given })
    const own = 'retry' in given && 'backoff_strategy' in given.retry
    expect(document['retry_extra']).toEqual(own ? { backoff_strategy: 'none' } : undefined)
  })

  it('prefer the policy’s own member, also under its other name, to retry_extra', () => {
    const retry = { backoff_type: 'linear' }
    const given = { type: 'a', args: [], retry, retry_extra: { backoff_strategy: 'none' } }
    expect(job(given).document['retry_extra']).toEqual({ backoff_strategy: 'linear' })
  })

  it('ignore a null in the policy, which programs write that copy a job’s document', () => {
    const retry = { max_attempts: 5, backoff_strategy: 'none' }
    const unique = { keys: ['type'], on_conflict: 'drop' }
    const made = job({ type: 'a', args: [], retry, unique })
    const again = job({
      ...made.document,
      retry: { max_attempts: 5, backoff_strategy: null, strategy: null },
      unique: { key: null, keys: null, on_conflict: null },
    })
    expect(again.document).toEqual(made.document)
    expect(again.unique).toEqual(made.unique)
  })

  it('name the member of the policy in an error about retry_extra', () => {
    const wild = { type: 'a', args: [], retry: {}, retry_extra: { backoff_strategy: 'wild' } }
    expect(refused(wild).details).toMatchObject({ field: 'retry.backoff_strategy' })
  })
})

describe('the document of a pushed job', () => {
  it('keeps unknown members, at the top and inside options', () => {
    const { document } = job({
      type: 'a',
      args: [],
      vendor: { deep: [1] },
      options: { queue: 'q', own: true },
    })
    expect(document).toMatchObject({ vendor: { deep: [1] }, options: { own: true }, queue: 'q' })
  })

  it('ignores members that only the server writes', () => {
    const body = { type: 'a', args: [], state: 'completed', attempt: 9, next_attempt_at: 'x' }
    const times = { activated_at: 'y', re_enqueued_at: 'z' }
    const ofWorkflow = { workflow_id: 'w', workflow_step: 's', parent_results: [1] }
    const more = { x_ojs_generation: 7, generation: 7, retry_delay_ms: 5, ...times, ...ofWorkflow }
    const { document } = job({ ...body, ...more, created_at: '1999-01-01T00:00:00Z', result: 1 })
    expect(Object.keys(document)).not.toContain('state')
    expect(document).not.toHaveProperty('attempt')
    expect(document).not.toHaveProperty('result')
    for (const name of [...Object.keys(more), 'next_attempt_at']) {
      expect(document).not.toHaveProperty(name)
    }
    expect(document['created_at']).toBe('2026-02-12T10:30:00.000Z')
  })

  it('keeps a member named __proto__ as data', () => {
    const body = JSON.parse('{"type":"a","args":[],"__proto__":{"polluted":true}}') as object
    const made = job(body)
    expect(made.envelope).toContain('"__proto__":{"polluted":true}')
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })

  it('echoes a UTC timestamp verbatim, and converts another offset to UTC', () => {
    const verbatim = job({ type: 'a', args: [], options: { expires_at: '2099-12-31T23:59:59Z' } })
    expect(verbatim.document['expires_at']).toBe('2099-12-31T23:59:59Z')
    const spaced = job({ type: 'a', args: [], expires_at: '2099-01-01 00:00:00Z' })
    expect(spaced.document['expires_at']).toBe('2099-01-01T00:00:00.000Z')
    const body = { type: 'a', args: [], options: { expires_at: '2099-01-01T02:00:00+02:00' } }
    expect(job(body).document['expires_at']).toBe('2099-01-01T00:00:00.000Z')
    expect(job(body).expiresAt).toBe(Date.parse('2099-01-01T00:00:00Z'))
  })

  it('counts a relative expiry from the wall clock', () => {
    const made = job({ type: 'a', args: [], options: { expires_at: '+PT5S' } }, { wall: 1_000 })
    expect(made.expiresAt).toBe(6_000)
  })

  it('has its tags and its past schedule in the message headers as well', () => {
    const options = { tags: ['a', 'b'], scheduled_at: '2020-01-01T00:00:00Z' }
    expect(job({ type: 'a', args: [], options }).carry).toEqual({
      tags: ['a', 'b'],
      scheduledAt: '2020-01-01T00:00:00Z',
    })
  })
})

describe('trace context', () => {
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const carry = { traceparent, tracestate: 'vendor=1' }

  it('is copied to meta, for workers that see no message headers', () => {
    const meta = { tenant: 'a' }
    const made = job({ type: 'a', args: [], options: { meta } }, { carry })
    expect(made.document['meta']).toEqual({ tenant: 'a', ...carry })
    expect(made.carry).toEqual(carry)
    expect(meta).toEqual({ tenant: 'a' })
  })

  it.each<[string, object, object]>([
    ['a traceparent', { traceparent: 'mine' }, { traceparent: 'mine' }],
    ['an empty traceparent', { traceparent: null }, { traceparent: null }],
    ['a tracestate', { tracestate: 'mine' }, { traceparent, tracestate: 'mine' }],
  ])('never replaces %s of the producer', (_name, meta, kept) => {
    expect(job({ type: 'a', args: [], meta }, { carry }).document['meta']).toEqual(kept)
  })

  it('is left out when it is invalid, e.g. a bare trace id of a native program', () => {
    const foreign = { traceparent: '0af7651916cd43dd8448eb211c80319c' }
    expect(job({ type: 'a', args: [] }, { carry: foreign }).document['meta']).toEqual({})
  })

  it('does not count against the size of meta', () => {
    const meta = { a: 'x'.repeat(65_528) }
    expect(job({ type: 'a', args: [], meta }, { carry }).document['meta']).toHaveProperty('a')
    expect(refused({ type: 'a', args: [], meta: { a: 'x'.repeat(65_529) } }).status).toBe(413)
  })
})

describe('the first state of a job', () => {
  const PAST = '2026-02-12T10:29:59Z'
  const later = { state: 'scheduled', dueAt: NOW + 5_000 }

  it.each<[string, object, object]>([
    ['available without a time', {}, { state: 'available' }],
    ['scheduled with delay_until in the future', { options: { delay_until: FUTURE } }, later],
    ['scheduled with scheduled_at in the future', { options: { scheduled_at: FUTURE } }, later],
    ['scheduled with a time at the top level', { scheduled_at: FUTURE }, later],
    ['scheduled with a relative time', { options: { scheduled_at: '+PT5S' } }, later],
    [
      'available with a time in the past',
      { options: { delay_until: PAST } },
      { state: 'available' },
    ],
    [
      'available with the present time',
      { options: { delay_until: '2026-02-12T10:30:00Z' } },
      { state: 'available' },
    ],
    ['pending', { options: { pending: true } }, { state: 'pending', dueAt: null }],
    ['available with pending: false', { options: { pending: false } }, { state: 'available' }],
    [
      'pending with a future time',
      { pending: true, options: { delay_until: FUTURE } },
      { state: 'pending', dueAt: NOW + 5_000 },
    ],
    [
      'pending without a past time',
      { pending: true, options: { delay_until: PAST } },
      { state: 'pending', dueAt: null },
    ],
  ])('is %s', (_name, more, start) => {
    expect(job({ type: 'a', args: [], ...more }).start).toEqual(start)
  })

  it('is that of delay_until in a message with two times, which is not refused', () => {
    const options = { delay_until: FUTURE, scheduled_at: PAST }
    const request = parseJobMessage({ type: 'a', args: [], options })
    expect(toNewJob(request, context).start).toEqual(later)
  })

  it('depends on the wall clock', () => {
    const body = { type: 'a', args: [], options: { delay_until: FUTURE } }
    expect(job(body, { wall: NOW + 5_000 }).start).toEqual({ state: 'available' })
    expect(job(body, { now: NOW + 5_000 }).start).toEqual(later)
  })

  it('keeps the time of a schedule in the document and in the headers', () => {
    const made = job({ type: 'a', args: [], options: { delay_until: FUTURE } })
    expect(made.document['scheduled_at']).toBe(FUTURE)
    expect(made.document).not.toHaveProperty('pending')
    expect(made.carry).toEqual({ scheduledAt: FUTURE })
  })

  it('has a safe integer as its due time even for the latest instant', () => {
    const far = { scheduled_at: '9999-12-31T23:59:59.999999999Z' }
    const { start } = job({ type: 'a', args: [], ...far })
    expect('dueAt' in start && Number.isSafeInteger(start.dueAt)).toBe(true)
  })

  it('may have an expiry before its due time if it is in RabbitMQ or registered already', () => {
    const made = job({ type: 'a', args: [], scheduled_at: FUTURE, expires_at: '+PT1S' })
    expect(made).toMatchObject({ start: later, expiresAt: NOW + 1_000 })
  })
})

describe('a PUSH that is refused', () => {
  it.each<[string, object, number, string]>([
    ['no type', { args: [] }, 400, 'type'],
    ['no args', { type: 'a' }, 400, 'args'],
    ['args object', { type: 'a', args: {} }, 400, 'args'],
    ['args null', { type: 'a', args: null }, 400, 'args'],
    ['type with a space', { type: 'a b', args: [] }, 400, 'type'],
    ['type ending in a dot', { type: 'a.', args: [] }, 400, 'type'],
    ['upper-case id', { type: 'a', args: [], id: ID.toUpperCase() }, 400, 'id'],
    ['UUIDv4 id', { type: 'a', args: [], id: ID.replace('-7', '-4') }, 400, 'id'],
    ['queue with upper case', { type: 'a', args: [], queue: 'Q' }, 400, 'queue'],
    ['queue too long', { type: 'a', args: [], queue: 'q'.repeat(129) }, 400, 'queue'],
    ['reserved queue', { type: 'a', args: [], options: { queue: 'dlx.a' } }, 400, 'options.queue'],
    ['priority 101', { type: 'a', args: [], options: { priority: 101 } }, 400, 'options.priority'],
    ['priority -101', { type: 'a', args: [], priority: -101 }, 400, 'priority'],
    ['priority text', { type: 'a', args: [], options: { priority: 'x' } }, 400, 'options.priority'],
    [
      'negative timeout',
      { type: 'a', args: [], options: { timeout_ms: -1 } },
      400,
      'options.timeout_ms',
    ],
    ['meta array', { type: 'a', args: [], meta: [] }, 400, 'meta'],
    ['meta too large', { type: 'a', args: [], meta: { a: 'x'.repeat(70_000) } }, 413, 'meta'],
    [
      'meta too large in bytes',
      { type: 'a', args: [], meta: { a: '€'.repeat(22_000) } },
      413,
      'meta',
    ],
    [
      'lease of no time',
      { type: 'a', args: [], options: { visibility_timeout: 'PT0S' } },
      400,
      'options.visibility_timeout',
    ],
    [
      'too many tags',
      { type: 'a', args: [], options: { tags: Array(1_001).fill('t') } },
      400,
      'options.tags',
    ],
    [
      'name of a schema too long',
      { type: 'a', args: [], schema: 's'.repeat(2_049) },
      400,
      'schema',
    ],
    [
      'timeout of eleven years',
      { type: 'a', args: [], timeout_ms: 11 * 31_536_000_000 },
      400,
      'timeout_ms',
    ],
    [
      'lease of eleven years',
      { type: 'a', args: [], visibility_timeout: 11 * 31_536_000 },
      400,
      'visibility_timeout',
    ],
    [
      'timeout of eleven years, in seconds',
      { type: 'a', args: [], timeout: 11 * 31_536_000 },
      400,
      'timeout',
    ],
    ['empty tag', { type: 'a', args: [], options: { tags: [''] } }, 400, 'options.tags[0]'],
    ['no offset', { type: 'a', args: [], expires_at: '2099-01-01T00:00:00' }, 400, 'expires_at'],
    ['30 February', { type: 'a', args: [], expires_at: '2099-02-30T00:00:00Z' }, 400, 'expires_at'],
    ['specversion 2', { type: 'a', args: [], specversion: '2.0' }, 400, 'specversion'],
    ['unknown in unique', { type: 'a', args: [], unique: { by: 1 } }, 400, 'unique.by'],
    ['unknown in retry', { type: 'a', args: [], retry: { tries: 1 } }, 400, 'retry.tries'],
    [
      'max_attempts text',
      { type: 'a', args: [], retry: { max_attempts: 'x' } },
      400,
      'retry.max_attempts',
    ],
    [
      'max_attempts −1',
      { type: 'a', args: [], retry: { max_attempts: -1 } },
      422,
      'retry.max_attempts',
    ],
    [
      'coefficient 0.5',
      { type: 'a', args: [], retry: { backoff_coefficient: 0.5 } },
      422,
      'retry.backoff_coefficient',
    ],
    [
      'interval 0',
      { type: 'a', args: [], retry: { initial_interval: 'PT0S' } },
      422,
      'retry.initial_interval',
    ],
    [
      'bad duration',
      { type: 'a', args: [], retry: { initial_interval: 'soon' } },
      400,
      'retry.initial_interval',
    ],
    [
      'initial interval of 11 years',
      { type: 'a', args: [], retry: { initial_interval_ms: 346_896_000_000 } },
      422,
      'retry.initial_interval_ms',
    ],
    [
      'max interval in 10^15 seconds',
      { type: 'a', args: [], retry: { max_interval: 1e15 } },
      422,
      'retry.max_interval',
    ],
    [
      'max_attempts −1 in options',
      { type: 'a', args: [], options: { retry: { max_attempts: -1 } } },
      422,
      'options.retry.max_attempts',
    ],
    [
      'bad duration in options.retry_policy',
      { type: 'a', args: [], options: { retry_policy: { max_interval: 'soon' } } },
      400,
      'options.retry_policy.max_interval',
    ],
    [
      'interval 0 in retry_policy',
      { type: 'a', args: [], retry_policy: { initial_interval_ms: 0 } },
      422,
      'retry_policy.initial_interval_ms',
    ],
    [
      'max interval below 0 by its other name',
      { type: 'a', args: [], options: { retry: { max_delay_ms: -1 } } },
      422,
      'options.retry.max_delay_ms',
    ],
    [
      'bad lease in options',
      { type: 'a', args: [], options: { visibility_timeout: 'soon' } },
      400,
      'options.visibility_timeout',
    ],
    ['pending text', { type: 'a', args: [], options: { pending: 'x' } }, 400, 'options.pending'],
    [
      'a schedule that is no time',
      { type: 'a', args: [], options: { delay_until: 'tomorrow' } },
      400,
      'options.delay_until',
    ],
    ['a schedule, top level', { type: 'a', args: [], scheduled_at: '1' }, 400, 'scheduled_at'],
  ])('%s', (_name, body, status, field) => {
    const error = refused(body)
    expect(error.status).toBe(status)
    expect(error.details?.['field']).toBe(field)
    expect(error.message).toContain(field.split('.').at(-1)?.replace(/\[.*/, '') ?? '')
  })

  it('says what was expected and what was received (seed 001 §9.1)', () => {
    expect(refused({ type: 'a', args: {} }).details).toEqual({
      field: 'args',
      expected: 'array',
      received: 'object',
    })
  })

  it('has the type validation_error for a retry number out of range, as the public suite expects', () => {
    expect(refused({ type: 'a', args: [], retry: { max_attempts: -1 } }).type).toBe(
      'validation_error',
    )
  })

  it("has a queue name that is reserved under the gateway's prefix", () => {
    const body = { type: 'a', args: [], options: { queue: 't1.ojs.x' } }
    expect(job(body).queue).toBe('t1.ojs.x')
    expect(refused(body, { prefix: 't1' }).details?.['validation']).toBe('reserved')
  })
})

describe('a native message', () => {
  const native = { queue: 'email', createdAt: 5_000, maxAttempts: 7 }

  it('supplies the queue, the creation time and the attempts that the body lacks', () => {
    const made = job({ type: 'a', args: [], id: ID }, { native })
    expect(made).toMatchObject({ queue: 'email', createdAt: 5_000, maxAttempts: 7 })
  })

  it('is available at once, whatever the body says about its time', () => {
    const body = { type: 'a', args: [], id: ID, pending: true, scheduled_at: '+PT1H' }
    expect(job(body, { native }).start).toEqual({ state: 'available' })
  })

  it('yields to a retry policy in the body', () => {
    expect(job({ type: 'a', args: [], retry: { max_attempts: 2 } }, { native }).maxAttempts).toBe(2)
  })
})
