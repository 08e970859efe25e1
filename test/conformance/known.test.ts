import { expect, test } from 'vitest'
import { KNOWN_FAILURES } from './known.ts'
import { findCases } from './suite.ts'

test.skipIf(findCases() === undefined)('known failures are cases that exist', () => {
  expect(findCases()).toEqual(expect.arrayContaining(Object.keys(KNOWN_FAILURES)))
})

test('every known failure has a reason', () => {
  const reasons = Object.values(KNOWN_FAILURES)
  expect(reasons).toEqual(reasons.map(() => expect.stringMatching(/\S+ \S+/)))
})
