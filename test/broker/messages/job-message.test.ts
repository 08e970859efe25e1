import { createRequire } from 'node:module'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cleanHeaders, cleanText, restoreHeaders } from '../../../src/broker/messages/headers.ts'
import { carryOf, factsOf, foreignMessage } from '../../../src/broker/messages/incoming-message.ts'
import { jobMessageOf } from '../../../src/broker/messages/job-message.ts'
import type { Carry } from '../../../src/job/job.ts'
import { row } from '../harness.ts'

/** What amqplib itself writes to the wire and reads from it; its package does not export this. */
const codec = createRequire(import.meta.url)('../../../node_modules/amqplib/lib/codec.js') as {
  encodeTable(buffer: Buffer, table: object, offset: number): number
  decodeFields(slice: Buffer): Record<string, unknown>
}

function overTheWire(headers: object): Record<string, unknown> {
  const buffer = Buffer.alloc(65_536)
  return codec.decodeFields(buffer.subarray(4, codec.encodeTable(buffer, headers, 0)))
}

/** A message as a consumer receives it, with what `factsOf` and `foreignMessage` read. */
function message(content: string | Buffer, properties: object = {}, headers: object = {}) {
  const empty = { contentType: undefined, contentEncoding: undefined, deliveryMode: undefined }
  return {
    content: Buffer.from(content),
    fields: { deliveryTag: 1, redelivered: false, exchange: '', routingKey: '' },
    properties: {
      ...empty,
      ...{ priority: undefined, correlationId: undefined, replyTo: undefined },
      ...{ expiration: undefined, messageId: undefined, timestamp: undefined, type: undefined },
      ...{ userId: undefined, appId: undefined, clusterId: undefined },
      headers: headers as Record<string, unknown>,
      ...properties,
    },
  }
}

const CONTROL = /\p{Cc}/u
const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

