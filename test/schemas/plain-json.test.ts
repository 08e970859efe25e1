import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { plainCopy } from '../../src/schemas/plain-json.ts'

/** Deep enough for everything here. */
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

describe('a copy of plain data', () => {
  it('is what JSON would make of it', () => {
    const plain = { a: [1, 'b', true, null, 1.5, 1e-7, { '': {} }], 2: [], constructor: 'c' }
    expect(plainCopy(plain, DEPTH)).toStrictEqual(byText(plain))
  })

  it('leaves out what is undefined', () => {
    expect(plainCopy({ a: undefined, b: 1 }, DEPTH)).toStrictEqual({ b: 1 })
  })

  it('shares nothing with it', () => {
    const inner = { a: 1 }
    const copy = plainCopy([inner], DEPTH)
    inner.a = 2
    expect(copy).toStrictEqual([{ a: 1 }])
  })

  it('is made for nearly all of it, and is never anything else', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        const copy = plainCopy(value, DEPTH)
        if (copy !== undefined) expect(copy).toStrictEqual(byText(value))
        else expect(JSON.stringify(value)).toMatch(/__proto__|\d{16}|e\+|-0|\b0\b/)
      }),
      { numRuns: 2_000 },
    )
  })

  it('is never anything else for whatever else there is either', () => {
    const anything = fc.anything({ withDate: true, withMap: true, withSparseArray: true })
    fc.assert(
      fc.property(anything, (value) => {
        const copy = plainCopy(value, DEPTH)
        if (copy !== undefined) expect(copy).toStrictEqual(byText(value))
      }),
      { numRuns: 2_000 },
    )
  })

  it('goes as deep as it may, and no deeper', () => {
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
  ['without a prototype', Object.create(null)],
  ['a string in a box', Object('a')],
  ['a list that is more than one', Object.setPrototypeOf([], Point.prototype)],
  ['with a toJSON', { toJSON: () => 1 }],
  ['a list with a toJSON', Object.assign([], { toJSON: () => 1 })],
  ['undefined in a list', [undefined]],
  ['a hole', new Array(1)],
  ['a function', { a: () => 1 }],
  ['a symbol', { a: Symbol('a') }],
  ['a bigint', { a: 1n }],
  ['NaN', Number.NaN],
  ['infinite', -Infinity],
  ['-0', -0],
  ['more than 2^53', 2 ** 53],
  ['a member __proto__', JSON.parse('{"__proto__":1}')],
])('leaves the long way what is not plain: %s', (_what, value) => {
  expect(plainCopy(value, DEPTH)).toBeUndefined()
  expect(plainCopy({ in: [value] }, DEPTH)).toBeUndefined()
})
