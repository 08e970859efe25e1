import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  canonicalJson,
  fingerprint,
  normal,
  sha256,
} from '../../../src/job/values/canonical-json.ts'

const json = fc.jsonValue()

/** The same value with the members of every object in another order. */
function shuffled(value: unknown, random: () => number): unknown {
  if (Array.isArray(value)) return value.map((item) => shuffled(item, random))
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).map(([name, member]) => [name, shuffled(member, random)])
  const drawn = members.map((member) => ({ member, at: random() })).sort((a, b) => a.at - b.at)
  return Object.fromEntries(drawn.map(({ member }) => member))
}

describe('canonical JSON', () => {
  it.each([
    // RFC 8785 §3.2.3, and those numbers of §3.2.2.3 that JSON.parse can make.
    [
      '{"\\u20ac":"Euro","\\r":"CR","\\uff01":"Bang","1":"One","\\ud83d\\ude00":"Emoji","\\u0080":"Control","\\u00f6":"o"}',
      '{"\\r":"CR","1":"One","\u0080":"Control","ö":"o","€":"Euro","😀":"Emoji","！":"Bang"}',
    ],
    [
      '[333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001]',
      '[333333333.3333333,1e+30,4.5,0.002,1e-27]',
    ],
    [
      '[-0, 1.0, true, null, "\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/"]',
      '[0,1,true,null,"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"]',
    ],
    ['{"b":{"d":1,"c":[ ]},"a":{}}', '{"a":{},"b":{"c":[],"d":1}}'],
    ['{"__proto__":{"x":1}}', '{"__proto__":{"x":1}}'],
  ])('writes the canonical form of %s', (text, canonical) => {
    expect(canonicalJson(JSON.parse(text))).toBe(canonical)
  })

  it('does not depend on the order of members or on spaces', () => {
    fc.assert(
      fc.property(
        json,
        fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })),
        (value, stream) => {
          const random = () => stream.next().value
          const other = JSON.parse(JSON.stringify(shuffled(value, random), null, 3))
          expect(canonicalJson(other)).toBe(canonicalJson(value))
        },
      ),
    )
  })

  it('parses to the same value, and differs exactly when the values differ', () => {
    const ascii = fc.jsonValue({ stringUnit: 'grapheme-ascii' })
    fc.assert(
      fc.property(ascii, ascii, (a, b) => {
        const [plainA, plainB] = [a, b].map((value) => JSON.parse(JSON.stringify(value)))
        expect(JSON.parse(canonicalJson(a))).toEqual(plainA)
        const isSame = canonicalJson(plainA) === canonicalJson(plainB)
        expect(isSame).toBe(JSON.stringify(inOrder(plainA)) === JSON.stringify(inOrder(plainB)))
      }),
    )
  })

  it('is the same for texts and names in every Unicode normal form', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme-composite' }),
        fc.constantFrom('NFD', 'NFC'),
        (text, form) => {
          const other = text.normalize(form)
          expect(canonicalJson({ [other]: [other] })).toBe(canonicalJson({ [text]: [text] }))
        },
      ),
    )
    for (const text of ['\u00e9', '\u03ac', '\u1e69']) {
      expect(canonicalJson([text.normalize('NFD')])).toBe(canonicalJson([text]))
    }
    const both = { '\u00e9': 1, 'e\u0301': 2 }
    const turned = { 'e\u0301': 2, '\u00e9': 1 }
    expect(canonicalJson(turned)).toBe(canonicalJson(both))
  })

  it('orders names by their normal forms', () => {
    const names = { 'e\u0301': 1, ez: 2, f: 3 }
    expect(canonicalJson(names)).toBe('{"ez":2,"f":3,"\u00e9":1}')
  })

  it('normalises the order of combining marks, unless there are absurdly many', () => {
    const marked = (count: number, ...marks: string[]) =>
      `a${marks.map((mark) => mark.repeat(count / marks.length)).join('')}`
    const [below, above] = ['\u0316', '\u0301']
    expect(canonicalJson(marked(30, above, below))).toBe(canonicalJson(marked(30, below, above)))
    // ICU needs time by the square of their number: a second for these, a minute for ten times as many.
    const heaped = marked(30_000, above, below)
    expect(canonicalJson(heaped) === `"${heaped}"`).toBe(true)
    expect(canonicalJson({ [heaped]: 0 }) === `{"${heaped}":0}`).toBe(true)
  })

  it('normalises long texts with few combining marks', () => {
    expect(canonicalJson('e\u0301'.repeat(1_000))).toBe(`"${'é'.repeat(1_000)}"`)
    const [decomposed, composed] = ['\u1112\u1161\u11ab', '\ud55c']
    expect(canonicalJson(decomposed.repeat(1_000))).toBe(`"${composed.repeat(1_000)}"`)
  })

  it('refuses too deep nesting with a 400 error', () => {
    const deep = JSON.parse(`${'['.repeat(20_000)}${']'.repeat(20_000)}`)
    expect(() => canonicalJson(deep)).toThrow(expect.objectContaining({ status: 400 }))
    expect(canonicalJson(JSON.parse(`${'['.repeat(100)}${']'.repeat(100)}`))).toHaveLength(200)
  })

  it('refuses objects that take too long to sort with 413, also many smaller ones together', () => {
    const namesOf = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`m${i}`, 1]))
    const refusal = expect.objectContaining({
      status: 413,
      details: { reason: 'too_many_members' },
    })
    expect(() => canonicalJson(namesOf(300_000))).toThrow(refusal)
    const [large, small] = [namesOf(2_000), namesOf(1)]
    expect(() => canonicalJson(Array(300).fill(large))).toThrow(refusal)
    expect(canonicalJson(Array(100).fill(large))).toHaveLength(
      canonicalJson(large).length * 100 + 101,
    )
    expect(canonicalJson(Array(300_000).fill(small))).toHaveLength(300_000 * 9 + 1)
  })

  it('is fingerprinted with SHA-256', () => {
    const ofEmpty = '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'
    expect(printOf({}).value).toBe(ofEmpty)
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(printOf(value, normal).value).toBe(sha256(canonicalJson(value)))
      }),
    )
  })

  it('is fingerprinted with texts and names as they are', () => {
    const of = (value: unknown) => printOf(value).value
    for (const wrap of [(text: string) => [text], (text: string) => ({ [text]: 1, a: 2 })]) {
      const [composed, apart] = [wrap('\u00e9'), wrap('e\u0301')]
      expect(canonicalJson(composed)).toBe(canonicalJson(apart))
      expect(of(composed)).not.toBe(of(apart))
    }
    expect(of({ 'e\u0301': 1, z: 2 })).toBe(of({ z: 2, 'e\u0301': 1 }))
  })

  it('is fingerprinted in pieces that take a few milliseconds each', () => {
    const rows = Array.from({ length: 5_000 }, (_, id) => ({ id, tags: ['a', 'b'] }))
    expect(printOf(rows)).toEqual({ value: sha256(canonicalJson(rows)), pauses: 8 })
  })
})

function printOf(
  value: unknown,
  ...form: [((text: string) => string)?]
): { value: string; pauses: number } {
  const work = fingerprint(value, ...form)
  for (let pauses = 0; ; pauses++) {
    const step = work.next()
    if (step.done) return { value: step.value, pauses }
  }
}

/** Sorts the members by the standard library, to check the order of the canonical form. */
function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inOrder)
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, member]) => [name, inOrder(member)])
  // Wrapped, so that an empty object differs from an empty array.
  return { members }
}