describe('jobMessageOf (seed 002 §6)', () => {
  it('sets every property and header whose value exists', () => {
    const carry: Carry = {
      traceparent: TRACE,
      tracestate: 'a=1',
      correlationId: 'c-1',
      idempotencyKey: 'k-1',
      tags: ['a', 'b'],
      scheduledAt: '2026-01-01T00:00:00.000Z',
    }
    const job = row({ id: 'id-1', type: 'email.send', priority: 7, maxAttempts: 5, carry })
    const { content, options } = jobMessageOf(job)
    expect(content.toString()).toBe(job.envelope)
    expect(options).toEqual({
      mandatory: true,
      persistent: true,
      contentType: 'application/openjobspec+json',
      contentEncoding: 'utf-8',
      messageId: 'id-1',
      type: 'email.send',
      timestamp: 1_700_000_000,
      priority: 7,
      appId: 'ojs',
      correlationId: 'c-1',
      headers: {
        'x-ojs-queue': 'email',
        'x-ojs-attempt': { '!': 'int32', value: 1 },
        'x-ojs-max-attempts': { '!': 'int32', value: 5 },
        'x-ojs-created-at': '2023-11-14T22:13:20.000Z',
        'x-ojs-enqueued-at': '2023-11-14T22:13:20.500Z',
        'x-ojs-scheduled-at': '2026-01-01T00:00:00.000Z',
        'x-ojs-tags': 'a,b',
        'x-ojs-trace-id': TRACE,
        'x-ojs-trace-state': 'a=1',
        'x-ojs-idempotency-key': 'k-1',
      },
    })
  })

  it('leaves out whole tags when there are too many', () => {
    const tags = Array.from({ length: 100 }, (_, i) => `customer-tag-${i}`)
    const { headers } = jobMessageOf(row({ carry: { tags } })).options
    const told = String(headers?.['x-ojs-tags']).split(',')
    expect(told.length).toBeGreaterThan(60)
    expect(told).toEqual(tags.slice(0, told.length))
    const one = jobMessageOf(row({ carry: { tags: ['x'.repeat(2_000)] } })).options.headers
    expect(one?.['x-ojs-tags'] ?? '').toBe('')
  })

  it('leaves out what does not exist, and never sets expiration, reply_to or user_id', () => {
    const { options } = jobMessageOf(row({ carry: null }))
    expect(Object.keys(options.headers)).toEqual([
      'x-ojs-queue',
      'x-ojs-attempt',
      'x-ojs-max-attempts',
      'x-ojs-created-at',
      'x-ojs-enqueued-at',
    ])
    for (const name of ['expiration', 'replyTo', 'userId', 'correlationId']) {
      expect(options).not.toHaveProperty(name)
    }
    const foreign: Carry = JSON.parse('{"properties":{"userId":"mallory"}}')
    expect(jobMessageOf(row({ carry: foreign })).options).not.toHaveProperty('userId')
  })

  it('sends attempts as int32, which `.(int32)` in Go needs', () => {
    const buffer = Buffer.alloc(1000)
    const { options } = jobMessageOf(row({ carry: null }))
    codec.encodeTable(buffer, options.headers, 0)
    const at = buffer.indexOf('x-ojs-attempt') + 'x-ojs-attempt'.length
    expect(buffer.toString('latin1', at, at + 1)).toBe('I')
    expect(buffer.readInt32BE(at + 1)).toBe(1)
  })

  it.each<[number, string]>([
    [0, 'I'],
    [42, 'I'],
    [-(2 ** 31), 'I'],
    [2 ** 31, 'l'],
    [0.5, 'd'],
  ])('sends a whole number of the publisher as int32 where it fits: %s as %s', (value, tag) => {
    const buffer = Buffer.alloc(1000)
    const { options } = jobMessageOf(row({ carry: { headers: { 'x-shard': [value] } } }))
    codec.encodeTable(buffer, options.headers, 0)
    const at = buffer.indexOf('x-shard') + 'x-shard'.length + 1 + 4
    expect(buffer.toString('latin1', at, at + 1)).toBe(tag)
  })

  it('names the last attempt in the copy of a discarded job, and at least the first (§5.5)', () => {
    const attemptOf = (attempt: number) =>
      jobMessageOf(row({}, { state: 'discarded', attempt })).options.headers['x-ojs-attempt']
    expect(attemptOf(3)).toEqual({ '!': 'int32', value: 3 })
    expect(attemptOf(0)).toEqual({ '!': 'int32', value: 1 })
  })

  it('names the attempt after the last one, and its error (§8.3)', () => {
    const error = JSON.stringify({ code: 'timeout', message: 'too\nslow' })
    const { options } = jobMessageOf(row({}, { attempt: 2, error }))
    expect(options.headers).toMatchObject({
      'x-ojs-attempt': { '!': 'int32', value: 3 },
      'x-ojs-error-code': 'timeout',
      'x-ojs-error-message': 'too slow',
    })
  })

  it.each([
    [-100, 0],
    [-1, 0],
    [0, 0],
    [9, 9],
    [10, 9],
    [100, 9],
  ])('sends OJS priority %i as %i', (priority, property) => {
    expect(jobMessageOf(row({ priority })).options.priority).toBe(property)
  })

  it('falls back to the trace id as correlation id', () => {
    const { options } = jobMessageOf(row({ carry: { traceparent: TRACE } }))
    expect(options.correlationId).toBe('0af7651916cd43dd8448eb211c80319c')
  })

  it('adds the generation to the body, and ignores one that the envelope brings', () => {
    const plain = row({ id: 'a' })
    expect(jobMessageOf(plain).content.toString()).toBe(plain.envelope)
    expect(factsOf(message(jobMessageOf({ ...plain, generation: 3 }).content)).generation).toBe(3)
    const forged = row({ envelope: '{"id":"a","x_ojs_generation":9}' })
    expect(factsOf(message(jobMessageOf(forged).content)).generation).toBe(0)
    expect(factsOf(message(jobMessageOf({ ...forged, generation: 2 }).content)).generation).toBe(2)
  })

  const anyText = fc.string({ unit: 'binary', maxLength: 3_000 })
  const anyCarry = fc.record(
    {
      traceparent: anyText,
      tracestate: anyText,
      correlationId: anyText,
      idempotencyKey: anyText,
      tags: fc.array(anyText, { maxLength: 20 }),
      scheduledAt: anyText,
    },
    { requiredKeys: [] },
  )

  it('never turns what an HTTP client controls into a header of another name', () => {
    const property = fc.property(
      anyCarry,
      anyText,
      fc.integer(),
      fc.integer(),
      (carry, type, a, b) => {
        const job = row({ type, priority: a, maxAttempts: b, createdAt: a * b, carry })
        const { options } = jobMessageOf(job)
        const received = overTheWire(options.headers)
        for (const [name, value] of Object.entries(received)) {
          expect(name).toMatch(/^x-ojs-[a-z-]+$/)
          if (typeof value !== 'string') continue
          expect(value).not.toMatch(CONTROL)
          expect(Buffer.byteLength(value)).toBeLessThanOrEqual(1024)
        }
        for (const text of [options.type, options.correlationId ?? '', options.messageId ?? '']) {
          expect(Buffer.byteLength(text ?? '')).toBeLessThanOrEqual(255)
        }
      },
    )
    fc.assert(property)
  })

  it('restores headers and properties of an adopted message, but keeps our own headers', () => {
    const carry: Carry = {
      headers: { tenant: 'x', blob: { '!': 'bytes', value: 'AAE=' }, 'x-ojs-queue': 'forged' },
      properties: { appId: 'legacy', replyTo: 'answers' },
    }
    const { options } = jobMessageOf(row({ carry }))
    expect(options).toMatchObject({ appId: 'legacy', replyTo: 'answers' })
    expect(options.headers).toMatchObject({
      tenant: 'x',
      blob: Buffer.from([0, 1]),
      'x-ojs-queue': 'email',
    })
  })
})

