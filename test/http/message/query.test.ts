import { parse } from 'node:querystring'
import { expect, it } from 'vitest'
import {
  adminPageOf,
  cursorPagination,
  memoryPagination,
  pageOf,
  pagination,
  refuseFarOffset,
  shortened,
  startOf,
} from '../../../src/http/message/page.ts'
import { filterText, flag, integer, list, parameter } from '../../../src/http/message/query.ts'

it('shortened() lowers the limit of a page that shows fewer jobs than it could, so that has_more is true', () => {
  const page = { limit: 100, offset: 20 }
  const told = (shown: number, total: number) => pagination(shortened(page, shown, total), total)
  expect(told(6, 50)).toEqual({ total: 50, limit: 6, offset: 20, has_more: true })
  expect(told(30, 50)).toEqual({ total: 50, limit: 100, offset: 20, has_more: false })
  expect(told(0, 10)).toEqual({ total: 10, limit: 100, offset: 20, has_more: false })
})

const asked = (query: string) => ({ query: parse(query) }) as Parameters<typeof parameter>[0]

it('parameter() takes the first of two values, null for an empty text, and replaces NUL', () => {
  expect(parameter(asked('state=a&state=b'), 'state')).toBe('a')
  expect(parameter(asked('state='), 'state')).toBeNull()
  // For SQLite a text ends at a NUL, so the name would be that of another queue.
  expect(parameter(asked('queue=a%00b'), 'queue')).toBe('a\ufffdb')
  expect(pageOf(asked('offset=7&offset=x'))).toEqual({ limit: 50, offset: 7 })
})

it('filterText(), flag() and list() throw for an empty value: it would mean all', () => {
  expect(filterText(asked(''), 'queue')).toBeNull()
  expect(list(asked(''), 'queue').size).toBe(0)
  expect(flag(asked(''), 'queue')).toBe(false)
  for (const read of [filterText, flag, list]) {
    expect(() => read(asked('queue='), 'queue')).toThrow('must not be empty')
    expect(() => read(asked('queue=&queue=a'), 'queue')).toThrow('must not be empty')
  }
  expect(() => list(asked('queue=,%20'), 'queue')).toThrow('must not be empty')
})

it('pageOf() reads page and per_page', () => {
  const pages = ['per_page=7', 'page=3&per_page=7', 'page=0', 'page=2&per_page=999']
  expect(pages.map((query) => pageOf(asked(query)))).toEqual([
    { limit: 7, offset: 0, number: 1 },
    { limit: 7, offset: 14, number: 3 },
    { limit: 50, offset: 0, number: 1 },
    { limit: 100, offset: 100, number: 2 },
  ])
  expect(pagination(pageOf(asked('page=3&per_page=7')), 22)).toEqual({
    ...{ total: 22, limit: 7, offset: 14, page: 3, per_page: 7, has_more: true },
  })
  expect(() => pageOf(asked('page=x'))).toThrow("'page'")
})

it('list() splits at commas, drops blanks and duplicates, and throws for more than 100 names', () => {
  expect([...list(asked('types=a, b,,a,'), 'types')]).toEqual(['a', 'b'])
  const names = Array.from({ length: 101 }, (_, i) => `t${i}`)
  expect(list(asked(`types=${names.slice(1)}`), 'types').size).toBe(100)
  expect(() => list(asked(`types=${names}`), 'types')).toThrow('100')
})

it('pagination() has more only if items follow the page', () => {
  const page = { limit: 2, offset: 1 }
  expect([2, 3, 4].map((total) => pagination(page, total))).toMatchObject([
    { has_more: false },
    { has_more: false },
    { has_more: true },
  ])
})

it.each(['999999999999999999999', '9'.repeat(400)])(
  'pageOf() clamps limit and offset of %s',
  (much) => {
    expect(pageOf(asked(`limit=${much}&offset=${much}`))).toEqual({
      limit: 100,
      offset: Number.MAX_SAFE_INTEGER,
    })
    expect(pageOf(asked('limit=00000000000000000007'))).toMatchObject({ limit: 7 })
  },
)

