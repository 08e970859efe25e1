import { describe, expect, it } from 'vitest'
import { filterParameters, wireFilter } from '../../../src/sdk/client/job-filter.ts'
import { query } from '../../../src/sdk/transport/request.ts'

describe('a list in a filter', () => {
  it('is sent in a body as it is, so that no value is taken for two', () => {
    expect(wireFilter({ tag: ['a,b', ' c '] })).toEqual({ tag: ['a,b', ' c '] })
  })

  it('has commas between its values in a query', () => {
    expect(filterParameters({ tag: ['a', 'b'], queue: 'c,d' })).toEqual({
      tag: 'a,b',
      queue: 'c,d',
    })
  })

  it.each([[['a,b', 'c']], [[' a']], [['a ', 'b', 'a,b']]])(
    'is a parameter of a query for each value, if one could be taken for two: %j',
    (tag) => {
      const parameters = new URLSearchParams(query(filterParameters({ tag })))
      expect(parameters.getAll('tag[]')).toEqual(tag)
      expect(parameters.size).toBe(tag.length)
    },
  )

  it('is refused without values', () => {
    expect(() => wireFilter({ tag: [] })).toThrow(TypeError)
  })
})