describe('cleanHeaders', () => {
  it('drops headers that the broker owns, and those that we write ourselves', () => {
    const dropped = [
      ...['x-death', 'x-first-death-queue', 'x-last-death-reason', 'x-delivery-count', 'CC', 'BCC'],
      ...['x-acquired-count', 'x-delay', 'expiration', 'x-match', 'X-Death', 'x-opt-foo', '!', ''],
      ...['x-received-from', 'x-shovelled', 'x-ojs-attempt', 'x-ojs-queue', 'x-ojs-error-code'],
    ]
    const kept = { 'x-request-id': 'r', 'x-ojs-custom': 1, tenant: null, nested: { a: [1, 'b'] } }
    const headers = { ...Object.fromEntries(dropped.map((name) => [name, 'x'])), ...kept }
    expect(cleanHeaders(headers)).toEqual(kept)
  })

  it('keeps byte arrays and the types that amqplib marks', () => {
    const headers = {
      blob: Buffer.from([1, 2, 255]),
      at: { '!': 'timestamp', value: 1_700_000_000 },
      price: { '!': 'decimal', value: { places: 2, digits: 1999 } },
      deep: { list: [Buffer.from('x')] },
    }
    const stored: Record<string, unknown> = JSON.parse(JSON.stringify(cleanHeaders(headers)))
    expect(overTheWire(restoreHeaders(stored))).toEqual(headers)
  })

  it('drops what amqplib could not encode again', () => {
    const headers = {
      unknown: { '!': 'nonsense', value: 1 },
      early: { '!': 'timestamp', value: -1 },
      far: { '!': 'timestamp', value: 1e300 },
      cents: { '!': 'decimal', value: { places: 999, digits: 1 } },
      huge: -1e300,
      fraction: 2 ** 51 + 0.5,
      infinite: Number.POSITIVE_INFINITY,
      nan: Number.NaN,
    }
    expect(cleanHeaders(headers)).toEqual({})
  })

  it('stays below 8 KiB and bounds the depth', () => {
    const big = Object.fromEntries(
      Array.from({ length: 50 }, (_, i) => [`h${i}`, 'x'.repeat(1000)]),
    )
    expect(JSON.stringify(cleanHeaders(big)).length).toBeLessThan(9_000)
    expect(Object.keys(cleanHeaders(big))).toHaveLength(8)
    let deep: unknown = 'end'
    for (let i = 0; i < 100; i++) deep = { deep }
    expect(JSON.stringify(cleanHeaders({ deep })).length).toBeLessThan(200)
  })

  const anyValue = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.string({ unit: 'binary', maxLength: 50 }),
      fc.integer(),
      fc.double(),
      fc.boolean(),
      fc.constant(null),
      fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes)),
      fc.record({ '!': fc.string({ maxLength: 9 }), value: fc.anything() }),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.string({ unit: 'binary', maxLength: 30 }), tie('value'), { maxKeys: 4 }),
    ),
  })).value

  const anyHeaders = fc.dictionary(fc.string({ unit: 'binary', maxLength: 300 }), anyValue)

  it('returns headers that can be stored as JSON, encoded again, and cleaned again without a change', () => {
    fc.assert(
      fc.property(anyHeaders, (headers) => {
        const clean = cleanHeaders(headers)
        const stored: Record<string, unknown> = JSON.parse(JSON.stringify(clean))
        expect(JSON.stringify(stored).length).toBeLessThan(10_000)
        const received = overTheWire(restoreHeaders(stored))
        expect(cleanHeaders(received)).toEqual(JSON.parse(JSON.stringify(stored)))
      }),
    )
  })
})