it.each(['limit', 'limit=', 'limit=&limit=5', 'offset', 'limit=5&offset='])(
  'pageOf() throws for an empty number: ?%s',
  (query) => {
    expect(() => pageOf(asked(query))).toThrow('integer of at least 0')
  },
)

it.each(['-1', '1.5', '1e3', '0x10', '+1', ' 1', 'NaN'])('integer() throws for %j', (text) => {
  expect(() => integer(asked(`limit=${encodeURIComponent(text)}`), 'limit', 1)).toThrow('integer')
})

it('integer() shows the first 100 characters of an invalid value in its error', () => {
  const refused = (): unknown => {
    try {
      return integer(asked(`limit=${'x'.repeat(300)}`), 'limit', 1)
    } catch (error) {
      return error
    }
  }
  expect(refused()).toMatchObject({ details: { received: 'x'.repeat(100) } })
})

it.each([
  'page=1&limit=5',
  'page=1&offset=5',
  'per_page=1&limit=1',
  'cursor=x&page=1',
  'cursor=x&offset=1',
])('pageOf() throws for a mixture of ways to ask for a page: ?%s', (query) => {
  expect(() => pageOf(asked(query))).toThrow('A page is asked for by')
})

it('adminPageOf() has 20 items, and numbers each page', () => {
  const pages = ['', 'offset=40&limit=20', 'page=2'].map((query) => adminPageOf(asked(query)))
  expect(pages).toEqual([
    { limit: 20, offset: 0, number: 1 },
    { limit: 20, offset: 40, number: 3 },
    { limit: 20, offset: 20, number: 2 },
  ])
})

it('a cursor leads to its position in the same list, and in no other', () => {
  const at = (query: string, path = '/jobs') => ({ ...asked(query), path }) as typeof request
  const request = asked('')
  const first = at('state=active&limit=2')
  const told = cursorPagination(first, pageOf(first), { total: 5, isBound: false, next: [-7, 12] })
  expect(told).toMatchObject({ total: 5, limit: 2, offset: 0, has_more: true })
  const { next_cursor: cursor } = told as { next_cursor: string }
  const next = at(`cursor=${cursor}&state=active&limit=3&include=args`)
  expect(pageOf(next)).toEqual({ limit: 3, offset: 0, position: [-7, 12] })
  const others = [at(`cursor=${cursor}`), at(`cursor=${cursor}&state=active`, '/queues')]
  for (const other of others) expect(() => pageOf(other)).toThrow('other filters')
  for (const bad of ['x', Buffer.from('12345678901x').toString('base64url')]) {
    expect(() => pageOf(at(`cursor=${bad}`))).toThrow('is no cursor')
  }
})

it('memoryPagination() has a cursor exactly if there is more', () => {
  const at = { ...asked(''), path: '/' } as ReturnType<typeof asked>
  const page = { limit: 2, offset: 1, number: 1 }
  expect(memoryPagination(at, page, 3)).toEqual({
    ...{ total: 3, limit: 2, offset: 1, page: 1, per_page: 2, has_more: false },
  })
  expect(memoryPagination(at, page, 4)).toMatchObject({
    has_more: true,
    next_cursor: expect.any(String),
  })
})

it('memoryPagination() leads by its cursors through the list, to its end', () => {
  const at = (query: string) => ({ ...asked(query), path: '/' }) as ReturnType<typeof asked>
  const starts: number[] = []
  let query = 'limit=2'
  for (let pages = 0; query !== '' && pages < 9; pages++) {
    const page = pageOf(at(query))
    starts.push(startOf(page))
    const told = memoryPagination(at(query), page, 5) as { next_cursor?: string }
    query = told.next_cursor === undefined ? '' : `limit=2&cursor=${told.next_cursor}`
  }
  expect(starts).toEqual([0, 2, 4])
})

it('refuseFarOffset() asks for a cursor beyond 10,000 items', () => {
  refuseFarOffset(asked(''), { limit: 1, offset: 10_000 })
  expect(() => refuseFarOffset(asked(''), { limit: 1, offset: 10_001 })).toThrow('next_cursor')
})
