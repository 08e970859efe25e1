import { describe, expect, it } from 'vitest'
import { filterMembers } from '../../../src/http/routes/job-search.ts'
import { parseJobFilter } from '../../../src/operations/search/parse-filter.ts'

function tagsOf(tag: unknown): readonly string[] {
  return parseJobFilter({ tag }, 0).text.tags
}

/** The same of a query, as Express hands it on. */
function askedTags(tag: string | string[]): readonly string[] {
  return queriedTags({ tag })
}

function queriedTags(query: Record<string, string | string[]>): readonly string[] {
  const request = { query } as unknown as Parameters<typeof filterMembers>[0]
  return parseJobFilter(filterMembers(request), 0).text.tags
}

it.each(['constructor', 'toString', '__proto__'])(
  'a member that every object of JavaScript has is no filter: %s',
  (name) => {
    const members = JSON.parse(`{"${name}":"x"}`)
    const there = `There is no filter '${name}'`
    expect(() => parseJobFilter(members, 0)).toThrow(there)
    expect(() => queriedTags(members)).toThrow(there)
  },
)

describe('a list of a filter', () => {
  it.each([[['a,b']], [[' a ', 'b']], [['a', 'b,']], [[' ']]])(
    'takes each element of an array in a body as it is: %j',
    (tags) => {
      expect(tagsOf(tags)).toEqual(tags)
    },
  )

  it.each([
    ['a,b', ['a', 'b']],
    ['a, b', ['a', 'b']],
    ['eu', ['eu']],
    [' eu ', [' eu ']],
  ])('is one text, with commas between values: %j', (text, tags) => {
    expect(tagsOf(text)).toEqual(tags)
    expect(askedTags(text)).toEqual(tags)
  })

  it('is a repeated parameter of a query, with commas, too', () => {
    expect(askedTags(['a,b', ' c '])).toEqual(['a', 'b', ' c '])
  })

  it.each([
    [{ 'tag[]': 'a,b' }, ['a,b']],
    [{ 'tag[]': ['a,b', ' c '] }, ['a,b', ' c ']],
    [{ tag: 'd,e', 'tag[]': 'a,b' }, ['d', 'e', 'a,b']],
    [{ 'tag[]': 'a,b', tag: ['d,e', 'f'] }, ['a,b', 'd', 'e', 'f']],
  ])('has the values of a parameter with brackets as they are: %j', (query, tags) => {
    expect(queriedTags(query)).toEqual(tags)
  })

  it.each<[unknown]>([[[]], [['']], [['a', '']], ['a,'], [','], [[1]], [[['a']]], [null]])(
    'is refused with an empty value, or none: %j',
    (tags) => {
      expect(() => tagsOf(tags)).toThrow("The 'tag' filter must be texts that are not empty.")
    },
  )

  it.each(['id', 'queue', 'type'])('has its elements as they are: %s', (name) => {
    const { ids, queues, types } = parseJobFilter({ [name]: ['a,b'] }, 0)
    expect([...ids, ...queues, ...types.map(({ text }) => text)]).toEqual(['a,b'])
  })
})