describe('cleanText', () => {
  it('cuts between characters', () => {
    expect(cleanText('ä'.repeat(600), 1023)).toBe('ä'.repeat(511))
    expect(cleanText('😀'.repeat(300), 1024)).toBe('😀'.repeat(256))
    expect(cleanText('a\u0000b\u007fc\ud800d')).toBe('a b c d')
  })

  it('never grows beyond its limit, splits a character or leaves a control character', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.integer({ min: 0, max: 64 }), (text, max) => {
        const clean = cleanText(text, max)
        expect(Buffer.byteLength(clean)).toBeLessThanOrEqual(max)
        expect(clean).not.toMatch(/[\p{Cc}\p{Cs}\ufffd]/u)
      }),
      { examples: [['\ud83d\ude00', 3]] },
    )
  })
})

describe('factsOf', () => {
  it('reads the id from the property, else from the body', () => {
    expect(factsOf(message('{"id":"b"}', { messageId: 'a' })).id).toBe('a')
    expect(factsOf(message('{"id":"b"}')).id).toBe('b')
    for (const body of ['', 'no json', '[]', 'null', '{"id":7}', '{"id":""}']) {
      expect(factsOf(message(body)).id).toBe('')
    }
  })

  it('reads the body behind a byte order mark', () => {
    const facts = factsOf(message('\ufeff{"id":"b","priority":-5,"x_ojs_generation":4}'))
    expect(facts).toMatchObject({ id: 'b', priority: -5, generation: 4 })
  })

  it.each([
    [undefined, 1],
    [3, 3],
    [3n, 3],
    ['4', 4],
    [{ '!': 'long', value: 5 }, 5],
    [2 ** 31 - 1, 2 ** 31 - 1],
    [2 ** 31, 1],
    [0, 1],
    [-1, 1],
    [1.5, 1],
    ['x', 1],
    [{}, 1],
    [null, 1],
    [Buffer.from('3'), 1],
  ])('reads attempt %o as %i', (header, attempt) => {
    expect(factsOf(message('{}', {}, { 'x-ojs-attempt': header })).attempt).toBe(attempt)
  })

  it('reads max attempts, or null when the header is missing', () => {
    expect(factsOf(message('{}', {}, { 'x-ojs-max-attempts': 5 })).maxAttempts).toBe(5)
    expect(factsOf(message('{}', {}, { 'x-ojs-max-attempts': 0 })).maxAttempts).toBe(0)
    expect(factsOf(message('{}')).maxAttempts).toBe(null)
  })

  it.each([
    ['{"id":"a"}', 0],
    ['{"id":"a","x_ojs_generation":4}', 4],
    ['{"x_ojs_generation": 5, "id": "a"}', 5],
    ['{"args":[{"x_ojs_generation":6}]}', 0],
    ['{"args":["\\"x_ojs_generation\\":7}"]}', 0],
    ['{"x_ojs_generation":-1}', 0],
    ['{"x_ojs_generation":1,"x_ojs_generation":2}', 2],
    ['"x_ojs_generation"', 0],
  ])('reads the generation of %s as %i', (body, generation) => {
    expect(factsOf(message(body)).generation).toBe(generation)
  })

  it.each([
    ['in the middle the property is exact', 5, '{"priority":-3}', 5],
    ['below 0', 0, '{"id":"a","priority":-10}', -10],
    ['above 9', 9, '{"priority": 50}', 50],
    ['exactly 0', 0, '{"priority":0}', 0],
    ['exactly 9', 9, '{"priority":9}', 9],
    ['only in args', 0, '{"args":[{"priority":-5}]}', 0],
    ['in args and at the top', 9, '{"args":[{"priority":99}],"priority":9}', 9],
    ['no property, but a member', undefined, '{"priority":4}', 4],
    ['no property, no member', undefined, '{}', 0],
    ['no usable body', 0, '{"priority":-1', 0],
  ])('reads the priority: %s', (_what, priority, body, expected) => {
    expect(factsOf(message(body, { priority })).priority).toBe(expected)
  })

  it('parses the body only a few times, however many members are called priority', () => {
    const args = Array.from({ length: 50_000 }, () => ({ priority: 0 }))
    const body = JSON.stringify({ args, priority: -7 })
    const before = performance.now()
    expect(factsOf(message(body, { priority: 0 })).priority).toBe(-7)
    // It would take minutes to parse the body once for each of them.
    expect(performance.now() - before).toBeLessThan(10_000)
  })

  it('survives any body and any header', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.anything(), fc.anything(), (body, a, b) => {
        const facts = factsOf(message(body, { messageId: a, priority: b }, { 'x-ojs-attempt': a }))
        expect(facts.attempt).toBeGreaterThanOrEqual(1)
        expect(Number.isFinite(facts.priority) || typeof b === 'number').toBe(true)
      }),
    )
  })
})

