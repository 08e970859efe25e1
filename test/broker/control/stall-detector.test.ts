import { expect, it } from 'vitest'
import { StallDetector } from '../../../src/broker/control/stall-detector.ts'

it('the pulse is missed when messages wait and none has come for a while', () => {
  const pulse = new StallDetector(100)
  expect(pulse.isMissed('a', 3, 0)).toBe(false)
  expect(pulse.isMissed('a', 3, 99)).toBe(false)
  expect(pulse.isMissed('b', 3, 100)).toBe(false)
  expect(pulse.isMissed('a', 1, 100)).toBe(true)
})

it('the pulse is not missed when a message came in between, or none was waiting', () => {
  const pulse = new StallDetector(100)
  pulse.isMissed('a', 3, 0)
  pulse.beat('a')
  expect(pulse.isMissed('a', 3, 200)).toBe(false)
  expect(pulse.isMissed('a', 0, 300)).toBe(false)
  expect(pulse.isMissed('a', 3, 400)).toBe(false)
  expect(pulse.isMissed('a', 3, 499)).toBe(false)
})
