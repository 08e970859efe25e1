import { describe, expect, test } from 'vitest'
import type { LiveDelivery } from '../../src/broker/delivery.ts'
import { failureOf } from '../../src/job/failure.ts'
import { parseReport, REPORT_EVENTS } from '../../src/schemas/control.ts'
import { parseJsonList } from '../../src/schemas/json-list.ts'
import {
  type EventName,
  errorMember,
  eventText,
  MAX_EVENT_BYTES,
  resultMember,
} from '../../src/worker/event-text.ts'
import { shownMembers } from '../../src/worker/shown-job.ts'
import type { TokenJob } from '../../src/worker/token-job.ts'

const nested = (levels: number): unknown => (levels === 0 ? 1 : [nested(levels - 1)])

/** One event as a gateway reads it, of a job that it does not know. */
function told(event: EventName, more: string, content: Buffer, properties: object = {}) {
  const delivery = { id: 'j', generation: 0, raw: { content, properties } } as LiveDelivery
  const token = { isKnown: false, maxAttempts: 3 } as TokenJob
  const shown = shownMembers(token, delivery, { event, beside: more })
  const text = eventText(0, delivery, 1, event, more + shown)
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(MAX_EVENT_BYTES)
  const body = parseJsonList(Buffer.from(`{"worker_id":"w","events":[${text}]}`), REPORT_EVENTS)
  const { request, skipped } = parseReport(body)
  expect(skipped).toBe(0)
  return request.events[0]
}

const BODY = Buffer.from('{"id":"j","type":"a.b","args":[]}')
const sized = (bytes: number) => Buffer.from(JSON.stringify({ id: 'j', args: ['x'.repeat(bytes)] }))

describe('a result', () => {
  test.each([
    ['as deep as over HTTP', nested(31)],
    ['with a lone surrogate', '\ud800'],
    ['with NUL', 'a\u0000b'],
    ['with __proto__', JSON.parse('{"__proto__":{"a":1}}')],
    ['of a double beyond 2^53', 1.5e300],
    ['of one that is an integer', { n: [1.6e18] }],
  ])('%s is told', (_name, result) => {
    expect(told('completed', resultMember(result) as string, BODY)).toMatchObject({ result })
  })

  test.each([
    ['deeper than over HTTP', nested(32), '32 levels'],
    ['too large', 'x'.repeat(1_000_000), 'larger than 1000000 bytes'],
    ['of too many bytes', 'ü'.repeat(500_000), 'larger than 1000000 bytes'],
    ['that throws', { toJSON: () => BigInt(1) }, 'BigInt'],
  ])('%s fails the job as over HTTP', (_name, result, message) => {
    expect(resultMember(result)).toEqual({
      code: 'handler_error',
      type: 'ResultError',
      message: expect.stringContaining(message),
      retryable: false,
    })
  })

  test('that leaves no room for the job is told without it', () => {
    const result = 'x'.repeat(999_990)
    expect(told('completed', resultMember(result) as string, sized(60_000))).not.toHaveProperty(
      'job',
    )
    expect(told('completed', resultMember(result) as string, BODY)).toHaveProperty('job')
  })
})

describe('an error', () => {
  const failure = { code: 'handler_error', type: 'T', message: 'm', retryable: true }

  test('is told with its details', () => {
    const error = { ...failure, details: { code: 'E_1', deep: nested(20) } }
    expect(told('failed', errorMember(failureOf(error)), BODY)).toMatchObject({ error })
  })

  test.each([
    ['too many levels', { n: nested(31) }],
    ['too many bytes', { n: 'x'.repeat(65_000), stack: '\u0001'.repeat(10_000) }],
  ])('with %s in its details is told without them', (_name, details) => {
    const failed = failureOf({ ...failure, details })
    expect(told('failed', errorMember(failed), sized(890_000))).toMatchObject({
      error: { ...failure, details: { truncated: true } },
      job: { id: 'j' },
    })
  })

  test('of texts and details that are too long together is told without the details', () => {
    const message = '\u0001'.repeat(10_000)
    const failed = failureOf({ ...failure, message, details: { n: 'x'.repeat(65_000) } })
    expect(told('failed', errorMember(failed), sized(899_000))).toMatchObject({
      error: { message, details: { truncated: true } },
      job: { id: 'j' },
    })
  })

  test('of texts that JSON makes long leaves room for the largest job', () => {
    const control = '\u0001'.repeat(100_000)
    const failed = failureOf({ code: control, type: control, message: control })
    expect(told('failed', errorMember(failed), sized(899_000))).toHaveProperty('job')
  })
})

test('a job with a byte order mark is shown without it', () => {
  const content = Buffer.concat([Buffer.from('\ufeff'), BODY])
  expect(told('started', '', content)).toMatchObject({ job: { id: 'j', type: 'a.b' } })
})

test('a job as deep as it may be is shown', () => {
  const job = { id: 'j', args: nested(31) }
  expect(told('started', '', Buffer.from(JSON.stringify(job)))).toMatchObject({ job })
})

test('what came beside the body of a job is shown, but for what would be refused', () => {
  const headers = {
    'x-tenant': 'acme',
    'x-blob': Buffer.from('abc'),
    'x-large': 2 ** 60,
    'x-deep': [{ large: 2 ** 60 }],
    'x-death': [{ queue: 'q' }],
    'x-ojs-attempt': 2,
    'x-ojs-tags': 'a,b',
    'x-ojs-trace-id': 5,
  }
  const properties = { headers, timestamp: 2 ** 62, priority: 4, replyTo: 'r', userId: 'guest' }
  const event = told('completed', '', BODY, properties)
  expect(event?.headers).toEqual({
    'x-tenant': 'acme',
    'x-blob': { '!': 'bytes', value: 'YWJj' },
    'x-ojs-tags': 'a,b',
  })
  expect(event?.properties).toEqual({ priority: 4, reply_to: 'r' })
})
