import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toNewJob } from '../../../src/job/envelope.ts'
import type { Failure } from '../../../src/job/retry/error-history.ts'
import {
  failureOf,
  recordFailure,
  timeoutFailure,
  visibilityFailure,
} from '../../../src/job/retry/failure.ts'
import {
  isListedWhenExpired,
  judge,
  type RetryPolicy,
  retryPolicyOf,
} from '../../../src/job/retry/retry-policy.ts'
import { parsePush } from '../../../src/schemas/requests/validator.ts'

const NOW = Date.parse('2026-02-12T10:30:00.000Z')
const smtp: Failure = { code: 'smtp_down', type: 'SmtpError', message: 'no route', retryable: true }

describe('a worker’s error report', () => {
  it.each([
    [{ code: 'c' }, 'c', 'c'],
    [{ code: 'c', type: 'T' }, 'c', 'T'],
    [{ type: 'T' }, 'T', 'T'],
    [{ code: 'c', type: null, details: { error_class: 'K' } }, 'c', 'K'],
    [{ code: 'c', type: 'T', details: { error_class: 'K' } }, 'c', 'T'],
    [{ code: 'c', details: { error_class: 7 } }, 'c', 'c'],
    [{ code: 'c', details: { error_class: '' } }, 'c', 'c'],
  ])('as %j gives code %s and type %s', (error, code, type) => {
    expect(failureOf({ message: 'm', ...error })).toMatchObject({ code, type, message: 'm' })
  })

  it.each([
    [undefined, true],
    [null, true],
    [true, true],
    [false, false],
  ])('with retryable %s is retryable: %s', (retryable, expected) => {
    const error = { code: 'c', message: 'm', ...(retryable !== undefined && { retryable }) }
    expect(failureOf(error).retryable).toBe(expected)
  })

  // Seed 001, Appendix B: of the codes for failed executions, only this one is not retried by default.
  it.each([
    ['cancelled', undefined, false],
    ['cancelled', null, false],
    ['cancelled', true, true],
    ['handler_error', undefined, true],
    ['timeout', undefined, true],
  ])('with code %s and retryable %s is retryable: %s', (code, retryable, expected) => {
    const error = { code, message: 'm', ...(retryable !== undefined && { retryable }) }
    expect(failureOf(error).retryable).toBe(expected)
  })

  it('gives no members that it does not have', () => {
    expect(Object.keys(failureOf({ code: 'c', message: 'm', details: null }))).toEqual([
      'code',
      'type',
      'message',
      'retryable',
    ])
  })

  it('is cut to the maximum lengths without splitting a character', () => {
    const long = failureOf({
      code: `${'c'.repeat(254)}😀`,
      type: 't'.repeat(300),
      message: 'x'.repeat(20_000),
    })
    expect(long.code).toBe('c'.repeat(254))
    expect([long.type.length, long.message.length]).toEqual([255, 10_000])
  })

  it('keeps details of up to 64 KiB in UTF-8, and only the error class of larger ones', () => {
    const fits = { a: 'x'.repeat(65_536 - 8) }
    expect(failureOf({ code: 'c', message: 'm', details: fits }).details).toEqual(fits)
    const large = { error_class: 'Auth.Expired', a: 'é'.repeat(33_000) }
    expect(failureOf({ code: 'c', type: 'T', message: 'm', details: large }).details).toEqual({
      truncated: true,
      error_class: 'Auth.Expired',
    })
    const nameless = failureOf({ code: 'c', message: 'm', details: { a: 'x'.repeat(65_536) } })
    expect(nameless.details).toEqual({ truncated: true })
  })
})

