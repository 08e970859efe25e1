import { expect, it } from 'vitest'
import { KnownIds } from '../../src/worker/dispatcher.ts'

it('KnownIds keeps the newest ids up to its limit, and counts an id as new when it is set again', () => {
  const ids = new KnownIds<number>(3)
  for (const [i, id] of ['a', 'b', 'c', 'a', 'd', 'e'].entries()) ids.set(id, i)
  expect(['a', 'b', 'c', 'd', 'e'].map((id) => ids.get(id))).toEqual([
    3,
    undefined,
    undefined,
    4,
    5,
  ])
  for (const [i, id] of ['f', 'a', 'g', 'h'].entries()) ids.set(id, i)
  expect(['a', 'e', 'f', 'g', 'h'].map((id) => ids.get(id))).toEqual([
    1,
    undefined,
    undefined,
    2,
    3,
  ])
})
