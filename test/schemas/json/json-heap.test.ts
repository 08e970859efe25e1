import { expect, it } from 'vitest'
import { hasRoomToRead, heapOfText } from '../../../src/schemas/json/json-heap.ts'

const MIB = 1024 * 1024
const read = (text: string, mib: number) => hasRoomToRead(Buffer.from(text), mib * MIB)

it('hasRoomToRead counts the values that a JSON text becomes', () => {
  const objects = `[${'{},'.repeat(MIB / 3)}{}]`
  expect(read(objects, 28)).toBe(true)
  expect(read(objects, 25)).toBe(false)
  const text = `["${'x'.repeat(MIB)}"]`
  expect(read(text, 3)).toBe(true)
  expect(read(text, 2)).toBe(false)
})

it('hasRoomToRead counts values behind a list that nests too deep, because a search for a member builds them too', () => {
  const deep = `[${'['.repeat(40)}${']'.repeat(40)},${'{},'.repeat(MIB / 3)}{}]`
  expect(read(deep, 20)).toBe(false)
})

it('heapOfText counts twice as much for text that may need two bytes a character', () => {
  const heapOf = (text: string) => heapOfText(Buffer.from(text))
  expect(heapOf('"plain text"')).toBe(4 * 12)
  expect(heapOf('"\\u0416zzzz"')).toBe(8 * 12)
  expect(heapOf('"Ж"')).toBe(8 * 4)
})
