import { describe, expect, test } from 'vitest'
import { DIALECTS } from '../../src/dialect.ts'
import { KNOWN_FAILURES } from './known.ts'
import { findCases } from './suite.ts'

const cases = findCases()

describe.each(DIALECTS)('known failures, dialect %s', (dialect) => {
  const known = KNOWN_FAILURES[dialect]

  test.skipIf(cases === undefined)('exist as cases of the suite', () => {
    expect(cases).toEqual(expect.arrayContaining(Object.keys(known)))
  })

  test('have a reason each', () => {
    const reasons = Object.values(known)
    expect(reasons).toEqual(reasons.map(() => expect.stringMatching(/\S+ \S+/)))
  })
})
