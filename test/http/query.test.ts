import { parse } from 'node:querystring'
import { expect, it } from 'vitest'
import { integer, list, pageOf, pagination, parameter, shortened } from '../../src/http/query.ts'

it('a list that could not show all tells how many it has, and that there are more', () => {
  const page = { limit: 100, offset: 20 }
  const told = (shown: number, total: number) => pagination(shortened(page, shown, total), total)
  expect(told(6, 50)).toEqual({ total: 50, limit: 6, offset: 20, has_more: true })
  expect(told(30, 50)).toEqual({ total: 50, limit: 100, offset: 20, has_more: false })
  expect(told(0, 10)).toEqual({ total: 10, limit: 100, offset: 20, has_more: false })
})

const asked = (query: string) => ({ query: parse(query) }) as Parameters<typeof parameter>[0]

it('given twice, the first one counts; a text that is empty is none', () => {
  expect(parameter(asked('state=a&state=b'), 'state')).toBe('a')
  expect(parameter(asked('state='), 'state')).toBeNull()
  // SQLite's text ends at a NUL, which would name another queue.
  expect(parameter(asked('queue=a%00b'), 'queue')).toBe('a\ufffdb')
  expect(pageOf(asked('offset=7&offset=x'))).toEqual({ limit: 50, offset: 7 })
})

it('a list without its blanks, and not longer than it may be', () => {
  expect([...list(asked('types=a, b,,a,'), 'types')]).toEqual(['a', 'b'])
  const names = Array.from({ length: 101 }, (_, i) => `t${i}`)
  expect(list(asked(`types=${names.slice(1)}`), 'types').size).toBe(100)
  expect(() => list(asked(`types=${names}`), 'types')).toThrow('100')
})

it('a list has more exactly where something is behind the page', () => {
  const page = { limit: 2, offset: 1 }
  expect([2, 3, 4].map((total) => pagination(page, total))).toMatchObject([
    { has_more: false },
    { has_more: false },
    { has_more: true },
  ])
})

it.each(['999999999999999999999', '9'.repeat(400)])('too much is clamped: %s', (much) => {
  expect(pageOf(asked(`limit=${much}&offset=${much}`))).toEqual({
    limit: 100,
    offset: Number.MAX_SAFE_INTEGER,
  })
  expect(pageOf(asked('limit=00000000000000000007'))).toMatchObject({ limit: 7 })
})

it.each(['limit', 'limit=', 'limit=&limit=5', 'offset', 'limit=5&offset='])(
  'an empty number is none: ?%s',
  (query) => {
    expect(() => pageOf(asked(query))).toThrow('integer from 0 on')
  },
)

it.each(['-1', '1.5', '1e3', '0x10', '+1', ' 1', 'NaN'])('no integer from 0 on: %j', (text) => {
  expect(() => integer(asked(`limit=${encodeURIComponent(text)}`), 'limit', 1)).toThrow('integer')
})

it('of a number that is none, a refusal repeats the beginning', () => {
  const refused = (): unknown => {
    try {
      return integer(asked(`limit=${'x'.repeat(300)}`), 'limit', 1)
    } catch (error) {
      return error
    }
  }
  expect(refused()).toMatchObject({ details: { received: 'x'.repeat(100) } })
})
