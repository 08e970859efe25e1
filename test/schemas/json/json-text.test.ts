import fc from 'fast-check'
import { describe, expect, it, test, vi } from 'vitest'
import { OjsError } from '../../../src/errors.ts'
import { JSON_LIMITS, parseJsonObject } from '../../../src/schemas/json/json-text.ts'

const parse = (text: string | Buffer) => parseJsonObject(Buffer.from(text as string))

function refusal(text: string | Buffer): OjsError {
  try {
    parse(text)
  } catch (error) {
    if (error instanceof OjsError) return error
    throw error
  }
  throw new Error(`accepted: ${text}`)
}

const fieldOf = (text: string) => refusal(text).details?.['field']

it.each([
  ['{"a":"b"}', 72 + 2 * 48],
  ['{"a":[1,-2]}', 2 * 72 + 48 + 2 * 16],
])('the memory of %s beside its text is known before it is parsed', (text, bytes) => {
  const afford = vi.fn()
  parseJsonObject(Buffer.from(text), JSON_LIMITS, afford)
  expect(afford).toHaveBeenCalledWith(bytes)
})

describe('a number that JavaScript would change', () => {
  test.each([
    ['a large integer', '{"a":12345678901234567890}', 'a'],
    ['a negative integer', '{"a":-9007199254740993}', 'a'],
    ['an integer that rounds to a safe one', '{"a":9007199254740993}', 'a'],
    ['17 digits', '{"a":12345678901234567}', 'a'],
    ['400 digits', `{"a":${'9'.repeat(400)}}`, 'a'],
    ['overflow by the exponent', '{"a":1e309}', 'a'],
    ['underflow by the exponent', '{"a":1e-400}', 'a'],
    ['underflow, negative', '{"a":-12.5E-340}', 'a'],
    ['underflow of a fraction', `{"a":0.${'0'.repeat(400)}1}`, 'a'],
    ['a fraction of 19 digits', '{"a":0.1234567890123456789}', 'a'],
    ['a fraction of 18 digits', '{"a":12345678901234567.5}', 'a'],
    ['19 digits with an exponent', '{"a":-1.234567890123456789E+5}', 'a'],
    ['a fraction of 400 digits', `{"a":0.${'1'.repeat(400)}}`, 'a'],
    ['a price with 20 digits', '{"a":1234567890123456.7891}', 'a'],
    ['overflow, negative', '{"a":-1E+400}', 'a'],
    ['overflow of a fraction', `{"a":${'9'.repeat(400)}.5}`, 'a'],
    ['overflow with a short exponent', `{"a":${'9'.repeat(300)}e99}`, 'a'],
    [
      'inside arrays and objects',
      '{"args":[0,"x",[1,{"n":1},{"n":99999999999999999}]]}',
      'args[2][2].n',
    ],
    [
      'behind strings with brackets',
      '{"a]":["[{,\\"","}"],"b\\u0020\\"":[1,1e999]}',
      'b\\u0020\\"[1]',
    ],
    ['behind a closed object', '{"a":{"b":1},"c":1e999}', 'c'],
    ['the first of several', '{"a":[1,1e999],"b":1e999}', 'a[1]'],
    ['behind a byte order mark', '\ufeff{"a":1e999}', 'a'],
    ['with spaces', '{ "a" : [ 1 , 1e999 ] }', 'a[1]'],
    ['as the whole document', '99999999999999999', 'body'],
    ['in an array as the whole document', '[1e999]', '[0]'],
  ])('is refused with its path: %s', (_name, text, field) => {
    const error = refusal(text)
    expect(error).toMatchObject({ code: 'invalid_request', status: 400 })
    expect(error.details).toMatchObject({ field, reason: 'unsafe_number' })
    expect(error.message).toContain(field)
  })

  test.each([
    '9007199254740991',
    '-9007199254740991',
    '1000000000000000',
    '1600000000000000000',
    '9007199254740992',
    '-9007199254740992',
    '0.1',
    '0.30000000000000004',
    '12345678901234567e-3',
    '1e22',
    '1.7976931348623157e308',
    '5e-324',
    '4.9406564584124654e-324',
    '2.2250738585072014e-308',
    '-0',
    '-0.0e-500',
    `0.${'0'.repeat(400)}`,
    // Zeros that say nothing.
    '0.1000000000000000000000000',
    '100000000000000000000.00',
    // The digits of the double itself, as `%.20g`, .NET's `R` of old or Python's Decimal(0.1) print them.
    '0.10000000000000000555',
    '3.1415926535897931160',
    '0.1000000000000000055511151231257827021181583404541015625',
    // Older Javas print a digit that is not the nearest one.
    '5.684341886080801E-14',
    '2.0E-3',
    `1${'0'.repeat(299)}e8`,
  ])('is not %s, which is kept as a double', (number) => {
    expect(parse(`{"a":${number}}`)).toEqual({ a: Number(number) })
  })

  test('does not count in strings and names', () => {
    const text = '{"99999999999999999":"1e999 99999999999999999 \\" 99999999999999999"}'
    expect(parse(text)).toEqual(JSON.parse(text))
  })

  test('is shortened in the error', () => {
    expect(refusal(`{"a":${'9'.repeat(1000)}}`).details?.['received']).toBe('9'.repeat(40))
  })
})

