import { expect, test } from 'vitest'
import { isScopeWithin } from '../../src/job/queue-scope.ts'

test.each([
  [['mail'], ['mail'], true],
  [['mail', 'team.*'], ['team.a', 'mail'], true],
  [['mail'], ['mail', 'pay'], false],
  [['team.*'], ['team.*'], true],
  [['team.*'], ['team.a*'], true],
  [['team.*'], ['team*'], false],
  [['team.*'], ['*'], false],
  [['*'], ['team.*', 'mail'], true],
  [['mail'], ['mail*'], false],
])('of a key for %j, queues %j are within: %j', (scope, inner, isWithin) => {
  expect(isScopeWithin(scope, inner)).toBe(isWithin)
})