describe('the backtrace of a failure', () => {
  const trace = (error: object) => failureOf({ code: 'c', message: 'm', ...error }).backtrace

  it.each([
    [{ backtrace: 'own', details: { backtrace: 'b', stack: 's' } }, 'own'],
    [{ details: { backtrace: 'b', stack: 's' } }, 'b'],
    [{ details: { stack: 's' } }, 's'],
    [{ backtrace: ['f', { file: 'a' }] }, ['f', { file: 'a' }]],
    [{ backtrace: { file: 'a' } }, { file: 'a' }],
    [{ backtrace: { file: 'a'.repeat(10_000) } }, undefined],
    [{ backtrace: null }, undefined],
  ])('of the report %j is %j', (error, expected) => {
    expect(trace(error)).toEqual(expected)
  })

  it('has at most 50 lines or frames', () => {
    expect(String(trace({ backtrace: 'line\n'.repeat(200) })).split('\n')).toHaveLength(50)
    expect(trace({ backtrace: Array.from({ length: 200 }, () => 'frame') })).toHaveLength(50)
  })

  it('has at most 10,000 characters', () => {
    expect(trace({ backtrace: 'x'.repeat(20_000) })).toHaveLength(10_000)
    const frames = trace({ backtrace: Array.from({ length: 40 }, () => 'x'.repeat(5_000)) })
    expect(frames).toHaveLength(9)
    expect(JSON.stringify(frames).length).toBeLessThan(10_100)
  })
})

/** The policy of a job that was pushed with this `retry`. */
function pushed(retry?: object): RetryPolicy {
  const body = { type: 'a', args: ['"retry"'], ...(retry && { options: { retry } }) }
  const context = { newId: () => 'x', now: NOW, wall: NOW, timeoutMs: 0, prefix: '' }
  return retryPolicyOf(toNewJob(parsePush(body), context))
}

describe('the retry policy in the envelope', () => {
  it('has the defaults of seed 003', () => {
    expect(pushed()).toEqual({
      maxAttempts: 3,
      backoff: {
        strategy: 'exponential',
        initialMs: 1_000,
        coefficient: 2,
        maxMs: 300_000,
        jitter: true,
      },
      nonRetryableErrors: [],
      onExhaustion: null,
    })
  })

  it('is the same in milliseconds and in ISO 8601', () => {
    const shared = { max_attempts: 7, backoff_coefficient: 1.5, jitter: false }
    const iso = pushed({ ...shared, initial_interval: 'PT0.25S', max_interval: 'PT1H' })
    expect(iso).toEqual(pushed({ ...shared, initial_interval_ms: 250, max_interval_ms: 3_600_000 }))
    expect(iso.maxAttempts).toBe(7)
    expect(iso.backoff).toEqual({
      strategy: 'exponential',
      initialMs: 250,
      coefficient: 1.5,
      maxMs: 3_600_000,
      jitter: false,
    })
  })

  it.each([
    ['linear', 'linear'],
    ['polynomial', 'polynomial'],
    ['none', 'none'],
    ['constant', 'none'],
    ['exponential', 'exponential'],
  ])('accepts the strategy %s', (backoff_strategy, strategy) => {
    expect(pushed({ backoff_strategy }).backoff.strategy).toBe(strategy)
  })

  it('keeps what the job says about exhaustion', () => {
    const ends = { non_retryable_errors: ['Auth.*'], on_exhaustion: 'dead_letter' }
    expect(pushed(ends)).toMatchObject({
      nonRetryableErrors: ['Auth.*'],
      onExhaustion: 'dead_letter',
    })
  })

  it('keeps every interval that PUSH accepts, to the millisecond', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 315_360_000_000 }), (ms) => {
        expect(pushed({ initial_interval_ms: ms, max_interval_ms: ms }).backoff.initialMs).toBe(ms)
      }),
    )
  })

  it.each([
    '',
    'null',
    '[]',
    '"x"',
    '{"retry":null}',
    '{"retry":[],"retry_extra":7}',
    '{"retry":{"initial_interval":5,"max_interval":"soon","backoff_coefficient":0.5}}',
    '{"retry":{"initial_interval":"PT0S","jitter":"no","on_exhaustion":"keep"}}',
    '{"retry":{"non_retryable_errors":"a"},"retry_extra":{"backoff_strategy":"wild"}}',
  ])('has the defaults when the envelope is malformed: %s', (envelope) => {
    expect(retryPolicyOf({ envelope, maxAttempts: 3 })).toEqual(pushed())
  })
})

