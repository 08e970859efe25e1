import { expect, it } from 'vitest'
import { errorKindOf, errorPatternOf } from '../../../src/job/search/error-pattern.ts'

it.each([
  ['mailbox 17 of "ada" is full', 'mailbox <n> of <text> is full'],
  ["no such file: '/tmp/a b' (2)", 'no such file: <text> (<n>)'],
  ["can't read what isn't there", "can't read what isn't there"],
  ['timeout after 1,500.25 ms at 10.0.0.1:5672', 'timeout after <n> ms at <n>'],
  ['job 0197f1c2-aaaa-7bbb-8ccc-0123456789ab is gone', 'job <id> is gone'],
  ['request req_8f3a91bc77 failed', 'request <id> failed'],
  ['SMTP25 said no to c-812', 'SMTP<n> said no to c-<n>'],
  ['  two\n\tlines  ', 'two lines'],
  ['', ''],
])('%j is of the pattern %j', (message, pattern) => {
  expect(errorPatternOf(message)).toBe(pattern)
})

it('of a long message the beginning counts, whatever it contains', () => {
  const begin = performance.now()
  for (const sign of ['"', "'", '1', 'a1', ' ', '`“«']) {
    expect(errorPatternOf(sign.repeat(1_000_000)).length).toBeLessThanOrEqual(200)
  }
  expect(errorPatternOf(`x${'y'.repeat(1_000)}1`)).toBe(errorPatternOf(`x${'y'.repeat(1_000)}2`))
  // Seconds at most on any machine; a pattern that backtracks would take hours.
  expect(performance.now() - begin).toBeLessThan(20_000)
})

it('an error that is no error has an empty pattern', () => {
  for (const error of [null, 'nonsense', '[]', '{"message":7}', '{"__proto__":{"message":"x"}}']) {
    expect(errorKindOf(error).pattern).toBe('')
  }
})
