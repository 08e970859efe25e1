import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { OjsError } from '../../../src/errors.ts'
import {
  memberTexts,
  parseJsonList,
  parseJsonListInSlices,
  Unreadable,
} from '../../../src/schemas/json/json-list.ts'
import { parseJsonObject } from '../../../src/schemas/json/json-text.ts'
import { inSlices } from '../../../src/slices.ts'

const LIST = { name: 'events', maxItems: 5, item: { maxDepth: 4 }, mayBeBroken: true }
const read = (text: string | Buffer) => parseJsonList(Buffer.from(text as string), LIST)
const BAD: unknown = expect.any(Unreadable)
const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`

describe('a list with a bad item', () => {
  test.each([
    ['one that is too deep', `{"a":${nested(4)}}`],
    ['one that is too deep for the stack', `{"a":${nested(300_000)}}`],
    ['one with a number that is not exact', '{"a":9007199254740993}'],
    ['one with NaN', '{"a":NaN}'],
    ['one with a trailing comma', '{"a":1,}'],
    ['an empty one', ''],
    ['one with the name of the list', '{"events":[1,2,[NaN]]}'],
    ['one with brackets in a string', '{"]}":"[,{","n":-Infinity}'],
  ])('keeps the other items: %s', (_name, bad) => {
    const good = ['{"n":1}', ` {"n":[2,{"deep":[","]}]} `]
    const text = `{"w":"events","events":[${[good[0], bad, good[1]].join(',')}] , "b":[{"c":1}]}`
    expect(read(text)).toEqual({
      w: 'events',
      events: [{ n: 1 }, BAD, { n: [2, { deep: [','] }] }],
      b: [{ c: 1 }],
    })
  })

  test('keeps the other items: one that is not UTF-8', () => {
    const text = Buffer.from('{"events":[{"n":"?"},{"n":"ü"}]}')
    text[text.indexOf('?')] = 0xff
    expect(read(text)).toEqual({ events: [BAD, { n: 'ü' }] })
  })

  test('is the last list of that name, as in JSON', () => {
    expect(read('{"events":[{"n":1}],"events":[{"n":2},{"n":NaN}]}')).toEqual({
      events: [{ n: 2 }, BAD],
    })
  })
})

test('a list may have items as deep as an item may be', () => {
  expect(read(`{"events":[{"a":${nested(3)}}]}`)).toEqual({ events: [{ a: [[[]]] }] })
})

test.each([
  ['the frame is bad', '{"w":NaN,"events":[{}]}'],
  ['the frame is invalid', `{"w":${nested(7)},"events":[{}]}`],
  ['there is no list', '{"w":NaN}'],
  ['it does not end', '{"events":[{"a":"}]}'],
  ['it has too many items', '{"events":[NaN,1,1,1,1,1]}'],
  ['it is deeper in', '{"a":{"events":[NaN]}}'],
  ['it is no document', '[NaN]'],
  ['it is empty', ''],
])('a list is refused as a whole when %s', (_name, text) => {
  expect(() => read(text)).toThrow(OjsError)
})

test('a valid list is read like any other document', () => {
  fc.assert(
    fc.property(fc.array(fc.dictionary(fc.string(), fc.string())), fc.string(), (events, w) => {
      const bytes = Buffer.from(JSON.stringify({ w, events, z: [events] }))
      expect(parseJsonList(bytes, LIST)).toEqual(parseJsonObject(bytes))
    }),
  )
})

/** An invalid item makes the parser take the slow way, which must read the other items like the fast one. */
test('a list with one invalid item has the same other items', () => {
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

describe('a list whose items may not be broken', () => {
  const objects = (count: number) => `[${Array(count).fill('{}')}]`
  /** The heap of `objects(100)` is about 7,300 bytes. */
  const strict = {
    name: 'jobs',
    maxItems: 1_000,
    item: { maxDepth: 3, maxHeap: 10_000 },
    maxHeap: 30_000,
    mayBeBroken: false,
  }
  const ways = {
    whole: async (text: string, afford = (_: number) => {}) =>
      parseJsonList(Buffer.from(text), strict, afford),
    sliced: (text: string, afford = (_: number) => {}) =>
      inSlices(parseJsonListInSlices(Buffer.from(text), strict, afford)),
  }

  describe.each(['whole', 'sliced'] as const)('read %s', (way) => {
    test.each([
      ['a number', '{"n":[1,9007199254740993]}', { field: 'n[1]', reason: 'unsafe_number' }],
      ['depth', '{"a":[[[]]]}', { field: 'a[0][0]', max_depth: 3 }],
      ['values', `{"a":${objects(200)}}`, { reason: 'too_many_values' }],
    ])('keeps the other items of one with too much: %s', async (_, bad, details) => {
      const good = '{"n":1}'
      const { jobs } = await ways[way](`{"jobs":[${good},${bad},${good}]}`)
      expect(jobs).toEqual([{ n: 1 }, BAD, { n: 1 }])
      expect(jobs).toMatchObject([{}, { error: { details } }, {}])
    })

    test.each([
      ['an item is not JSON', '{"jobs":[{"n":99999999999999999},{"n":NaN}]}', 'invalid_payload'],
      [
        'all of its items have too many values together',
        `{"jobs":[${Array(5).fill(`{"a":${objects(100)}}`)}]}`,
        'invalid_request',
      ],
    ])('is refused as a whole when %s', async (_, text, code) => {
      await expect(ways[way](text)).rejects.toMatchObject({ code })
    })

    test('asks for its memory once, and is refused as a whole without it', async () => {
      const text = '{"jobs":[{"n":99999999999999999},{"n":1}]}'
      const afford = vi.fn()
      await ways[way](text, afford)
      expect(afford).toHaveBeenCalledOnce()
      const refused = new OjsError('backend_error', 'No memory.')
      const refuse = () => {
        throw refused
      }
      await expect(ways[way](text, refuse)).rejects.toBe(refused)
    })
  })
})

describe('the texts of the members of an object', () => {
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
  ])('of %j are found', (text, expected) => {
    expect(Object.fromEntries(memberTexts(Buffer.from(text)))).toEqual(expected)
  })

  test('are found in everything that JSON.stringify writes', () => {
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
