import { expect, it } from 'vitest'
import { ArgsSchemas } from '../../../src/schemas/args/args-schemas.ts'

/** The text of a schema of three subschemas, and how often it was read. */
function source(): { text: () => string; reads: number } {
  const read = {
    reads: 0,
    text: () => {
      read.reads += 1
      return '{"prefixItems":[true,true]}'
    },
  }
  return read
}

it('the cache of args schemas compiles a schema once', () => {
  const schemas = new ArgsSchemas()
  const one = source()
  const first = schemas.get(1, one.text)
  expect(first.size).toBe(3)
  expect(schemas.get(1, one.text)).toBe(first)
  expect(one.reads).toBe(1)
  expect(schemas.get(2, one.text)).not.toBe(first)
})

it('the cache of args schemas forgets the least recently used schema', () => {
  const schemas = new ArgsSchemas(9)
  const sources = Array.from({ length: 4 }, source)
  const use = (i: number) => schemas.get(i, sources[i]?.text ?? String)
  for (const i of [0, 1, 2, 0, 3, 0, 2, 3]) use(i)
  expect(sources.map(({ reads }) => reads)).toEqual([1, 1, 1, 1])
  use(1)
  expect(sources.map(({ reads }) => reads)).toEqual([1, 2, 1, 1])
  use(0)
  expect(sources.map(({ reads }) => reads)).toEqual([2, 2, 1, 1])
})

it('the cache of args schemas keeps a schema that is larger than its capacity until the next one', () => {
  const schemas = new ArgsSchemas(2)
  const [one, other] = [source(), source()]
  for (let i = 0; i < 3; i++) schemas.get(1, one.text)
  expect(one.reads).toBe(1)
  schemas.get(2, other.text)
  schemas.get(1, one.text)
  expect(one.reads).toBe(2)
})

it.each([
  ['the memory of compiled patterns', 100, String.raw`^\\p{L}{9}$`],
  ['the memory that matching patterns may keep', 60, '(a|b)*a(a|b){9}c'],
])('the cache of args schemas counts %s', (_, capacity, pattern) => {
  const schemas = new ArgsSchemas(capacity)
  const text = `{"prefixItems":[{"pattern":"${pattern}"}]}`
  let reads = 0
  const use = (registration: number) =>
    schemas.get(registration, () => {
      reads += 1
      return text
    })
  for (const registration of [1, 2, 3, 4]) use(registration)
  use(1)
  expect(reads).toBe(5)
})
