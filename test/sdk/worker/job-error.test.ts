import { describe, expect, it } from 'vitest'
import { jobErrorOf } from '../../../src/sdk/worker/job-error.ts'

class PaymentError extends Error {
  override name = 'PaymentError'
  readonly retryable = false
  readonly code = 'card_declined'
  readonly details = { card: '4242', amount: 10n, at: new Date(0) }
}

const LIMITED = new RangeError('limit', { cause: new TypeError('no number') })

describe('jobErrorOf', () => {
  it('keeps class, message, stack, code, details and cause of an error', () => {
    const error = jobErrorOf(new PaymentError('declined', { cause: LIMITED }))
    expect(error).toEqual({
      code: 'handler_error',
      type: 'PaymentError',
      message: 'declined',
      retryable: false,
      details: {
        card: '4242',
        amount: '10',
        at: '1970-01-01T00:00:00.000Z',
        code: 'card_declined',
        cause: {
          type: 'RangeError',
          message: 'limit',
          cause: { type: 'TypeError', message: 'no number' },
        },
        stack: expect.stringContaining('declined'),
      },
    })
  })

  it('keeps the errors of an AggregateError, and takes the message of the first if it has none', () => {
    const refused = ['::1', '127.0.0.1'].map((host) => new Error(`connect ECONNREFUSED ${host}:1`))
    // Node.js throws this for a closed port of `localhost`.
    const error = jobErrorOf(Object.assign(new AggregateError(refused), { code: 'ECONNREFUSED' }))
    expect(error).toMatchObject({
      type: 'AggregateError',
      message: 'connect ECONNREFUSED ::1:1',
      details: {
        code: 'ECONNREFUSED',
        errors: [
          { type: 'Error', message: 'connect ECONNREFUSED ::1:1' },
          { type: 'Error', message: 'connect ECONNREFUSED 127.0.0.1:1' },
        ],
      },
    })
    expect(jobErrorOf(new AggregateError(refused, 'all')).message).toBe('all')
    expect(jobErrorOf(new AggregateError([])).message).toBe('AggregateError without a message.')
  })

  class Declined extends Error {}
  const unnamed = new Error('x')
  unnamed.name = ''
  const revoked = Proxy.revocable({}, {})
  revoked.revoke()
  it.each<[string, unknown, string, string | undefined]>([
    ['undefined', undefined, 'undefined was thrown.', undefined],
    ['null', null, 'null was thrown.', undefined],
    ['a text', 'boom', 'boom', undefined],
    ['an empty text', '', 'An empty string was thrown.', undefined],
    ['a number', 42, '42 was thrown.', undefined],
    ['a bigint', 42n, '42 was thrown.', undefined],
    ['a symbol', Symbol('s'), 'Symbol(s) was thrown.', undefined],
    ['a function', () => 1, '() => 1 was thrown.', undefined],
    ['an object', { a: 1 }, '{"a":1} was thrown.', 'Object'],
    ['an object like an error', { name: 'Odd', message: 'm' }, 'm', 'Odd'],
    ['an object without a prototype', Object.create(null), '{} was thrown.', 'Error'],
    ['an array', [1, 2], '[1,2] was thrown.', 'Array'],
    ['an error without message', new TypeError(), 'TypeError without a message.', 'TypeError'],
    ['an error without name', unnamed, 'x', 'Error'],
    ['an error of a class below Error', new Declined('d'), 'd', 'Declined'],
    ['an error of a class below TypeError', new (class Odd extends TypeError {})('o'), 'o', 'Odd'],
    ['an error that was given a name', Object.assign(new Declined('d'), { name: 'N' }), 'd', 'N'],
    [
      'an error whose class gives it a name',
      new DOMException('a', 'AbortError'),
      'a',
      'AbortError',
    ],
    ['an error of a class without a name', new (class extends Error {})('c'), 'c', 'Error'],
    ['a frozen error', Object.freeze(new Error('frozen')), 'frozen', 'Error'],
    ['a revoked proxy', revoked.proxy, 'The thrown value cannot be read.', undefined],
    [
      'an error whose message throws',
      Object.defineProperty(new Error(), 'message', {
        get() {
          throw new Error('no')
        },
      }),
      'The thrown value cannot be read.',
      undefined,
    ],
  ])('describes %s', (_name, thrown, message, type) => {
    const error = jobErrorOf(thrown)
    expect(error).toMatchObject({ code: 'handler_error', message, retryable: true })
    expect(error.type).toBe(type)
    expect(JSON.parse(JSON.stringify(error))).toMatchObject({ message })
  })

  it('converts details that JSON cannot hold', () => {
    const details: Record<string, unknown> = {
      big: 1n,
      not: Number.NaN,
      fn: () => 1,
      symbol: Symbol('s'),
      list: [undefined, new Map([[1, 2]])],
      deep: { a: { b: { c: { d: { e: { f: { g: 1 } } } } } } },
      get broken() {
        throw new Error('no')
      },
      ['__proto__']: 'own',
      toxic: {
        toJSON() {
          throw new Error('no')
        },
      },
    }
    details['self'] = details
    details['twice'] = [details['list'], details['list']]
    const error = jobErrorOf(Object.assign(new Error('x'), { details }))
    const sent = JSON.parse(JSON.stringify(error)).details
    expect(sent).toMatchObject({
      big: '1',
      not: 'NaN',
      fn: '[function]',
      symbol: '[symbol]',
      list: [null, {}],
      deep: { a: { b: { c: { d: { e: '[too deep]' } } } } },
      broken: '[unreadable]',
      toxic: '[unreadable]',
      self: '[circular]',
      twice: [
        [null, {}],
        [null, {}],
      ],
    })
  })

  it.each(['stack', 'details', 'code', 'cause'])(
    'keeps the rest of an error whose %s throws when read',
    (name) => {
      const thrown = Object.assign(new TypeError('declined'), { retryable: false })
      Object.defineProperty(thrown, name, {
        get() {
          throw new Error('no')
        },
      })
      const rest = { type: 'TypeError', message: 'declined', retryable: false }
      expect(jobErrorOf(thrown)).toMatchObject(rest)
    },
  )

  it('keeps the rest of an AggregateError whose errors throw when read', () => {
    const thrown = new AggregateError([], 'all of them')
    Object.defineProperty(thrown, 'errors', { get: () => expect.unreachable() })
    expect(jobErrorOf(thrown)).toMatchObject({ type: 'AggregateError', message: 'all of them' })
  })

  it('replaces bytes in details by their number, without reading them', () => {
    const bytes = [
      Buffer.alloc(3),
      new Uint8Array(4),
      new Float64Array(1),
      new DataView(new ArrayBuffer(2)),
    ]
    for (const each of bytes) {
      Object.defineProperty(each, 'toJSON', { value: () => expect.unreachable() })
    }
    const details = { bytes, body: new Uint8Array(10_000_000) }
    expect(jobErrorOf(Object.assign(new Error('x'), { details })).details).toMatchObject({
      bytes: ['[3 bytes]', '[4 bytes]', '[8 bytes]', '[2 bytes]'],
      body: '[10000000 bytes]',
    })
  })

  it('limits the size to 64 KiB', () => {
    const details = {
      text: 'ä'.repeat(1_000_000),
      list: Array.from({ length: 100_000 }, (_, i) => ({ i })),
      wide: Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`k${i}`, 'x'.repeat(99)])),
    }
    const error = Object.assign(new Error('m'.repeat(1_000_000)), { details })
    error.stack = 's'.repeat(1_000_000)
    const size = Buffer.byteLength(JSON.stringify(jobErrorOf(error)))
    expect(size).toBeLessThan(64 * 1024)
    expect(size).toBeGreaterThan(16 * 1024)
  })

  it('cuts a long message without splitting a surrogate pair', () => {
    const { message } = jobErrorOf(new Error(`x${'😀'.repeat(10_000)}`))
    expect(message.length).toBeGreaterThan(8_000)
    expect(encodeURIComponent(message)).toBeTypeOf('string')
  })

  it('copies details: later changes of the thrown error do not show', () => {
    const details = { list: [1] }
    const error = jobErrorOf(Object.assign(new Error('x'), { details }))
    details.list.push(2)
    expect(error.details).toMatchObject({ list: [1] })
  })
})
