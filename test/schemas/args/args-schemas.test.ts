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

/** The schema from the cache, or compiled now. */
function use(schemas: ArgsSchemas, registration: number, text: () => string) {
  return schemas.get(registration) ?? schemas.add(registration, text())
}

it('the cache of args schemas compiles a schema once', () => {
  const schemas = new ArgsSchemas()
  const one = source()
  const first = use(schemas, 1, one.text)
  expect(first.size).toBe(3)
  expect(use(schemas, 1, one.text)).toBe(first)
  expect(one.reads).toBe(1)
  expect(use(schemas, 2, one.text)).not.toBe(first)
})

it('the cache of args schemas forgets the least recently used schema', () => {
  const schemas = new ArgsSchemas(9)
  const sources = Array.from({ length: 4 }, source)
  const take = (i: number) => use(schemas, i, sources[i]?.text ?? String)
  for (const i of [0, 1, 2, 0, 3, 0, 2, 3]) take(i)
  expect(sources.map(({ reads }) => reads)).toEqual([1, 1, 1, 1])
  take(1)
  expect(sources.map(({ reads }) => reads)).toEqual([1, 2, 1, 1])
  take(0)
  expect(sources.map(({ reads }) => reads)).toEqual([2, 2, 1, 1])
})

it('the cache of args schemas keeps a schema that is larger than its capacity until the next one', () => {
  const schemas = new ArgsSchemas(2)
  const [one, other] = [source(), source()]
  for (let i = 0; i < 3; i++) use(schemas, 1, one.text)
  expect(one.reads).toBe(1)
  use(schemas, 2, other.text)
  use(schemas, 1, one.text)
  expect(one.reads).toBe(2)
})

it.each([
  ['the memory of compiled patterns', 100, String.raw`^\\p{L}{9}$`],
  ['the memory that matching patterns may keep', 60, '(a|b)*a(a|b){9}c'],
])('the cache of args schemas counts %s', (_, capacity, pattern) => {
  const schemas = new ArgsSchemas(capacity)
  const text = `{"prefixItems":[{"pattern":"${pattern}"}]}`
  let reads = 0
  const take = (registration: number) =>
    use(schemas, registration, () => {
      reads += 1
      return text
    })
  for (const registration of [1, 2, 3, 4]) take(registration)
  take(1)
  expect(reads).toBe(5)
})
