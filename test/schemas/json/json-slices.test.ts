import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OjsError } from '../../../src/errors.ts'
import { Scan, Spans } from '../../../src/schemas/json/json-scan.ts'
import { slicedValue } from '../../../src/schemas/json/json-slices.ts'
import {
  JSON_LIMITS,
  LIST_LIMITS,
  parseJsonInSlices,
  parseJsonObject,
  valueLimits,
} from '../../../src/schemas/json/json-text.ts'

function finish<T>(work: Generator<void, T>): { value: T; pauses: number } {
  for (let pauses = 0; ; pauses++) {
    const step = work.next()
    if (step.done) return { value: step.value, pauses }
  }
}

/** As `JSON.parse`, with everything of at least `minBytes` taken apart. */
function sliced(text: string, minBytes: number): unknown {
  const bytes = Buffer.from(text)
  const spans = new Spans(minBytes)
  new Scan(0, { maxDepth: 1_000 }, spans).go(bytes, bytes.length)
  return finish(slicedValue(bytes, 0, spans)).value
}

const outcomeOf = (parse: () => unknown) => {
  try {
    // The text shows the order of the members, and one called `__proto__`.
    return JSON.stringify(parse())
  } catch (error) {
    expect(error).toBeInstanceOf(SyntaxError)
    return 'no JSON'
  }
}

describe('a text that is parsed in slices', () => {
  const size = fc.integer({ min: 1, max: 20 })

  it('becomes the value that JSON.parse gives', () => {
    const space = fc.constantFrom(undefined, 1)
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 8 }), space, size, (value, indent, minBytes) => {
        const text = JSON.stringify(value, null, indent)
        expect(sliced(text, minBytes)).toEqual(JSON.parse(text))
      }),
      { numRuns: 300 },
    )
  })

  it('is refused if it is not JSON', () => {
    const piece = fc.constantFrom(
      ...['{', '}', '[', ']', ',', ':', '"a"', '"b":', '1', ' ', '\u00a0', '{"__proto__":[1]}'],
      ...['[1,2,3]', '{"a":1,"b":2}', '"]"', '"\\""', '\\', '\n', '[[],[]],', '"c":{"d":[1]},'],
    )
    const soup = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''))
    const text = fc.oneof(
      soup,
      soup.map((inner) => `[${inner}]`),
      soup.map((inner) => `{${inner}}`),
    )
    fc.assert(
      fc.property(text, size, (candidate, minBytes) => {
        const expected = outcomeOf(() => JSON.parse(candidate))
        expect(outcomeOf(() => sliced(candidate, minBytes))).toBe(expected)
      }),
      { numRuns: 2_000 },
    )
  })

  it.each([
    '["a",[1,2]x]',
    '{"a":1[1,2]}',
    '{"a"[1,2]}',
    '[[1,2],]',
    '[[1,2],3]4',
    '[1,2]\u00a0',
    '5[[1,2]]',
    '[1[2,3]]',
    '{"a":[1,2}]',
  ])('is refused if it is %s', (text) => {
    expect(outcomeOf(() => sliced(text, 1))).toBe('no JSON')
  })

  it('has the members of JSON.parse, in its order, also __proto__ and repeated names', () => {
    const text = '{"b":[1,2],"2":[3,4],"a":{"__proto__":[5,6]},"__proto__":[7,8],"b":[9,0]}'
    expect(outcomeOf(() => sliced(text, 3))).toBe(JSON.stringify(JSON.parse(text)))
    expect(Object.getPrototypeOf(sliced(text, 3))).toBe(Object.prototype)
  })

  it('has a pause at least every few milliseconds, and is refused like a small one', () => {
    const read = (text: string, limits = LIST_LIMITS) =>
      finish(parseJsonInSlices(Buffer.from(text), limits, () => {}))
    const large = `{"jobs":[${'{"a":[[],{}]},'.repeat(100_000)}{}]}`
    const { value, pauses } = read(large)
    expect(value).toEqual(JSON.parse(large))
    expect(pauses).toBeGreaterThan((2 * large.length) / 65_536 - 10)
    for (const text of [
      `${large}]`,
      large.slice(0, -1),
      `{"a":${large},"n":1e999}`,
      '[]',
      '\ufeff',
    ]) {
      const refusal = refusalOf(() => parseJsonObject(Buffer.from(text), LIST_LIMITS))
      const { code, details, message } = refusalOf(() => read(text).value)
      expect({ code, details, message }).toEqual({ ...refusal })
    }
  })
})

function refusalOf(parse: () => unknown) {
  try {
    parse()
  } catch (error) {
    if (error instanceof OjsError) {
      return { code: error.code, details: error.details, message: error.message }
    }
    throw error
  }
  throw new Error('accepted')
}

describe('the number of values', () => {
  const limits = valueLimits(JSON_LIMITS, 2 ** 21)
  const objects = (count: number) => `[${'{},'.repeat(count - 1)}{}]`
  const refusal = (text: string, of = limits) =>
    refusalOf(() => parseJsonObject(Buffer.from(text), of))

  it('is limited, so that 2 MiB of {} are refused, and of ordinary JSON are not', () => {
    const error = refusal(`{"args":${objects(700_000)}}`)
    expect(error).toMatchObject({
      code: 'invalid_request',
      details: { reason: 'too_many_values', field: expect.stringMatching(/^args\[233\d\d\d\]$/) },
    })
    const row = { id: 123456, name: 'customer 123456', amount: 1543.2, tags: ['a', 'b'] }
    const rows = JSON.stringify({ args: Array(29_120).fill(row) })
    expect(rows.length / 2 ** 21).toBeCloseTo(1, 2)
    expect(parseJsonObject(Buffer.from(rows), limits)).toBeDefined()
  })

  it('grows with the size that is allowed', () => {
    const text = Buffer.from(`{"args":${objects(300_000)}}`)
    expect(parseJsonObject(text, valueLimits(JSON_LIMITS, 2 ** 22))).toBeDefined()
  })
})
