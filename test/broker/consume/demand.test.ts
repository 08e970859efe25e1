import { expect, it } from 'vitest'
import { Demand } from '../../../src/broker/consume/demand.ts'

it('the demand is what was asked for within a window of 100 ms, and is forgotten after the next', () => {
  const demand = new Demand()
  expect(demand.recent(0)).toBe(0)
  demand.asked(3, 1_000)
  demand.asked(4, 1_099)
  expect(demand.recent(1_099)).toBe(7)
  demand.asked(2, 1_100)
  // The present window counts less so far.
  expect(demand.recent(1_199)).toBe(7)
  demand.asked(1, 1_200)
  expect(demand.recent(1_250)).toBe(2)
  expect(demand.recent(1_299)).toBe(2)
  expect(demand.recent(1_300)).toBe(1)
  expect(demand.recent(1_400)).toBe(0)
  demand.asked(5, 9_950)
  expect(demand.recent(10_049)).toBe(5)
  expect(demand.recent(10_250)).toBe(0)
})
