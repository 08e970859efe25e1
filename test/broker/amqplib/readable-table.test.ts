import { describe, expect, it } from 'vitest'
import { readableTable } from '../../../src/broker/amqplib/undecodable-headers.ts'

const length = (bytes: Buffer) => {
  const before = Buffer.alloc(4)
  before.writeUInt32BE(bytes.length)
  return Buffer.concat([before, bytes])
}
const value = (tag: string, ...bytes: number[]) => Buffer.from([tag.charCodeAt(0), ...bytes])
const entry = (name: string, of: Buffer) =>
  Buffer.concat([Buffer.from([name.length]), Buffer.from(name), of])
const array = (...values: Buffer[]) =>
  Buffer.concat([Buffer.from('A'), length(Buffer.concat(values))])
const table = (...entries: Buffer[]) =>
  Buffer.concat([Buffer.from('F'), length(Buffer.concat(entries))])
const text = (of: string) => Buffer.concat([Buffer.from('S'), length(Buffer.from(of))])

const eight = [0, 0, 0, 1, 160, 7, 5, 0]
const good = entry('good', text('L and A are letters'))

function nested(levels: number, wrap: (inner: Buffer) => Buffer): Buffer {
  let inner: Buffer = value('V')
  for (let level = 0; level < levels; level++) inner = wrap(inner)
  return inner
}

describe('a table that amqplib can decode', () => {
  it.each<[string, Buffer]>([
    [
      'every type of one size',
      Buffer.concat([
        ...['t', 'b', 'B'].map((tag) => entry(tag, value(tag, 1))),
        ...['s', 'u'].map((tag) => entry(tag, value(tag, 1, 2))),
        ...['I', 'i', 'f'].map((tag) => entry(tag, value(tag, 1, 2, 3, 4))),
        ...['l', 'd', 'T'].map((tag) => entry(tag, value(tag, ...eight))),
        entry('D', value('D', 2, 0, 0, 0, 7)),
        entry('V', value('V')),
      ]),
    ],
    [
      'types with a length',
      Buffer.concat([
        entry('S', text('x')),
        entry('x', Buffer.concat([Buffer.from('x'), length(Buffer.from([76, 0, 255]))])),
        entry('A', array(text('a'), value('t', 1), array())),
        entry('F', table(entry('in', table()), entry('side', value('V')))),
      ]),
    ],
    ['an empty table', Buffer.alloc(0)],
    ['an empty name', entry('', value('V'))],
    [
      '32 levels',
      entry(
        'deep',
        nested(32, (inner) => array(inner)),
      ),
    ],
  ])('stays as it is: %s', (_name, bytes) => {
    expect(readableTable(bytes)).toEqual(bytes)
  })
})

describe('the tag L', () => {
  it('becomes l at every depth, and nothing else changes', () => {
    const of = (tag: string) =>
      Buffer.concat([
        entry('top', value(tag, ...eight)),
        entry('in', table(entry('L', array(value(tag, ...eight), text('L'))))),
        good,
      ])
    expect(readableTable(of('L'))).toEqual(of('l'))
  })

  it('is not replaced in the original bytes', () => {
    const bytes = entry('top', value('L', ...eight))
    const before = Buffer.from(bytes)
    readableTable(bytes)
    expect(bytes).toEqual(before)
  })
})

describe('a header that cannot be read', () => {
  it.each<[string, Buffer]>([
    ['arrays of 33 levels', nested(33, (inner) => array(inner))],
    ['tables of 6,000 levels', nested(6_000, (inner) => table(entry('a', inner)))],
    ['an unknown type in an array', array(text('a'), value('?', 1))],
    ['an unknown type in a table', table(entry('a', value('z')))],
    ['an item that is longer than its array', array(Buffer.from([83, 0, 0, 0, 9, 1]))],
    ['a name that is longer than its table', table(Buffer.from([200, 1]))],
  ])('is left out, and its neighbours stay: %s', (_name, bytes) => {
    const strange = Buffer.concat([good, entry('strange', bytes), entry('more', value('V'))])
    expect(readableTable(strange)).toEqual(Buffer.concat([good, entry('more', value('V'))]))
  })

  it.each<[string, Buffer]>([
    ['an unknown type', entry('strange', value('?', 1, 2))],
    ['a text that is longer than the table', Buffer.from([1, 97, 83, 0, 0, 1, 0, 97])],
    ['a length that is cut off', Buffer.from([1, 97, 83, 0, 0])],
    ['a name that is longer than the table', Buffer.from([200, 97])],
    ['a number that is cut off', entry('n', value('l', 1, 2))],
  ])('is left out with all that is behind it when its end is unknown: %s', (_name, bytes) => {
    expect(readableTable(Buffer.concat([good, bytes]))).toEqual(good)
  })

  it('of any bytes leaves a table that is no longer, and that does not change a second time', () => {
    for (let seed = 1; seed < 2_000; seed++) {
      const bytes = Buffer.from(
        Array.from({ length: seed % 61 }, (_, i) => (seed * 7_919 * (i + 1) * (i + 3)) % 256),
      )
      const once = readableTable(bytes)
      expect(once.length).toBeLessThanOrEqual(bytes.length)
      expect(readableTable(once)).toEqual(once)
    }
  })
})
