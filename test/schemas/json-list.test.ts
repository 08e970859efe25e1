import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { OjsError } from '../../src/errors.ts'
import { memberTexts, parseJsonList, Unreadable } from '../../src/schemas/json-list.ts'
import { parseJsonObject } from '../../src/schemas/json-text.ts'

const LIST = { name: 'events', maxItems: 5, item: { maxDepth: 4 } }
const read = (text: string | Buffer) => parseJsonList(Buffer.from(text as string), LIST)
const BAD: unknown = expect.any(Unreadable)
const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`

describe('a list of which one item is bad', () => {
  test.each([
    ['too deep', `{"a":${nested(4)}}`],
    ['too deep for a stack', `{"a":${nested(300_000)}}`],
    ['with a number that is not exact', '{"a":9007199254740993}'],
    ['with a number that is none', '{"a":NaN}'],
    ['with a comma too many', '{"a":1,}'],
    ['empty', ''],
    ['with the name of the list', '{"events":[1,2,[NaN]]}'],
    ['with brackets in a text', '{"]}":"[,{","n":-Infinity}'],
  ])('keeps the others: %s', (_name, bad) => {
    const good = ['{"n":1}', ` {"n":[2,{"deep":[","]}]} `]
    const text = `{"w":"events","events":[${[good[0], bad, good[1]].join(',')}] , "b":[{"c":1}]}`
    expect(read(text)).toEqual({
      w: 'events',
      events: [{ n: 1 }, BAD, { n: [2, { deep: [','] }] }],
      b: [{ c: 1 }],
    })
  })

  test('keeps the others: bytes that are no UTF-8', () => {
    const text = Buffer.from('{"events":[{"n":"?"},{"n":"ü"}]}')
    text[text.indexOf('?')] = 0xff
    expect(read(text)).toEqual({ events: [BAD, { n: 'ü' }] })
  })

  test('takes the last list of that name, as JSON does', () => {
    expect(read('{"events":[{"n":1}],"events":[{"n":2},{"n":NaN}]}')).toEqual({
      events: [{ n: 2 }, BAD],
    })
  })
})

test('as deep as an item may be', () => {
  expect(read(`{"events":[{"a":${nested(3)}}]}`)).toEqual({ events: [{ a: [[[]]] }] })
})

test.each([
  ['the frame is bad', '{"w":NaN,"events":[{}]}'],
  ['the frame is too deep', `{"w":${nested(7)},"events":[{}]}`],
  ['there is no list', '{"w":NaN}'],
  ['it does not end', '{"events":[{"a":"}]}'],
  ['it has too many items', '{"events":[NaN,1,1,1,1,1]}'],
  ['it is deeper in', '{"a":{"events":[NaN]}}'],
  ['it is no document', '[NaN]'],
  ['it is empty', ''],
])('is refused as a whole where %s', (_name, text) => {
  expect(() => read(text)).toThrow(OjsError)
})

test('reads what is well as any other document', () => {
  fc.assert(
    fc.property(fc.array(fc.dictionary(fc.string(), fc.string())), fc.string(), (events, w) => {
      const bytes = Buffer.from(JSON.stringify({ w, events, z: [events] }))
      expect(parseJsonList(bytes, LIST)).toEqual(parseJsonObject(bytes))
    }),
  )
})

/** The slow way finds what the quick one would have. */
test('with one bad item more is the same but for that', () => {
  const items = fc.array(
    fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.array(fc.integer()))),
    {
      maxLength: 4,
    },
  )
  fc.assert(
    fc.property(items, fc.nat(4), (events, at) => {
      const texts = events.map((event) => JSON.stringify(event))
      const place = Math.min(at, texts.length)
      texts.splice(place, 0, '{"n":NaN}')
      const expected: unknown[] = JSON.parse(JSON.stringify(events))
      expected.splice(place, 0, BAD)
      expect(read(`{"events":[${texts}]}`)).toEqual({ events: expected })
    }),
  )
})

describe('the texts of the members', () => {
  test.each<[string, Record<string, string>]>([
    [
      ' { "a" : "x,}" ,"b":[1,{"c":2},NaN], "d": {"a":3}}',
      { a: '"x,}"', b: '[1,{"c":2},NaN]', d: '{"a":3}' },
    ],
    ['{"a":1,"a":2}', { a: '2' }],
    ['{"a":"b","c":-Infinity}', { a: '"b"', c: '-Infinity' }],
    ['{}', {}],
    ['', {}],
    ['{"a":1,', { a: '1' }],
    ['{"a"}', {}],
    ['{,:"a"}', {}],
    ['{1:2,"a":[}', {}],
  ])('%j', (text, expected) => {
    expect(Object.fromEntries(memberTexts(Buffer.from(text)))).toEqual(expected)
  })

  test('are found in whatever JSON writes', () => {
    const name = fc.string({ maxLength: 5 }).filter((key) => JSON.stringify(key) === `"${key}"`)
    fc.assert(
      fc.property(fc.dictionary(name, fc.jsonValue()), fc.nat(2), (object, spaces) => {
        const texts = memberTexts(Buffer.from(JSON.stringify(object, null, spaces)))
        const found = [...texts].map(([key, text]) => [
          Buffer.from(key, 'latin1').toString(),
          JSON.parse(Buffer.from(text, 'latin1').toString()),
        ])
        expect(Object.fromEntries(found)).toEqual(JSON.parse(JSON.stringify(object)))
      }),
    )
  })
})