describe('the verdict on a failed attempt', () => {
  const policy = pushed({ max_attempts: 3 })
  const listed = { do: 'discard', isDeadLetter: true }
  const plain = { do: 'discard', isDeadLetter: false }

  it.each<[string, number, Partial<Failure>, object, object]>([
    ['retries while attempts are left', 2, {}, {}, { do: 'retry' }],
    ['makes a dead letter on the last attempt', 3, {}, {}, listed],
    ['makes a dead letter beyond the last attempt', 9, {}, {}, listed],
    [
      'makes a dead letter on the last attempt with dead_letter',
      3,
      {},
      { on_exhaustion: 'dead_letter' },
      listed,
    ],
    ['discards on the last attempt with discard', 3, {}, { on_exhaustion: 'discard' }, plain],
    ['makes a dead letter with max_attempts 1', 1, {}, { max_attempts: 1 }, listed],
    ['makes a dead letter with max_attempts 0', 1, {}, { max_attempts: 0 }, listed],
    ['makes a dead letter when not retryable', 1, { retryable: false }, {}, listed],
    [
      'discards when not retryable, with discard',
      1,
      { retryable: false },
      { on_exhaustion: 'discard' },
      plain,
    ],
    [
      'discards with the code DISCARD',
      1,
      { code: 'DISCARD' },
      { on_exhaustion: 'dead_letter' },
      plain,
    ],
    ['discards with the code FAIL', 1, { code: 'FAIL' }, {}, plain],
    [
      'makes a dead letter with the code DEAD_LETTER',
      1,
      { code: 'DEAD_LETTER' },
      { on_exhaustion: 'discard' },
      listed,
    ],
    ['retries with the code RETRY', 1, { code: 'RETRY' }, {}, { do: 'retry' }],
    [
      'makes a dead letter with the code RETRY on the last attempt',
      3,
      { code: 'RETRY' },
      {},
      listed,
    ],
    [
      'makes a dead letter with the code RETRY when not retryable',
      1,
      { code: 'RETRY', retryable: false },
      {},
      listed,
    ],
    ['does not know a directive in lower case', 1, { code: 'discard' }, {}, { do: 'retry' }],
  ])('%s', (_name, attempt, failure, retry, verdict) => {
    const named = pushed({ max_attempts: 3, ...retry })
    expect(judge(named, attempt, { ...smtp, ...failure })).toEqual(verdict)
  })

  it.each<[string, Partial<Failure>, boolean]>([
    ['SmtpError', {}, true],
    ['smtp_down', {}, true],
    ['Other', {}, false],
    ['Smtp', {}, false],
    ['Cls', { details: { error_class: 'Cls' } }, true],
    ['Auth.*', { type: 'Auth.TokenExpired' }, true],
    ['Auth.*', { type: 'auth.TokenExpired' }, false],
    ['auth.*', { code: 'auth.expired' }, true],
    ['auth.*', { code: 'auth' }, false],
    ['auth.*', { code: 'authx.y' }, false],
    ['Auth.*', { details: { error_class: 'Auth.X' } }, true],
    ['auth.x.*', { type: 'auth.x.y' }, true],
    ['auth.x.*', { type: 'auth.y' }, false],
    ['*', {}, false],
    ['Cls', { details: { error_class: 7 } }, false],
  ])('non_retryable_errors [%s] ends a job with %j: %s', (pattern, failure, ends) => {
    const named = { ...policy, nonRetryableErrors: ['unused', pattern] }
    expect(judge(named, 1, { ...smtp, ...failure }).do).toBe(ends ? 'discard' : 'retry')
  })

  it.each([
    ['discard', false],
    ['dead_letter', true],
    [null, false],
  ])('makes an expired job with on_exhaustion %s a dead letter: %s', (on_exhaustion, isListed) => {
    expect(isListedWhenExpired(pushed({ on_exhaustion }))).toBe(isListed)
  })
})

