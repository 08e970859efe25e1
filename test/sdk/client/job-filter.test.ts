import { describe, expect, it } from 'vitest'
import { filterParameters, wireFilter } from '../../../src/sdk/client/job-filter.ts'

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

  it.each(['a,b', ' a', 'a '])('cannot be asked for in a query with %j', (tag) => {
    expect(() => filterParameters({ tag: [tag, 'c'] })).toThrow(TypeError)
  })

  it('is refused without values', () => {
    expect(() => wireFilter({ tag: [] })).toThrow(TypeError)
  })
})
