import { describe, expect, it } from 'vitest'
import { OjsError } from '../../../src/errors.ts'
import { parseJsonList } from '../../../src/schemas/json/json-list.ts'
import {
  parseClaim,
  parseJobId,
  parseNativeHeartbeat,
  parseReport,
  parseSync,
  REPORT_EVENTS,
} from '../../../src/schemas/requests/control.ts'

const error = { code: 'handler_error', message: 'no route' }
const YEAR_MS = 365 * 86_400_000
const failed = { job_id: 'j', attempt: 1, event: 'failed', error }

function fieldRefused(parse: (body: unknown) => unknown, body: unknown): unknown {
  try {
    parse(body)
  } catch (thrown) {
    if (thrown instanceof OjsError && thrown.status === 400) return thrown.details?.['field']
    throw thrown
  }
  return 'accepted'
}

describe('ojs.control.cancel and ojs.control.info', () => {
  it('name a job', () => {
    expect(parseJobId({ job_id: 'j', vendor: 1 })).toMatchObject({ job_id: 'j' })
  })

  it.each([[{}], [{ job_id: '' }], [{ job_id: 7 }], [{ job_id: 'x'.repeat(256) }]])(
    'refuses %j',
    (body) => expect(fieldRefused(parseJobId, body)).toBe('job_id'),
  )
})

describe('ojs.control.claim', () => {
  const claim = { job_id: 'j', generation: 0, attempt: 1, worker_id: 'w' }

  it.each([claim, { ...claim, generation: null }, { job_id: 'j', attempt: 9, worker_id: 'w' }])(
    'accepts %j',
    (body) => expect(parseClaim(body)).toBe(body),
  )

  it.each<[object, string]>([
    [{ ...claim, job_id: undefined }, 'job_id'],
    [{ ...claim, worker_id: undefined }, 'worker_id'],
    [{ ...claim, attempt: undefined }, 'attempt'],
    [{ ...claim, attempt: 0 }, 'attempt'],
    [{ ...claim, attempt: 2 ** 31 }, 'attempt'],
    [{ ...claim, attempt: '1' }, 'attempt'],
    [{ ...claim, attempt: 1.5 }, 'attempt'],
    [{ ...claim, generation: -1 }, 'generation'],
    [{ ...claim, generation: 2 ** 31 }, 'generation'],
  ])('refuses %j', (body, field) => {
    const sent: unknown = JSON.parse(JSON.stringify(body))
    expect(fieldRefused(parseClaim, sent)).toBe(field)
  })
})

describe('ojs.control.sync', () => {
  it('names a worker and its queues', () => {
    const body = { worker_id: 'w', queues: ['a', 'b'] }
    expect(parseSync(body)).toBe(body)
  })

  it('needs no worker, because a producer asks for its queues as well', () => {
    expect(parseSync({ queues: ['a'] })).toEqual({ queues: ['a'] })
    expect(parseSync({ worker_id: null, queues: ['a'] })).toMatchObject({ queues: ['a'] })
  })

  it('may name a missing retry queue', () => {
    for (const delay of [500, null]) {
      const body = { queues: ['a'], rung_ms: delay }
      expect(parseSync(body)).toBe(body)
    }
  })

  it('may name at most a hundred queues', () => {
    const body = { queues: Array(100).fill('q') }
    expect(parseSync(body)).toBe(body)
  })

  it.each<[object, string]>([
    [{ worker_id: 7, queues: ['a'] }, 'worker_id'],
    [{ worker_id: '', queues: ['a'] }, 'worker_id'],
    [{ worker_id: 'w' }, 'queues'],
    [{ worker_id: 'w', queues: [] }, 'queues'],
    [{ worker_id: 'w', queues: 'a' }, 'queues'],
    [{ worker_id: 'w', queues: [7] }, 'queues[0]'],
    [{ worker_id: 'w', queues: ['q'.repeat(129)] }, 'queues[0]'],
    [{ worker_id: 'w', queues: Array(101).fill('q') }, 'queues'],
    [{ queues: ['a'], rung_ms: 0 }, 'rung_ms'],
    [{ queues: ['a'], rung_ms: 2 ** 31 }, 'rung_ms'],
  ])('refuses %j', (body, field) => expect(fieldRefused(parseSync, body)).toBe(field))
})

