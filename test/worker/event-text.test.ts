import { describe, expect, test } from 'vitest'
import type { LiveDelivery } from '../../src/broker/consume/delivery.ts'
import { failureOf } from '../../src/job/retry/failure.ts'
import type { Deps } from '../../src/operations/deps.ts'
import { JobMessages } from '../../src/operations/job-messages/tracker.ts'
import { ack } from '../../src/operations/lease/ack.ts'
import { parseJsonList } from '../../src/schemas/json/json-list.ts'
import { parseReport, REPORT_EVENTS } from '../../src/schemas/requests/control.ts'
import {
  type EventName,
  errorMember,
  eventText,
  MAX_EVENT_BYTES,
  resultMember,
  startMember,
} from '../../src/worker/event-text.ts'
import type { MessageJob } from '../../src/worker/message-job.ts'
import { canBeHeld, shownMembers } from '../../src/worker/reported-job.ts'

const nested = (levels: number): unknown => (levels === 0 ? 1 : [nested(levels - 1)])

/** One event, as a gateway reads it, of a job that it does not know. */
function readByGateway(event: EventName, more: string, content: Buffer, properties: object = {}) {
  const text = textOf(event, more, content, { properties })
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(MAX_EVENT_BYTES)
  return read(text)
}

function textOf(
  event: EventName,
  more: string,
  content: Buffer,
  { properties = {}, isLeft = false }: { properties?: object; isLeft?: boolean } = {},
): string {
  const delivery = deliveryOf(content, properties)
  const jobMessage = { isKnown: false, maxAttempts: 3 } as MessageJob
  const shown = shownMembers(jobMessage, delivery, { event, beside: more, isLeft })
  return eventText(0, delivery, 1, event, more + shown)
}

function deliveryOf(content: Buffer, properties: object = {}): LiveDelivery {
  return { id: 'j', generation: 0, raw: { content, properties } } as LiveDelivery
}

const reportOf = (text: string) =>
  Buffer.from(`{"worker_id":"${'w'.repeat(255)}","events":[${text}]}`)

function read(text: string) {
  const body = parseJsonList(reportOf(text), REPORT_EVENTS)
  const { request, skipped } = parseReport(body)
  expect(skipped).toBe(0)
  return request.events[0]
}

/** The largest text: with its quotes it has 1 MiB. */
const LARGEST = 1_048_574

/** Acknowledges a job as an HTTP worker does. */
async function acknowledged(result: unknown) {
  const complete = async () => ({ id: 'j', state: 'completed', workerId: null })
  const deps = {
    ...{ ledger: { complete }, clock: { now: () => 0 }, jobMessages: new JobMessages() },
    ...{ broker: { unpark: () => false }, events: { emit: () => {} } },
  }
  return await ack(deps as unknown as Deps, { job_id: 'j', result }, { requestId: 'req_1' })
}

const BODY = Buffer.from('{"id":"j","type":"a.b","args":[]}')
const sized = (bytes: number) => Buffer.from(JSON.stringify({ id: 'j', args: ['x'.repeat(bytes)] }))

describe('a result in a report', () => {
  test.each([
    ['as deep as over HTTP', nested(31)],
    ['with a lone surrogate', '\ud800'],
    ['with NUL', 'a\u0000b'],
    ['with __proto__', JSON.parse('{"__proto__":{"a":1}}')],
    ['that is a double beyond 2^53', 1.5e300],
    ['with an integer beyond 2^53', { n: [1.6e18] }],
  ])('%s reaches the gateway unchanged', (_name, result) => {
    expect(readByGateway('completed', resultMember(result) as string, BODY)).toMatchObject({
      result,
    })
  })

  test.each([
    ['deeper than over HTTP', nested(32), '32 levels'],
    ['too large', 'x'.repeat(LARGEST + 1), 'larger than 1048576 bytes'],
    ['of too many bytes', 'ü'.repeat(524_288), 'larger than 1048576 bytes'],
    ['that throws', { toJSON: () => BigInt(1) }, 'BigInt'],
  ])('%s becomes a failure without retry, as over HTTP', (_name, result, message) => {
    expect(resultMember(result)).toEqual({
      code: 'handler_error',
      type: 'ResultError',
      message: expect.stringContaining(message),
      retryable: false,
    })
  })

  // Every gateway accepts reports up to 1 MiB plus three times `OJS_MAX_BODY_BYTES`, whose minimum is 1 KiB.
  const LEAST_LIMIT = 1_048_576 + 3 * 1_024

  test('may be as large as over HTTP, in a report that every gateway accepts', async () => {
    const result = 'x'.repeat(LARGEST)
    const text = textOf('completed', startMember(0) + resultMember(result), sized(60_000))
    expect(reportOf(text).length).toBeLessThanOrEqual(LEAST_LIMIT)
    expect(read(text)).toMatchObject({ result })
    expect(await acknowledged(result)).toMatchObject({ state: 'completed' })
    await expect(acknowledged(`${result}x`)).rejects.toMatchObject({
      ...{ status: 413, details: { max_bytes: 1_048_576 } },
    })
  })

  test('that leaves no room for the job is sent without the job', () => {
    const result = 'x'.repeat(999_990)
    expect(
      readByGateway('completed', resultMember(result) as string, sized(60_000)),
    ).not.toHaveProperty('job')
    expect(readByGateway('completed', resultMember(result) as string, BODY)).toHaveProperty('job')
  })
})