describe('the record of a failed attempt', () => {
  const parse = (text: string) => JSON.parse(text) as Record<string, unknown>[]

  it('is the latest error, and an entry of the history with both names of the time', () => {
    const failure = { ...smtp, details: { host: 'h' }, backtrace: ['f'] }
    const { error, errors } = recordFailure('[{"attempt":1}]', 2, failure, NOW)
    expect(JSON.parse(error)).toEqual(failure)
    const at = '2026-02-12T10:30:00.000Z'
    const entry = { attempt: 2, ...failure, occurred_at: at, timestamp: at }
    expect(JSON.parse(errors)).toEqual([{ attempt: 1 }, entry])
  })

  it('has no members that the failure does not have', () => {
    const { error, errors } = recordFailure(null, 1, smtp, NOW)
    expect(error + errors).not.toMatch(/details|backtrace|null/)
  })

  it('keeps the newest 50', () => {
    let errors: string | null = null
    for (let n = 1; n <= 60; n++) errors = recordFailure(errors, n, smtp, NOW).errors
    const attempts = parse(errors ?? '').map((entry) => entry['attempt'])
    expect(attempts).toEqual(Array.from({ length: 50 }, (_, index) => index + 11))
  })

  it('stays within 256 KiB by removing the details of older entries', () => {
    const large = { ...smtp, details: { a: 'é'.repeat(30_000) }, backtrace: 'x'.repeat(9_000) }
    let errors: string | null = null
    for (let n = 1; n <= 10; n++) errors = recordFailure(errors, n, large, NOW).errors
    expect(Buffer.byteLength(errors ?? '')).toBeLessThanOrEqual(262_144)
    const entries = parse(errors ?? '')
    expect(entries.map((entry) => entry['attempt'])).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    expect(entries.map((entry) => 'details' in entry && 'backtrace' in entry)).toEqual([
      ...Array.from({ length: 7 }, () => false),
      ...[true, true, true],
    ])
    expect(entries[0]).toMatchObject({ code: 'smtp_down', message: 'no route' })
  })

  it('stays within 256 KiB whatever workers report, with the newest entry complete and 10 entries kept', () => {
    const worst = failureOf({
      code: '\u0000'.repeat(300),
      type: '\u0000'.repeat(300),
      message: '\u0000'.repeat(20_000),
      backtrace: '\u0000'.repeat(20_000),
      details: { a: 'x'.repeat(65_000) },
    })
    let errors: string | null = null
    for (let n = 1; n <= 55; n++) errors = recordFailure(errors, n, worst, NOW).errors
    expect(Buffer.byteLength(errors ?? '')).toBeLessThanOrEqual(262_144)
    const entries = parse(errors ?? '')
    expect(entries.at(-1)).toMatchObject({ ...worst, attempt: 55 })
    expect(entries.length).toBeGreaterThanOrEqual(10)
  })
})

describe('failures that the gateway reports itself', () => {
  it('name the timeout that was exceeded (OJS core)', () => {
    expect(timeoutFailure(30_000, 30_250)).toEqual({
      code: 'timeout',
      type: 'timeout',
      message: 'The attempt ran longer than its timeout of 30 s.',
      retryable: true,
      details: { timeout_kind: 'execution', limit_seconds: 30, elapsed_seconds: 30.25 },
    })
  })

  it('say that the lease ran out', () => {
    expect(visibilityFailure()).toEqual({
      code: 'visibility_timeout',
      type: 'visibility_timeout',
      message: 'No ACK, NACK or heartbeat came within the visibility timeout.',
      retryable: true,
    })
  })
})