describe('ojs.control.heartbeat', () => {
  it("accepts the seed's form and the form for many jobs together", () => {
    expect(parseNativeHeartbeat({ job_id: 'j', worker_id: 'w' })).toEqual({
      request: { worker_id: 'w', job_ids: ['j'], state: null },
      skipped: 0,
    })
    const many = { worker_id: 'w', job_ids: ['b', 'a', 'b'], state: 'quiet', queues: ['q'], pid: 7 }
    expect(parseNativeHeartbeat({ ...many, job_id: 'c' })).toEqual({
      request: { ...many, job_ids: ['b', 'a', 'c'] },
      skipped: 0,
    })
  })

  it('reads the generations of jobs, and leaves out what is none', () => {
    const generations = { a: 1, b: '2', c: -1, d: 1.5, e: null, f: 2 ** 31, __proto__: null }
    const { request } = parseNativeHeartbeat({ worker_id: 'w', job_ids: ['a'], generations })
    expect(request.generations).toEqual(new Map([['a', 1]]))
  })

  it.each([{}, { job_id: null, job_ids: null, queues: null, generations: null }])(
    'may name no job, and then skips none: %j',
    (said) => {
      const { request, skipped } = parseNativeHeartbeat({ worker_id: 'w', ...said })
      expect([request.job_ids, skipped]).toEqual([[], 0])
    },
  )

  it.each(['running', 'quiet', 'terminate'])('accepts the state %s', (state) => {
    expect(parseNativeHeartbeat({ worker_id: 'w', state }).request.state).toBe(state)
  })

  it('skips ids that are not strings, and ignores an unknown state', () => {
    const body = {
      worker_id: 'w',
      job_ids: ['a', 7, null, '', {}, 'b'],
      job_id: [],
      state: 'tired',
    }
    expect(parseNativeHeartbeat(body)).toEqual({
      request: { worker_id: 'w', job_ids: ['a', 'b'], state: null },
      skipped: 5,
    })
  })

  it.each<[object, string]>([
    [{ job_id: 'j' }, 'worker_id'],
    [{ worker_id: '' }, 'worker_id'],
    [{ worker_id: 'w', job_ids: 'j' }, 'job_ids'],
    [{ worker_id: 'w', job_ids: Array(1001).fill('j') }, 'job_ids'],
    [{ worker_id: 'w', generations: [1] }, 'generations'],
    [{ worker_id: 'w', state: 7 }, 'state'],
    [{ worker_id: 'w', queues: [''] }, 'queues[0]'],
    [{ worker_id: 'w', queues: Array(101).fill('q') }, 'queues'],
    [{ worker_id: 'w', pid: -1 }, 'pid'],
    [{ worker_id: 'w', concurrency: -1 }, 'concurrency'],
    [{ worker_id: 'w', version: 7 }, 'version'],
    [{ worker_id: 'w', hostname: 'h'.repeat(256) }, 'hostname'],
    [{ worker_id: 'w', visibility_timeout_ms: 0 }, 'visibility_timeout_ms'],
    [{ worker_id: 'w', visibility_timeout_ms: 1e300 }, 'visibility_timeout_ms'],
  ])('refuses %j', (body, field) => expect(fieldRefused(parseNativeHeartbeat, body)).toBe(field))
})