describe('an error in a report', () => {
  const failure = { code: 'handler_error', type: 'T', message: 'm', retryable: true }

  test('reaches the gateway with its details', () => {
    const error = { ...failure, details: { code: 'E_1', deep: nested(20) } }
    expect(readByGateway('failed', errorMember(failureOf(error)), BODY)).toMatchObject({ error })
  })

  test.each([
    ['too many levels', { n: nested(31) }],
    ['too many bytes', { n: 'x'.repeat(65_000), stack: '\u0001'.repeat(10_000) }],
  ])('with %s in its details is sent with truncated details', (_name, details) => {
    const failed = failureOf({ ...failure, details })
    expect(readByGateway('failed', errorMember(failed), sized(890_000))).toMatchObject({
      error: { ...failure, details: { truncated: true } },
      job: { id: 'j' },
    })
  })

  test('whose texts and details are too long together is sent without the details', () => {
    const message = '\u0001'.repeat(10_000)
    const failed = failureOf({ ...failure, message, details: { n: 'x'.repeat(65_000) } })
    expect(readByGateway('failed', errorMember(failed), sized(899_000))).toMatchObject({
      error: { message, details: { truncated: true } },
      job: { id: 'j' },
    })
  })

  test('whose texts become longer by JSON escapes still leaves room for the job', () => {
    const control = '\u0001'.repeat(100_000)
    const failed = failureOf({ code: control, type: control, message: control })
    expect(readByGateway('failed', errorMember(failed), sized(899_000))).toHaveProperty('job')
  })
})

test('an event shows a job with a byte order mark without the mark', () => {
  const content = Buffer.concat([Buffer.from('\ufeff'), BODY])
  expect(readByGateway('started', '', content)).toMatchObject({ job: { id: 'j', type: 'a.b' } })
})

test('an event shows a job with the deepest args that are allowed', () => {
  const job = { id: 'j', args: nested(31) }
  expect(readByGateway('started', '', Buffer.from(JSON.stringify(job)))).toMatchObject({ job })
})

test('an event shows headers and properties of a message, except those that a gateway would refuse', () => {
  const headers = {
    'x-tenant': 'acme',
    'x-blob': Buffer.from('abc'),
    'x-large': 2 ** 60,
    'x-deep': [{ large: 2 ** 60 }],
    'x-death': [{ queue: 'q' }],
    'x-ojs-attempt': 2,
    'x-ojs-enqueued-at': '2026-02-12T10:30:00.000Z',
    'x-ojs-tags': 'a,b',
    'x-ojs-trace-id': 5,
  }
  const properties = { headers, timestamp: 2 ** 62, priority: 4, replyTo: 'r', userId: 'guest' }
  const event = readByGateway('completed', '', BODY, properties)
  expect(event?.headers).toEqual({
    'x-tenant': 'acme',
    'x-blob': { '!': 'bytes', value: 'YWJj' },
    'x-ojs-enqueued-at': '2026-02-12T10:30:00.000Z',
    'x-ojs-tags': 'a,b',
  })
  expect(event?.properties).toEqual({ priority: 4, reply_to: 'r' })
})

describe('a large job in a failed event', () => {
  const error = ',"error":{"code":"c","message":"m"}'
  /** A body of exactly this many bytes. */
  const large = (bytes: number) => sized(bytes - sized(0).length)
  const MOST = 3 * 1024 * 1024

  test.each([
    ['is included up to 3 MiB', MOST, false, true],
    ['is left out beyond 3 MiB', MOST + 1, false, false],
    ['is included up to 900,000 bytes if the gateway holds the retry', 900_000, true, true],
    ['is left out beyond 900,000 bytes if the gateway holds the retry', 900_001, true, false],
  ])('%s', (_name, bytes, isLeft, isShown) => {
    const text = textOf('failed', error, large(bytes), { isLeft })
    expect(text.includes('"job":{')).toBe(isShown)
    expect(read(text)).toMatchObject({ job_id: 'j', event: 'failed', error: { code: 'c' } })
    expect(canBeHeld({ isKnown: false } as MessageJob, deliveryOf(large(bytes)))).toBe(
      bytes <= 900_000,
    )
  })
})
