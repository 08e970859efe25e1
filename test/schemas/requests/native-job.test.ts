import { describe, expect, it } from 'vitest'
import type { Carry, NewJob } from '../../../src/job/job.ts'
import { nativeJob } from '../../../src/schemas/requests/native-job.ts'

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
  ])('whose body has another id than its message_id %o is refused', (id, why) => {
    const content = Buffer.from(JSON.stringify({ id: ID, type: 'a', args: [] }))
    const context = { newId: () => ID, now: NOW, wall: NOW, timeoutMs: 30_000, prefix: '' }
    const from = { id, queue: 'q', maxAttempts: null, carry: () => ({}) }
    expect(() => nativeJob({ ...from, message: { content, properties: {} } }, context)).toThrow(why)
  })

  it('has complete policies, in the form that PUSH publishes and in the form that a producer writes', () => {
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
    'is refused when it names another queue than the one it came from: %j',
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
  ])('has the priority of its body %j, or else that of its property %s: %s', (body, sent, is) => {
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
  ])('with the body %j and the header %s has max_attempts %s', (body, header, times) => {
    expect(read(body, {}, {}, header).maxAttempts).toBe(times)
  })

  it.each<[string, object, Record<string, unknown>, number | undefined, number]>([
    ['the body', { created_at: '2026-02-12T09:00:00Z' }, {}, 1, SENT - 3_600_000],
    ['the header', {}, { 'x-ojs-created-at': '2026-02-12T10:00:00Z' }, 1, SENT],
    [
      'the header, when the body has no offset',
      { created_at: '2026-02-12T09:00:00.123456' },
      { 'x-ojs-created-at': '2026-02-12T10:00:00Z' },
      ...([1, SENT] as const),
    ],
    ['the property, in seconds', {}, { 'x-ojs-created-at': 'soon' }, SENT / 1000, SENT],
    ['the property, with a fraction of a second', {}, {}, (SENT + 0.5) / 1000, SENT],
    ['its arrival, when the property is in microseconds', {}, {}, SENT * 1000, NOW],
    [
      'the header x-ojs-enqueued-at',
      {},
      { 'x-ojs-enqueued-at': '2026-02-12T10:00:00Z' },
      undefined,
      SENT,
    ],
    ['its arrival, when nothing tells', {}, {}, undefined, NOW],
  ])('takes its creation time from %s', (_, body, headers, timestamp, at) => {
    const properties = timestamp === undefined ? {} : { timestamp }
    expect(read(body, properties, headers).createdAt).toBe(at)
  })

  // Seed 002 §6.2.
  it.each<[string, object, Record<string, unknown>, number]>([
    ['its header', {}, { 'x-ojs-enqueued-at': '2026-02-12T10:15:00Z' }, SENT + 900_000],
    ['its creation, when its header is not a time', {}, { 'x-ojs-enqueued-at': 'soon' }, SENT],
    ['its creation, when it has no header', {}, {}, SENT],
    [
      'its creation, when its header has an earlier time',
      {},
      { 'x-ojs-enqueued-at': '2026-02-12T09:59:59Z' },
      SENT,
    ],
  ])('takes its enqueueing time from %s', (_, body, headers, at) => {
    expect(read(body, { timestamp: SENT / 1000 }, headers).enqueuedAt).toBe(at)
  })

  it.each<[string, object, Carry, string | undefined]>([
    ['in its header', {}, { scheduledAt: '2026-02-12T10:20:00Z' }, '2026-02-12T10:20:00Z'],
    [
      'in its body',
      { scheduled_at: '2026-02-12T10:10:00Z' },
      { scheduledAt: '2026-02-12T10:20:00Z' },
      '2026-02-12T10:10:00Z',
    ],
    ['not in its header, which is not a time', {}, { scheduledAt: 'soon' }, undefined],
    ['not in its header, which has a relative time', {}, { scheduledAt: '+PT5S' }, undefined],
  ])('shows a scheduled_at that is %s', (_, body, carry, at) => {
    const job = read(body, {}, {}, null, carry)
    expect(JSON.parse(job.envelope).scheduled_at).toBe(at)
    expect(job.start).toEqual({ state: 'available' })
  })

  const TRACE = `00-${'4b'.repeat(16)}-${'a1'.repeat(8)}-01`
  const OTHER = `00-${'5c'.repeat(16)}-${'b2'.repeat(8)}-01`
  const TRACED = { meta: { traceparent: TRACE, tracestate: 'a=1', correlation_id: 'order-1' } }
  const IN_BODY = { traceparent: TRACE, tracestate: 'a=1', correlationId: 'order-1' }

  // Seed 002 §12.2: the gateway writes the headers of the next attempt, with everything that it knows.
  it.each<[string, object, Carry, Carry | null]>([
    ['in its body, when its headers have none', TRACED, {}, IN_BODY],
    ['in its options', { options: TRACED }, {}, IN_BODY],
    [
      'in its headers, before that in its body',
      TRACED,
      { traceparent: OTHER },
      { traceparent: OTHER, correlationId: 'order-1' },
    ],
    [
      'in its body, with the correlation id of its property',
      TRACED,
      { correlationId: 'c' },
      { ...IN_BODY, correlationId: 'c' },
    ],
    [
      'of neither, when the one in the body is invalid',
      { meta: { traceparent: 'mine' } },
      {},
      null,
    ],
    [
      'of a correlation id in meta.trace_id',
      { meta: { trace_id: 't' } },
      {},
      { correlationId: 't' },
    ],
  ])('has the trace %s', (_, body, carry, is) => {
    expect(read(body, {}, {}, null, carry).carry).toEqual(is)
  })
})
