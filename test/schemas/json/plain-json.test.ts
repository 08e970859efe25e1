import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { plainCopy } from '../../../src/schemas/json/plain-json.ts'

/** Deep enough for all values here. */
const DEPTH = 32

function byText(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value))
}

class Point {
  x = 1
}

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(depthOf))
}

/** False where a JSON value has something that `JSON.stringify` or `parseJsonObject` may change. */
function isKept(value: unknown): boolean {
  if (typeof value === 'number') {
    return !Object.is(value, -0) && (Number.isSafeInteger(value) || !Number.isInteger(value))
  }
  if (typeof value !== 'object' || value === null) return true
  return Object.entries(value).every(([name, member]) => name !== '__proto__' && isKept(member))
}

describe('a copy of plain data', () => {
  it('is equal to what JSON.parse and JSON.stringify would make', () => {
    const plain = { a: [1, 'b', true, null, 1.5, 1e-7, { '': {} }], 2: [], constructor: 'c' }
    expect(plainCopy(plain, DEPTH)).toStrictEqual(byText(plain))
  })

  it('has no undefined members', () => {
    expect(plainCopy({ a: undefined, b: 1 }, DEPTH)).toStrictEqual({ b: 1 })
  })

  it('shares no object with the original', () => {
    const inner = { a: 1 }
    const copy = plainCopy([inner], DEPTH)
    inner.a = 2
    expect(copy).toStrictEqual([{ a: 1 }])
  })

  it('is made of every JSON value without -0, a large integer or __proto__, and is equal to it', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        const copy = plainCopy(value, DEPTH)
        if (isKept(value)) expect(copy).toStrictEqual(byText(value))
        else expect(copy).toBeUndefined()
      }),
      { numRuns: 2_000 },
    )
  })

  it('of any JavaScript value is equal to the JSON value, if it is made', () => {
    const anything = fc.anything({ withDate: true, withMap: true, withSparseArray: true })
    let copies = 0
    fc.assert(
      fc.property(anything, (value) => {
        const copy = plainCopy(value, DEPTH)
        if (copy === undefined) return
        copies += 1
        expect(copy).toStrictEqual(byText(value))
      }),
      { numRuns: 2_000 },
    )
    expect(copies).toBeGreaterThan(100)
  })

  it('is made up to the maximum depth', () => {
    const nested = { a: [{}] }
    expect(depthOf(nested)).toBe(3)
    expect(plainCopy(nested, 3)).toStrictEqual(nested)
    expect(plainCopy(nested, 2)).toBeUndefined()
  })
})

it.each([
  ['a date', new Date(0)],
  ['a map', new Map()],
  ['an instance', new Point()],
  ['an object without a prototype', Object.create(null)],
  ['a String object', Object('a')],
  ['an array with another prototype', Object.setPrototypeOf([], Point.prototype)],
  ['an object with a toJSON', { toJSON: () => 1 }],
  ['an array with a toJSON', Object.assign([], { toJSON: () => 1 })],
  ['undefined in an array', [undefined]],
  ['a sparse array', new Array(1)],
  ['a function', { a: () => 1 }],
  ['a symbol', { a: Symbol('a') }],
  ['a bigint', { a: 1n }],
  ['NaN', Number.NaN],
  ['-Infinity', -Infinity],
  ['-0', -0],
  ['an integer of 2^53', 2 ** 53],
  ['a member __proto__', JSON.parse('{"__proto__":1}')],
])('a copy of plain data is not made of what is not plain: %s', (_what, value) => {
  expect(plainCopy(value, DEPTH)).toBeUndefined()
  expect(plainCopy({ in: [value] }, DEPTH)).toBeUndefined()
})
