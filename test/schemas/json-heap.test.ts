import { expect, it } from 'vitest'
import { hasRoomToRead, heapOfText } from '../../src/schemas/json-heap.ts'

const MIB = 1024 * 1024
const read = (text: string, mib: number) => hasRoomToRead(Buffer.from(text), mib * MIB)

it('reads what fits into the heap with all that becomes of it', () => {
  const objects = `[${'{},'.repeat(MIB / 3)}{}]`
  expect(read(objects, 28)).toBe(true)
  expect(read(objects, 25)).toBe(false)
  const text = `["${'x'.repeat(MIB)}"]`
  expect(read(text, 3)).toBe(true)
  expect(read(text, 2)).toBe(false)
})

it('counts what is behind lists that are too deep: who only looks for one member builds it all', () => {
  const deep = `[${'['.repeat(40)}${']'.repeat(40)},${'{},'.repeat(MIB / 3)}{}]`
  expect(read(deep, 20)).toBe(false)
})

it('counts text twice that may be kept in two bytes a character', () => {
  const heapOf = (text: string) => heapOfText(Buffer.from(text))
  expect(heapOf('"plain text"')).toBe(4 * 12)
  expect(heapOf('"\\u0416zzzz"')).toBe(8 * 12)
  expect(heapOf('"Ж"')).toBe(8 * 4)
})
