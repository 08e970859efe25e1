import { describe, expect, it } from 'vitest'
import type { Carry, NewJob } from '../../src/job/job.ts'
import { nativeJob } from '../../src/schemas/native-job.ts'

const ID = '019539a4-b68c-7def-8000-1a2b3c4d5e6f'
const NOW = Date.parse('2026-02-12T10:30:00.000Z')
const SENT = Date.parse('2026-02-12T10:00:00.000Z')

/** A message as a native producer may send it. */
function read(
  body: object,
  properties: { timestamp?: number; priority?: number } = {},
  headers: Record<string, unknown> = {},
  maxAttempts: number | null = null,
  carry: Carry = {},
): NewJob {
  const content = Buffer.from(JSON.stringify({ id: ID, type: 'a', args: [], ...body }))
  const context = { newId: () => ID, now: NOW, wall: NOW, timeoutMs: 30_000, prefix: '' }
  const from = { id: ID, queue: 'q', maxAttempts, carry: () => carry }
  return nativeJob({ ...from, message: { content, headers, properties } }, context)
}

describe('a native message', () => {
  it.each([
    ['', /too large .* message_id/],
    ['019539a4-b68c-7def-8000-ffffffffffff', /differ/],
  ])('that came as %o is refused, and why', (id, why) => {
    const content = Buffer.from(JSON.stringify({ id: ID, type: 'a', args: [] }))
    const context = { newId: () => ID, now: NOW, wall: NOW, timeoutMs: 30_000, prefix: '' }
    const from = { id, queue: 'q', maxAttempts: null, carry: () => ({}) }
    expect(() => nativeJob({ ...from, message: { content, properties: {} } }, context)).toThrow(why)
  })

  it('has its policies whole, as PUSH publishes them and as a producer writes them', () => {
    const unique = { unique: {}, unique_extra: { keys: ['type', 'meta'], meta_keys: ['u'] } }
    const published = { retry: {}, retry_extra: { backoff_strategy: 'none' }, ...unique }
    const written = {
      retry: { backoff_strategy: 'none' },
      unique: { keys: ['type', 'meta'], meta_keys: ['u'] },
    }
    const [one, other] = [published, written].map((body) => read({ ...body, meta: { u: 1 } }))
    expect(one).toEqual(other)
    expect(JSON.parse(one?.envelope ?? '')).toMatchObject(published)
  })

  it.each([{ queue: 'other' }, { options: { queue: 'other' } }])(
    'that names another queue than it came from is refused: %j',
    (body) => {
      expect(() => read(body)).toThrow("names queue 'other'")
    },
  )

  it.each<[object, number | undefined, number]>([
    [{}, undefined, 0],
    [{}, 7, 7],
    [{}, 255, 9],
    [{ priority: -20 }, 7, -20],
    [{ options: { priority: 50 } }, 7, 50],
  ])('has the priority of its body %j, else that of its property %s: %s', (body, sent, is) => {
    expect(read(body, sent === undefined ? {} : { priority: sent }).priority).toBe(is)
  })

  it.each<[object, number | null, number]>([
    [{}, null, 3],
    [{ max_attempts: 7 }, null, 7],
    [{ max_attempts: 7 }, 5, 5],
    [{ max_attempts: 7, retry: { max_attempts: 4 } }, 5, 4],
    // Seed 002 §8.3: at `x-ojs-max-attempts` the next failure must be a discard.
    [{ retry: { max_attempts: 7 } }, 2, 2],
    [{ max_attempts: 2, retry: { max_attempts: 7 } }, null, 7],
    [{ max_attempts: '7' }, null, 3],
    [{ max_attempts: -1 }, null, 3],
    [{ max_attempts: 0 }, null, 0],
    [{ max_attempts: 2 ** 31 - 1 }, null, 2 ** 31 - 1],
    [{ max_attempts: 2 ** 31 }, null, 3],
  ])('may be tried as often as %j and the header %s say: %s', (body, header, times) => {
    expect(read(body, {}, {}, header).maxAttempts).toBe(times)
  })

  it.each<[string, object, Record<string, unknown>, number | undefined, number]>([
    ['body', { created_at: '2026-02-12T09:00:00Z' }, {}, 1, SENT - 3_600_000],
    ['header', {}, { 'x-ojs-created-at': '2026-02-12T10:00:00Z' }, 1, SENT],
    [
      'header, where the body has no offset',
      { created_at: '2026-02-12T09:00:00.123456' },
      { 'x-ojs-created-at': '2026-02-12T10:00:00Z' },
      ...([1, SENT] as const),
    ],
    ['property, in seconds', {}, { 'x-ojs-created-at': 'soon' }, SENT / 1000, SENT],
    ['property of a report, with a fraction', {}, {}, (SENT + 0.5) / 1000, SENT],
    ['arrival, where the property is in microseconds', {}, {}, SENT * 1000, NOW],
    ['when it was enqueued', {}, { 'x-ojs-enqueued-at': '2026-02-12T10:00:00Z' }, undefined, SENT],
    ['arrival, where nobody says', {}, {}, undefined, NOW],
  ])('was created when it says so: %s', (_, body, headers, timestamp, at) => {
    const properties = timestamp === undefined ? {} : { timestamp }
    expect(read(body, properties, headers).createdAt).toBe(at)
  })

  // Seed 002 §6.2.
  it.each<[string, object, Record<string, unknown>, number]>([
    ['its header', {}, { 'x-ojs-enqueued-at': '2026-02-12T10:15:00Z' }, SENT + 900_000],
    ['its creation, where its header is no time', {}, { 'x-ojs-enqueued-at': 'soon' }, SENT],
    ['its creation, where there is no header', {}, {}, SENT],
    [
      'its creation, before which nothing is',
      {},
      { 'x-ojs-enqueued-at': '2026-02-12T09:59:59Z' },
      SENT,
    ],
  ])('was enqueued when it says so: %s', (_, body, headers, at) => {
    expect(read(body, { timestamp: SENT / 1000 }, headers).enqueuedAt).toBe(at)
  })

  it.each<[string, object, Carry, string | undefined]>([
    ['header', {}, { scheduledAt: '2026-02-12T10:20:00Z' }, '2026-02-12T10:20:00Z'],
    [
      'body',
      { scheduled_at: '2026-02-12T10:10:00Z' },
      { scheduledAt: '2026-02-12T10:20:00Z' },
      '2026-02-12T10:10:00Z',
    ],
    ['header, but that is no time', {}, { scheduledAt: 'soon' }, undefined],
    ['header, but that tells no time for others', {}, { scheduledAt: '+PT5S' }, undefined],
  ])('shows the time that it was scheduled for, of its %s', (_, body, carry, at) => {
    const job = read(body, {}, {}, null, carry)
    expect(JSON.parse(job.envelope).scheduled_at).toBe(at)
    expect(job.start).toEqual({ state: 'available' })
  })

  const TRACE = `00-${'4b'.repeat(16)}-${'a1'.repeat(8)}-01`
  const OTHER = `00-${'5c'.repeat(16)}-${'b2'.repeat(8)}-01`
  const TRACED = { meta: { traceparent: TRACE, tracestate: 'a=1', correlation_id: 'order-1' } }
  const IN_BODY = { traceparent: TRACE, tracestate: 'a=1', correlationId: 'order-1' }

  // Seed 002 §12.2: the headers of the next attempt are ours to write, and say what is known.
  it.each<[string, object, Carry, Carry | null]>([
    ['of its body, where its headers name none', TRACED, {}, IN_BODY],
    ['of its options', { options: TRACED }, {}, IN_BODY],
    [
      'of its headers',
      TRACED,
      { traceparent: OTHER },
      { traceparent: OTHER, correlationId: 'order-1' },
    ],
    ['of its property', TRACED, { correlationId: 'c' }, { ...IN_BODY, correlationId: 'c' }],
    ['of neither', { meta: { traceparent: 'mine' } }, {}, null],
    ['of a trace with a name of its own', { meta: { trace_id: 't' } }, {}, { correlationId: 't' }],
  ])('is part of the trace %s', (_, body, carry, is) => {
    expect(read(body, {}, {}, null, carry).carry).toEqual(is)
  })
})
