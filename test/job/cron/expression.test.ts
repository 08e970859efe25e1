import { describe, expect, it } from 'vitest'
import { OjsError } from '../../../src/errors.ts'
import { checkExpression } from '../../../src/job/cron/expression.ts'
import { nextTick } from '../../../src/job/cron/times.ts'

const FROM = '2026-02-12T10:30:30Z'

/** The first times of an expression after `from`, in UTC. */
function times(expression: string, count = 3, from = FROM): string[] {
  checkExpression(expression, 'cron')
  const found: string[] = []
  let at = Date.parse(from)
  for (let i = 0; i < count; i++) {
    const tick = nextTick({ expression, timezone: 'UTC' }, at)
    if (tick === null) break
    at = tick.at
    found.push(new Date(at).toISOString().replace('.000Z', 'Z'))
  }
  return found
}

/** The error for an invalid expression. */
function refusal(expression: string): OjsError {
  try {
    checkExpression(expression, 'cron')
  } catch (error) {
    if (error instanceof OjsError) return error
    throw error
  }
  throw new Error(`'${expression}' was accepted`)
}

describe('a cron expression', () => {
  it.each<[string, string[]]>([
    ['* * * * *', ['2026-02-12T10:31:00Z', '2026-02-12T10:32:00Z', '2026-02-12T10:33:00Z']],
    ['*/20 * * * *', ['2026-02-12T10:40:00Z', '2026-02-12T11:00:00Z', '2026-02-12T11:20:00Z']],
    ['5/20 * * * *', ['2026-02-12T10:45:00Z', '2026-02-12T11:05:00Z', '2026-02-12T11:25:00Z']],
    ['10-30/10 9 * * *', ['2026-02-13T09:10:00Z', '2026-02-13T09:20:00Z', '2026-02-13T09:30:00Z']],
    ['7/20 * * * *', ['2026-02-12T10:47:00Z', '2026-02-12T11:07:00Z', '2026-02-12T11:27:00Z']],
    ['0 9,17 * * *', ['2026-02-12T17:00:00Z', '2026-02-13T09:00:00Z', '2026-02-13T17:00:00Z']],
    ['0 0 1 1-2,dec *', ['2026-12-01T00:00:00Z', '2027-01-01T00:00:00Z', '2027-02-01T00:00:00Z']],
    ['0 0 1 JAN,Jul *', ['2026-07-01T00:00:00Z', '2027-01-01T00:00:00Z', '2027-07-01T00:00:00Z']],
    ['0 0 * * 0', ['2026-02-15T00:00:00Z', '2026-02-22T00:00:00Z', '2026-03-01T00:00:00Z']],
    ['0 0 * * 7', ['2026-02-15T00:00:00Z', '2026-02-22T00:00:00Z', '2026-03-01T00:00:00Z']],
    ['0 0 * * Sat-sun', ['2026-02-14T00:00:00Z', '2026-02-15T00:00:00Z', '2026-02-21T00:00:00Z']],
    ['0 0 * * 5-7', ['2026-02-13T00:00:00Z', '2026-02-14T00:00:00Z', '2026-02-15T00:00:00Z']],
    ['0 0 * * 5-7/2', ['2026-02-13T00:00:00Z', '2026-02-15T00:00:00Z', '2026-02-20T00:00:00Z']],
    // Steps from a day, where nobody counts a Sunday.
    ['0 0 * * 1/4', ['2026-02-13T00:00:00Z', '2026-02-16T00:00:00Z', '2026-02-20T00:00:00Z']],
    ['0 0 * * sun/5', ['2026-02-13T00:00:00Z', '2026-02-15T00:00:00Z', '2026-02-20T00:00:00Z']],
    ['0 0 * * 0/7', ['2026-02-15T00:00:00Z', '2026-02-22T00:00:00Z', '2026-03-01T00:00:00Z']],
    ['0 0 * * */5', ['2026-02-13T00:00:00Z', '2026-02-15T00:00:00Z', '2026-02-20T00:00:00Z']],
    ['0 0 * * 0-7', ['2026-02-13T00:00:00Z', '2026-02-14T00:00:00Z', '2026-02-15T00:00:00Z']],
    ['0 0 * * 7-sun', ['2026-02-15T00:00:00Z', '2026-02-22T00:00:00Z', '2026-03-01T00:00:00Z']],
    // In the other fields there is one reading of steps from a value: to the end of the field.
    ['0 22/1 * * *', ['2026-02-12T22:00:00Z', '2026-02-12T23:00:00Z', '2026-02-13T22:00:00Z']],
    ['0 0 20/10 * *', ['2026-02-20T00:00:00Z', '2026-03-20T00:00:00Z', '2026-03-30T00:00:00Z']],
    ['0 0 1 Jul/5 *', ['2026-07-01T00:00:00Z', '2026-12-01T00:00:00Z', '2027-07-01T00:00:00Z']],
    // Months without a 31st are skipped.
    ['0 0 31 * *', ['2026-03-31T00:00:00Z', '2026-05-31T00:00:00Z', '2026-07-31T00:00:00Z']],
    ['0 0 29 2 *', ['2028-02-29T00:00:00Z', '2032-02-29T00:00:00Z', '2036-02-29T00:00:00Z']],
    // Either day matches when both the day of the month and the day of the week are given.
    ['0 0 13 * 1', ['2026-02-13T00:00:00Z', '2026-02-16T00:00:00Z', '2026-02-23T00:00:00Z']],
    // A star with a step is no restriction, so both must match: Mondays with an odd date.
    ['0 0 */2 * 1', ['2026-02-23T00:00:00Z', '2026-03-09T00:00:00Z', '2026-03-23T00:00:00Z']],
    // With six fields, the first is the seconds.
    ['*/10 * * * * *', ['2026-02-12T10:30:40Z', '2026-02-12T10:30:50Z', '2026-02-12T10:31:00Z']],
    ['30 30 10 12 2 *', ['2027-02-12T10:30:30Z', '2028-02-12T10:30:30Z', '2029-02-12T10:30:30Z']],
    ['  0   0 1 *\t* ', ['2026-03-01T00:00:00Z', '2026-04-01T00:00:00Z', '2026-05-01T00:00:00Z']],
    // The last day, the weekday nearest to the 15th, the second Friday.
    ['0 0 L * *', ['2026-02-28T00:00:00Z', '2026-03-31T00:00:00Z', '2026-04-30T00:00:00Z']],
    ['0 0 15W * *', ['2026-02-16T00:00:00Z', '2026-03-16T00:00:00Z', '2026-04-15T00:00:00Z']],
    ['0 0 * * fri#2', ['2026-02-13T00:00:00Z', '2026-03-13T00:00:00Z', '2026-04-10T00:00:00Z']],
  ])('runs at the expected times: %s', (expression, expected) => {
    expect(times(expression)).toEqual(expected)
  })

  it.each([
    ['@yearly', '2027-01-01T00:00:00Z'],
    ['@annually', '2027-01-01T00:00:00Z'],
    ['@monthly', '2026-03-01T00:00:00Z'],
    ['@weekly', '2026-02-15T00:00:00Z'],
    ['@daily', '2026-02-13T00:00:00Z'],
    ['@midnight', '2026-02-13T00:00:00Z'],
    ['@hourly', '2026-02-12T11:00:00Z'],
    ['@Hourly', '2026-02-12T11:00:00Z'],
  ])('runs at the expected time: %s', (expression, expected) => {
    expect(times(expression, 1)).toEqual([expected])
  })

  it.each([
    ['', 'it has 0 fields, not 5 or 6'],
    ['* * * *', 'it has 4 fields, not 5 or 6'],
    ['0 0 0 0 0 0 0', 'it has 7 fields, not 5 or 6'],
    ['0 0 1 1 * * 2030', 'it has 7 fields, not 5 or 6'],
    ['@reboot', "'@reboot' is not known"],
    ['@every 5m', "'@every' is not supported"],
    ['@Every 1h 30m', "'@every' is not supported"],
    ['@every', "'@every' is not supported"],
    ['@daily * * * *', "'@daily' cannot be read"],
    ['2030-01-01T00:00:00', 'it has 1 fields, not 5 or 6'],
    ['? * * * *', "'?' cannot be read"],
    ['0 0 * * +1', "'+1' cannot be read"],
    ['/5 * * * *', "'/5' cannot be read"],
    ['1,/5 * * * *', "'1,/5' cannot be read"],
    ['0 0 32 * *', 'Invalid value for day: 32'],
    ['0 0 0 * *', 'Invalid value for day: 0'],
    ['0 0 1 13 *', 'Invalid value for month: 13'],
    ['60 * * * *', 'Invalid value for minute: 60'],
    ['60/12,3 * * * *', 'Invalid value for minute: 60'],
    ['0 0,24/6 * * *', 'Invalid value for hour: 24'],
    ['0 24/6 * * *', 'Invalid value for hour: 24'],
    ['0 0 L,32/2 * *', 'Invalid value for day: 32'],
    ['0 0 1 1,13/3 *', 'Invalid value for month: 13'],
    ['75/15 * * * *', 'Invalid value for minute: 75'],
    ['75/15,0 * * * * *', 'Invalid value for second: 75'],
    // Are these Sundays, too? In crons that count Sunday as 0 only they are not.
    ['0 0 * * 1/2', "'1/2' is unclear: write 1-7/2 with Sunday, or 1-6/2 without"],
    ['0 0 * * 5/2', "'5/2' is unclear: write 5-7/2 with Sunday, or 5-6/2 without"],
    ['0 0 * * mon,Fri/2', "'Fri/2' is unclear: write 5-7/2 with Sunday, or 5-6/2 without"],
    ['0 0 * * 3/1', "'3/1' is unclear: write 3-7/1 with Sunday, or 3-6/1 without"],
    ['0 0 0 * * 1/3#2', "'1/3#2' is unclear: write 1-7/3 with Sunday, or 1-6/3 without"],
    ['0 0 * * 7/2', "'7/2' is unclear: write 0-6/2 for steps from Sunday, or 0 for Sunday alone"],
    ['0 0 * * 07/2', "'07/2' is unclear: write 0-6/2 for steps from Sunday, or 0 for Sunday alone"],
    ['0 0 * * 1,7/3', "'7/3' is unclear: write 0-6/3 for steps from Sunday, or 0 for Sunday alone"],
    // One Sunday in cron, but the whole week in croner.
    ['0 0 * * sun-sun', "'sun-sun' is unclear: write 0 for Sunday, or * for every day"],
    ['0 0 * * 1,0-Sun/2', "'0-Sun/2' is unclear: write 0 for Sunday, or * for every day"],
    ['0 0 31 4 *', 'it matches no date'],
    ['0 0 30 feb *', 'it matches no date'],
    [`${'1,'.repeat(150)}1 * * * *`, 'it is longer than 255 characters'],
  ])('is refused: %j, because %s', (expression, reason) => {
    expect(refusal(expression)).toMatchObject({
      code: 'invalid_request',
      status: 400,
      details: { field: 'cron', reason },
    })
  })

  it.each([
    ...['60 * * * *', '* 24 * * *', '* * 0 * *', '* * 32 * *', '* * * 0 *', '* * * 13 *'],
    ...['* * * * 8', '60 * * * * *', '*/0 * * * *', '1-10/0 * * * *', '*/61 * * * *', '-1 * * * *'],
    ...['5-1 * * * *', '0 0 * * fri-mon', '1-70/5 * * * *', '1,,2 * * * *', '1, * * * *'],
    ...['** * * * *', '*-5 * * * *', '1-*/2 * * * *', '1.5 * * * *', 'a * * * *', '* * * foo *'],
    ...['* * * * monday', '* * mon * *', '* W * * *', '0 0 * * 7#6', '* * LW,1 * *', 'x x x x x x'],
    ...['1- * * * *', '*/ * * * *', '1/2/3 * * * *', '1-2-3 * * * *', '12:00 * * * *', '* * * * #'],
  ])('is refused: %s', (expression) => {
    const { status, details } = refusal(expression)
    expect(status).toBe(400)
    expect(details).toMatchObject({ field: 'cron', received: expression })
    expect(details?.['reason']).not.toMatch(/CronPattern|^$/)
  })
})