describe('ojs.control.report', () => {
  const parsed = (event: unknown) => parseReport({ worker_id: 'w', events: [event] })

  it.each<object>([
    { job_id: 'j', attempt: 1, event: 'started', at: '2026-01-01T00:00:00Z' },
    { job_id: 'j', attempt: 1, event: 'started', generation: 3, at: null, vendor: {} },
    { job_id: 'j', attempt: 1, event: 'completed' },
    { job_id: 'j', attempt: 1, event: 'completed', result: [null] },
    { job_id: 'j', attempt: 1, event: 'dropped' },
    { job_id: 'j', attempt: 1, event: 'expired' },
    { job_id: 'j', attempt: 1, event: 'started', at: '0'.repeat(64), max_attempts: 0 },
    { ...failed, job: { id: 'j' }, max_attempts: 2 ** 31 - 1, headers: {}, properties: {} },
    { ...failed, job: null, max_attempts: null, headers: null, properties: null },
    failed,
    { job_id: 'j', attempt: 2, event: 'released', token_attempt: 1 },
    { ...failed, outcome: null },
    { ...failed, outcome: { decision: 'discard' } },
    { ...failed, outcome: { decision: 'retry', delay_ms: 1000, rung_ms: 1000 } },
    { ...failed, outcome: { decision: 'retry', delay_ms: 1000, rung_ms: null } },
    { ...failed, outcome: { decision: 'retry', delay_ms: 1000 } },
    { ...failed, outcome: { decision: 'retry', delay_ms: 9 * YEAR_MS, rung_ms: null } },
    { ...failed, error: { ...error, message: 'm'.repeat(100_000), details: { a: 1 } } },
    { ...failed, error: { ...error, message: '' } },
  ])('accepts the event %j', (event) => {
    const request = { worker_id: 'w', events: [event] }
    expect(parsed(event)).toEqual({ request, skipped: 0, leftOut: [] })
  })

  it.each<unknown>([
    null,
    'started',
    [],
    {},
    { attempt: 1, event: 'started' },
    { job_id: 'j', event: 'started' },
    { job_id: 'j', attempt: 1 },
    { job_id: 'j', attempt: 0, event: 'started' },
    { job_id: 'j', attempt: 2 ** 31, event: 'started' },
    { job_id: 'j', attempt: 1, event: 'paused' },
    { job_id: 'j', attempt: 1, event: 'started', generation: 'x' },
    { job_id: 'j', attempt: 1, event: 'started', at: 5 },
    { job_id: 'j', attempt: 1, event: 'started', at: '0'.repeat(65) },
    { ...failed, job: [] },
    { ...failed, max_attempts: -1 },
    { ...failed, max_attempts: 2 ** 31 },
    { ...failed, headers: 'x' },
    { ...failed, properties: [] },
    { job_id: 'j', attempt: 1, event: 'failed' },
    { job_id: 'j', attempt: 1, event: 'released' },
    { job_id: 'j', attempt: 1, event: 'released', token_attempt: null },
    { job_id: 'j', attempt: 1, event: 'released', token_attempt: 0 },
    { ...failed, error: null },
    { ...failed, error: { code: 'c' } },
    { ...failed, outcome: 'retry' },
    { ...failed, outcome: {} },
    { ...failed, outcome: { decision: 'run' } },
    { ...failed, outcome: { decision: 'retry' } },
    { ...failed, outcome: { decision: 'retry', delay_ms: 0 } },
    { ...failed, outcome: { decision: 'retry', delay_ms: 11 * YEAR_MS } },
    { ...failed, outcome: { decision: 'retry', delay_ms: 2 ** 32, rung_ms: 2 ** 32 } },
    { ...failed, outcome: { decision: 'retry', delay_ms: 5, rung_ms: '5' } },
    { ...failed, outcome: { decision: 'retry', delay_ms: 5, rung_ms: 0 } },
  ])('skips the event %j', (event) => {
    const complaint = expect.objectContaining({ problem: expect.stringMatching(/^events\[0\]: ./) })
    const request = { worker_id: 'w', events: [] }
    expect(parsed(event)).toMatchObject({ request, skipped: 1, complaint })
  })

  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
  const standIn = (event: unknown) => parsed(event).leftOut.map((left) => left.standIn)

  const ERROR = { code: 'invalid_report', message: expect.any(String) }

  it.each<[string, object, object]>([
    [
      'an invalid completed event by a failure with its result',
      { event: 'completed', at: 7, headers: 7, result: { n: 1 } },
      { event: 'completed', result: { n: 1 } },
    ],
    [
      'an invalid completed event without a result by a failure without one',
      { event: 'completed', at: 7 },
      { event: 'completed' },
    ],
    [
      'an invalid failed event by a failure with its error',
      { event: 'failed', at: 7, error: { message: 'm', code: 'c', retryable: false } },
      { error: { message: 'm', code: 'c', retryable: false } },
    ],
    [
      'an invalid failed event with an invalid error by an error that keeps retryable: false',
      { event: 'failed', error: { message: 'm', retryable: false } },
      { error: { ...ERROR, retryable: false } },
    ],
    [
      'an invalid failed event with an invalid error by another error with its outcome',
      { event: 'failed', error: {}, outcome: { decision: 'discard' } },
      { error: ERROR, outcome: { decision: 'discard' } },
    ],
    ...[0, 0.5, '5'].map((delay): [string, object, object] => [
      `a failure after which the gateway shall wait for ${JSON.stringify(delay)}: it decides`,
      { event: 'failed', error: {}, outcome: { decision: 'retry', delay_ms: delay } },
      { error: ERROR, outcome: null },
    ]),
  ])('replaces %s', (_name, said, more) => {
    const about = { job_id: 'j', attempt: 2, generation: 1 }
    expect(standIn({ ...about, ...said })).toEqual([{ ...about, event: 'failed', ...more }])
  })

  it.each<[string, object]>([
    [
      '"event":"completed","result":NaN',
      { event: 'failed', error: { ...ERROR, retryable: false } },
    ],
    ['"event":"completed","result":[9007199254740993]', { event: 'failed', error: ERROR }],
    ['"event":"completed","result":{"n":1},"headers":{"x":NaN}', { result: { n: 1 } }],
    ['"event":"completed","headers":{"x":NaN}', { event: 'completed' }],
    [
      `"event":"completed","result":${nested(32)},"headers":{"x":NaN}`,
      { event: 'completed', result: JSON.parse(nested(32)) },
    ],
    [`"event":"completed","result":${nested(33)}`, { event: 'failed', error: ERROR }],
    [
      '"event":"failed","error":{"message":"m","code":"c"},"headers":{"x":NaN}',
      { event: 'failed', error: { message: 'm', code: 'c' } },
    ],
    ['"event":"failed","error":{"message":"m","code":NaN}', { event: 'failed', error: ERROR }],
    [
      '"event":"failed","error":{"code":"c","retryable":false,"details":{"x":NaN}}',
      { error: { ...ERROR, retryable: false } },
    ],
    [
      '"event":"failed","error":{"message":"m","code":"c"},"outcome":{"decision":"retry","delay_ms":NaN}',
      { event: 'failed', error: ERROR, outcome: null },
    ],
    [
      '"event":"failed","error":{"code":"c"},"outcome":{"decision":"discard","delay_ms":NaN}',
      { error: ERROR, outcome: { decision: 'discard' } },
    ],
  ])(
    'replaces an event that is not valid JSON by a stand-in with the members that can be read: %s',
    (members, said) => {
      const text = `{"job_id":"j","attempt":2,${members}}`
      const report = Buffer.from(`{"worker_id":"w","events":[${text}]}`)
      const standIn = { job_id: 'j', attempt: 2, generation: null, ...said }
      expect(parseReport(parseJsonList(report, REPORT_EVENTS)).leftOut).toMatchObject([
        { id: 'j', standIn, content: null },
      ])
    },
  )

  it.each([
    '"event":"completed","generation":NaN',
    '"event":"completed","attempt":NaN',
    '"event":"started","at":NaN',
    '"event":"released","token_attempt":1,"at":NaN',
    '"event":"dropped","at":NaN',
    '"event":"expired","at":NaN',
    '"event":"failed","error":{"message":"m","code":"c"},"outcome":NaN',
    '"event":"failed","error":{"code":NaN},"outcome":false',
    '"event":"failed","error":{"code":"c"},"outcome":{"decision":NaN,"delay_ms":5}',
    '"event":"failed","error":{"code":"c"},"outcome":{"decision":"retry","delay_ms":5,"rung_ms":NaN}',
  ])(
    'replaces no event that is not valid JSON when the stand-in would have to guess: %s',
    (members) => {
      const text = `{"job_id":"j","attempt":2,${members}}`
      const report = Buffer.from(`{"worker_id":"w","events":[${text}]}`)
      expect(parseReport(parseJsonList(report, REPORT_EVENTS)).leftOut).toMatchObject([
        { id: 'j', standIn: null },
      ])
    },
  )

  const inRetryQueue = { decision: 'retry', delay_ms: 5, rung_ms: 5 }

  it.each<[object, boolean]>([
    [{ event: 'failed' }, true],
    [{ event: 'failed', outcome: { ...inRetryQueue, rung_ms: null } }, true],
    [{ event: 'failed', outcome: 'retry' }, true],
    [{ event: 'failed', outcome: inRetryQueue }, false],
    [{ event: 'failed', outcome: { decision: 'discard' } }, false],
    [{ event: 'completed', at: 7 }, false],
  ])(
    'keeps the job of a skipped event only when no other copy of the job exists: %j, %s',
    (said, isKept) => {
      const job = { id: 'j', args: [1] }
      const [left] = parsed({ job_id: 'j', attempt: 1, error: {}, job, ...said }).leftOut
      expect(left?.content?.toString()).toBe(isKept ? JSON.stringify(job) : undefined)
    },
  )

  it.each<[object]>([
    [{ job_id: 'j', event: 'completed' }],
    [{ job_id: 'j', attempt: 1, event: 'started', at: 5 }],
    [{ ...failed, outcome: 'retry' }],
    [{ ...failed, outcome: { ...inRetryQueue, rung_ms: 0.5 } }],
  ])('replaces no event when the stand-in would have to guess: %j', (event) => {
    expect(standIn(event)).toEqual([null])
  })

  it.each([null, 'started', {}, { attempt: 1, event: 'completed' }])(
    'names no skipped job when the event names none: %j',
    (event) => {
      expect(parsed(event).leftOut).toEqual([])
    },
  )

  it.each<[unknown, object]>([
    [
      { ...failed, error: { message: 'm', code: 7 } },
      { jobId: 'j', problem: "events[1]: The 'error.code' field must be a string." },
    ],
    [
      { ...failed, error: 'boom' },
      { jobId: 'j', problem: "events[1]: The 'error' field must be a JSON object." },
    ],
    [
      { job_id: 7, attempt: 1, event: 'started' },
      { problem: "events[1]: The 'job_id' field must be a string." },
    ],
    [
      { job_id: 'j', attempt: 1 },
      { jobId: 'j', problem: "events[1]: The 'event' field is required." },
    ],
    [
      { ...failed, outcome: 'retry' },
      { jobId: 'j', problem: "events[1]: The 'outcome' field must be a JSON object." },
    ],
    [
      { ...failed, outcome: { decision: 'retry' } },
      { jobId: 'j', problem: "events[1]: The 'outcome.delay_ms' field is required." },
    ],
    [
      { ...failed, outcome: { decision: 'retry', delay_ms: 0 } },
      { jobId: 'j', problem: "events[1]: The 'outcome.delay_ms' field must be >= 1." },
    ],
  ])('says what is wrong with the first event that is skipped: %j', (event, complaint) => {
    const good = { job_id: 'j', attempt: 1, event: 'started' }
    const body = { worker_id: 'w', events: [good, event, null, good] }
    expect(parseReport(body)).toMatchObject({ skipped: 2, complaint })
  })

  it.each([
    ['{"job_id":"j","attempt":1,"result":[9007199254740993]}', "The number in 'result[0]'"],
    ['{"job_id":"j","attempt":NaN}', 'not valid JSON'],
    [`{"job_id":"j","a":${'['.repeat(40)}${']'.repeat(40)}}`, 'nests deeper than 33 levels'],
  ])('names the job of an event that is not valid JSON: %s', (event, problem) => {
    const text = `{"worker_id":"w","events":[{"job_id":"g","attempt":1,"event":"started"},${event}]}`
    expect(parseReport(parseJsonList(Buffer.from(text), REPORT_EVENTS))).toMatchObject({
      skipped: 1,
      complaint: { jobId: 'j', problem: expect.stringContaining(problem) },
    })
  })

  it.each<[object, string]>([
    [{ events: [] }, 'worker_id'],
    [{ worker_id: 'w' }, 'events'],
    [{ worker_id: 'w', events: {} }, 'events'],
    [{ worker_id: 'w', events: Array(1001).fill(failed) }, 'events'],
  ])('refuses a body that is not a report', (body, field) => {
    expect(fieldRefused(parseReport, body)).toBe(field)
  })
})