describe('the depth of a document', () => {
  const arrays = (depth: number) => `{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`
  const objects = (depth: number) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`

  test('may be 32 levels, but not 33', () => {
    for (const nest of [arrays, objects]) {
      expect(parse(nest(32))).toEqual(JSON.parse(nest(32)))
      expect(refusal(nest(33))).toMatchObject({
        code: 'invalid_request',
        details: { max_depth: 32 },
      })
    }
    expect(fieldOf(objects(33))).toBe(Array(32).fill('a').join('.'))
  })

  test('does not grow with the width', () => {
    const text = `{"a":[${'[[]],'.repeat(10_000)}[]],"b":{}}`
    expect(parse(text)).toEqual(JSON.parse(text))
  })

  test('does not count brackets in strings', () => {
    const text = `{"a":"${'[{'.repeat(100)}\\"${'['.repeat(100)}"}`
    expect(parse(text)).toEqual(JSON.parse(text))
  })

  test('of a million brackets is refused without parsing', () => {
    expect(refusal(`{"a":${'['.repeat(1_000_000)}`).code).toBe('invalid_request')
  })

  test('is limited by the caller', () => {
    expect(() => parseJsonObject(Buffer.from('{"a":[]}'), { maxDepth: 1 })).toThrow(/1 levels/)
  })
})

describe('a text that is not a JSON object', () => {
  test.each([
    '',
    '\ufeff',
    ' ',
    '{',
    '}',
    ']',
    '{]',
    '"',
    '"\\',
    '{"a":1-2}',
    "{'a':1}",
    '{a:1}',
    '-',
    '{"a":01}',
    '{"a":1e999',
    '{"a":99999999999999999',
  ])('%j is refused as invalid_payload', (text) => {
    expect(refusal(text)).toMatchObject({ code: 'invalid_payload', status: 400, retryable: false })
  })

  test.each(['1', 'null', 'true', '"x"', '[]', '[{}]'])(
    '%s is refused as invalid_request',
    (text) => {
      expect(refusal(text)).toMatchObject({ code: 'invalid_request', details: { field: 'body' } })
    },
  )

  test.each([
    ['a stray byte', [0x7b, 0xff, 0x7d]],
    ['an overlong encoding', [0x22, 0xc0, 0xaf, 0x22]],
    ['a cut sequence', [0x7b, 0x22, 0xc3]],
    ['UTF-16', [0xff, 0xfe, 0x7b, 0x00]],
  ])('%s is refused as invalid_payload', (_name, bytes) => {
    expect(refusal(Buffer.from(bytes)).code).toBe('invalid_payload')
  })

  test('has the cause in the log, and not in the answer', () => {
    const error = refusal('{"a":secret}')
    expect(error.cause).toBeInstanceOf(SyntaxError)
    expect(error.message).not.toContain('secret')
  })
})

test('with __proto__ gets an own member, and no prototype changes', () => {
  const value = parse('{"__proto__":{"queue":"x","toString":1},"a":{"__proto__":[1]}}')
  expect(Object.keys(value)).toEqual(['__proto__', 'a'])
  expect(value['queue']).toBeUndefined()
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
  expect(JSON.stringify({ ...value })).toContain('"__proto__":{"queue":"x"')
  expect(({} as { queue?: string }).queue).toBeUndefined()
})

describe('any text', () => {
  const isExact = (value: unknown): boolean =>
    typeof value !== 'number' || !Number.isInteger(value) || Math.abs(value) < 2 ** 53

  test('of JSON.stringify is read like by JSON.parse', () => {
    const member = fc.jsonValue({ maxDepth: 8 }).filter((value) => {
      let exact = true
      JSON.stringify(value, (_key, inner) => {
        exact &&= isExact(inner)
        return inner
      })
      return exact
    })
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), member),
        fc.constantFrom(undefined, 1),
        (value, space) => {
          const text = JSON.stringify(value, null, space)
          expect(parse(text)).toEqual(JSON.parse(text))
        },
      ),
    )
  })

  test('with an integer keeps it exactly or is refused', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }), (integer) => {
        const text = `{"n":${integer}}`
        // Some beyond 2^53 are written with the same digits: -167808970241020380.
        const isKept = String(Number(integer)) === String(integer)
        if (isKept) expect(parse(text)).toEqual({ n: Number(integer) })
        else expect(fieldOf(text)).toBe('n')
      }),
    )
  })

  test('with a double is kept, in whichever of the usual notations it is written', () => {
    const double = fc.double({ noNaN: true, noDefaultInfinity: true })
    fc.assert(
      fc.property(double, fc.integer({ min: 17, max: 60 }), (value, digits) => {
        const texts = [value.toExponential(), value.toPrecision(digits), String(value)]
        for (const text of texts.filter((each) => /[.e]/.test(each))) {
          expect(parse(`{"n":${text}}`)).toEqual({ n: Number(text) })
        }
      }),
      { numRuns: 1_000 },
    )
  })

  test('with a decimal of more digits than a double has is refused', () => {
    const digits = fc.stringMatching(/^[1-9][0-9]{20}[1-9]$/)
    fc.assert(
      fc.property(digits, fc.integer({ min: -300, max: 300 }), (text, exponent) => {
        expect(fieldOf(`{"n":0.${text}e${exponent}}`)).toBe('n')
      }),
    )
  })

  test('becomes the object that JSON.parse gives, or an OjsError 400', () => {
    const soup = fc.string({ unit: fc.constantFrom(...'{}[]",:\\-+.eE019 \u00e4') })
    fc.assert(
      fc.property(
        fc.oneof(
          soup,
          soup.map((text) => `{"a":${text}`),
        ),
        (text) => {
          try {
            expect(parse(text)).toEqual(JSON.parse(text))
          } catch (error) {
            expect(error).toBeInstanceOf(OjsError)
            expect(error).toMatchObject({ status: 400 })
          }
        },
      ),
      { numRuns: 2_000 },
    )
  })
})