describe('carryOf', () => {
  it('takes over what seed 002 §6 maps, and other headers and properties as they are', () => {
    const headers = {
      'x-ojs-trace-id': TRACE,
      'x-ojs-trace-state': 'v=1',
      'x-ojs-idempotency-key': 'k',
      'x-ojs-scheduled-at': '2026-01-01T00:00:00Z',
      'x-ojs-tags': 'a,b',
      'x-ojs-attempt': 2,
      tenant: 'blue',
    }
    const properties = { correlationId: 'c', appId: 'legacy', replyTo: 'r', userId: 'guest' }
    expect(carryOf(foreignMessage(message('{}', properties, headers)))).toEqual({
      traceparent: TRACE,
      tracestate: 'v=1',
      correlationId: 'c',
      idempotencyKey: 'k',
      scheduledAt: '2026-01-01T00:00:00Z',
      tags: ['a', 'b'],
      headers: { tenant: 'blue' },
      properties: { appId: 'legacy', replyTo: 'r' },
    })
    expect(carryOf(foreignMessage(message('{}', { appId: 'ojs' })))).toEqual({})
  })

  it('drops a direct reply-to address, which dies with its channel', () => {
    const replyTo = 'amq.rabbitmq.reply-to.g1h2'
    expect(carryOf(foreignMessage(message('{}', { replyTo })))).toEqual({})
  })

  it('returns the carry that its job message was made of', () => {
    const carry: Carry = {
      traceparent: TRACE,
      correlationId: 'c',
      tags: ['a'],
      headers: { tenant: 'blue', blob: { '!': 'bytes', value: 'AAE=' }, n: 7 },
      properties: { appId: 'legacy', replyTo: 'r' },
    }
    const { content, options } = jobMessageOf(row({ carry }))
    const headers = overTheWire(options.headers)
    expect(carryOf(foreignMessage(message(content, { ...options, headers })))).toEqual(carry)
  })
})

describe('foreignMessage', () => {
  it('leaves out properties that are missing or of a wrong type', () => {
    const foreign = foreignMessage(message('x', { messageId: 'a', type: 7, timestamp: 5 }))
    expect(foreign.properties).toEqual({ messageId: 'a', timestamp: 5 })
  })
})
