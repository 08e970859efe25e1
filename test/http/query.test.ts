import { expect, it } from 'vitest'
import { pagination, shortened } from '../../src/http/query.ts'

it('a list that could not show all tells how many it has, and that there are more', () => {
  const page = { limit: 100, offset: 20 }
  const told = (shown: number, total: number) => pagination(shortened(page, shown, total), total)
  expect(told(6, 50)).toEqual({ total: 50, limit: 6, offset: 20, has_more: true })
  expect(told(30, 50)).toEqual({ total: 50, limit: 100, offset: 20, has_more: false })
  expect(told(0, 10)).toEqual({ total: 10, limit: 100, offset: 20, has_more: false })
})
