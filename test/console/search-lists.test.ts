// What is written in the search box is what the gateway looks for.
import { parse } from 'node:querystring'
import { expect, it } from 'vitest'
import { parametersOf } from '../../src/console/api/parameters.ts'
import { filtersOf, term } from '../../src/console/search/query.ts'
import { filterMembers } from '../../src/http/routes/job-search.ts'
import { parseJobFilter } from '../../src/operations/search/parse-filter.ts'

function tagsFor(text: string): readonly string[] {
  const { filters } = filtersOf(text)
  const query = parse(String(new URLSearchParams(parametersOf(filters))))
  const request = { query } as unknown as Parameters<typeof filterMembers>[0]
  const inQuery = parseJobFilter(filterMembers(request), 0)
  // As an action on all that was found has it in its body.
  expect(parseJobFilter(filters, 0)).toEqual(inQuery)
  return inQuery.text.tags
}

it.each([
  ['tag:"a,b"', ['a,b']],
  ['tag:a,b', ['a', 'b']],
  ['tag:"a,b" tag:c', ['a,b', 'c']],
  ['tag:c,d tag:"a, b"', ['c', 'd', 'a, b']],
  ['tag:"two words"', ['two words']],
  ['tag:" eu " tag:us', [' eu ', 'us']],
  ['tag:"a\\"b"', ['a"b']],
  ['tag:', []],
])('%s means the tags %j', (text, tags) => {
  expect(tagsFor(text)).toEqual(tags)
})

it.each(['a,b', 'a b', 'a"b', 'a\\,b', ' a', '"', ','])(
  'the tag %j is written so that it is found',
  (tag) => {
    expect(tagsFor(`${term('tag', 'x')} ${term('tag', tag)}`)).toEqual(['x', tag])
  },
)
