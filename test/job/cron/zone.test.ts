import { describe, expect, it } from 'vitest'
import { OjsError } from '../../../src/errors.ts'
import { nextTick } from '../../../src/job/cron/times.ts'
import { checkZone } from '../../../src/job/cron/zone.ts'

describe('a time zone', () => {
  it.each([
    ...['UTC', 'Etc/UTC', 'America/New_York', 'America/Argentina/Buenos_Aires', 'Europe/Kyiv'],
    ...['Asia/Kolkata', 'US/Eastern', 'Australia/Lord_Howe', 'Japan', 'Etc/GMT+5', 'Etc/GMT-14'],
    ...['GMT', 'Greenwich', 'gmt'],
  ])('is accepted: %s', (name) => {
    expect(() => checkZone(name, 'timezone')).not.toThrow()
  })

  it.each([
    ...['EST', 'MST', 'HST', 'EST5EDT', 'PST', 'CET', 'BST', 'GMT0', 'ACT', 'SystemV/AST4'],
    ...['UTC+5', 'GMT+5', '+05:00', '-0500', '05:00', 'UTC+05:00', 'Z', '', ' UTC', 'local'],
    ...['Mars/Phobos', 'America/Nowhere', 'America/', 'Etc/EST', 'posix/UTC', 'Factory'],
    ...['__proto__', 'constructor', `Etc/${'x'.repeat(10_000)}`],
  ])('is refused: %s', (name) => {
    expect(() => checkZone(name, 'timezone')).toThrow(OjsError)
    try {
      checkZone(name, 'timezone')
    } catch (error) {
      expect(error).toMatchObject({
        status: 400,
        code: 'invalid_request',
        details: { field: 'timezone', expected: 'IANA time zone' },
      })
    }
  })
})

/** As many times after `from` as are expected, and the gaps that were skipped before each. */
function expectTimes(expression: string, timezone: string, from: string, expected: string[]): void {
  let at = Date.parse(from)
  const found = expected.map(() => {
    const tick = nextTick({ expression, timezone }, at)
    if (tick === null) throw new Error('no further time')
    at = tick.at
    const gap = tick.gapAt === null ? '' : ` gap ${new Date(tick.gapAt).toISOString()}`
    return `${new Date(at).toISOString()}${gap}`.replaceAll(':00.000Z', 'Z')
  })
  expect(found).toEqual(expected)
}

describe('a cron schedule where clocks change', () => {
  it.each<[what: string, expression: string, zone: string, from: string, expected: string[]]>([
    [
      'New York: skips a time in the gap',
      '30 2 * * *',
      'America/New_York',
      '2026-03-07T00:00Z',
      ['2026-03-07T07:30Z', '2026-03-09T06:30Z gap 2026-03-08T07:00Z', '2026-03-10T06:30Z'],
    ],
    [
      'New York: skips a time in the gap, of several',
      '0,30 1-3 * * *',
      'America/New_York',
      '2026-03-08T06:00Z',
      ['2026-03-08T06:30Z', '2026-03-08T07:00Z gap 2026-03-08T07:00Z', '2026-03-08T07:30Z'],
    ],
    [
      'New York: runs at the first time behind the gap',
      '0 3 * * *',
      'America/New_York',
      '2026-03-08T00:00Z',
      ['2026-03-08T07:00Z', '2026-03-09T07:00Z'],
    ],
    [
      'New York: runs every minute behind the gap',
      '* * * * *',
      'America/New_York',
      '2026-03-08T06:58Z',
      ['2026-03-08T06:59Z', '2026-03-08T07:00Z gap 2026-03-08T07:00Z', '2026-03-08T07:01Z'],
    ],
    [
      'New York: runs at the first of two equal local times',
      '30 1 * * *',
      'America/New_York',
      '2026-10-31T12:00Z',
      ['2026-11-01T05:30Z', '2026-11-02T06:30Z', '2026-11-03T06:30Z'],
    ],
    [
      'New York: runs at the first of two equal local times, with steps',
      '*/30 * * * *',
      'America/New_York',
      '2026-11-01T05:00Z',
      ['2026-11-01T05:30Z', '2026-11-01T07:00Z', '2026-11-01T07:30Z'],
    ],
    [
      'New York: does not run at the second of two equal local times',
      '45 1 * * *',
      'America/New_York',
      '2026-11-01T06:40Z',
      ['2026-11-02T06:45Z'],
    ],
    [
      "New York: skips a yearly time in this year's gap",
      '30 2 8 3 *',
      'America/New_York',
      '2026-01-01T00:00Z',
      ['2027-03-08T07:30Z gap 2026-03-08T07:00Z', '2028-03-08T07:30Z'],
    ],
    [
      'Berlin: skips a time in the gap',
      '15 2 * * *',
      'Europe/Berlin',
      '2026-03-28T00:00Z',
      ['2026-03-28T01:15Z', '2026-03-30T00:15Z gap 2026-03-29T01:00Z'],
    ],
    [
      'Berlin: runs at the first of two equal local times',
      '15 2 * * *',
      'Europe/Berlin',
      '2026-10-24T12:00Z',
      ['2026-10-25T00:15Z', '2026-10-26T01:15Z'],
    ],
    [
      'Sydney: skips a time in the gap in October',
      '30 2 * * *',
      'Australia/Sydney',
      '2026-10-02T20:00Z',
      ['2026-10-04T15:30Z gap 2026-10-03T16:00Z'],
    ],
    [
      'Sydney: runs at the first of two equal local times in April',
      '30 2 * * *',
      'Australia/Sydney',
      '2026-04-04T00:00Z',
      ['2026-04-04T15:30Z', '2026-04-05T16:30Z'],
    ],
    [
      'Lord Howe, which changes by half an hour: skips a time in the gap',
      '0,15,30,45 2 * * *',
      'Australia/Lord_Howe',
      '2026-10-03T15:00Z',
      ['2026-10-03T15:30Z gap 2026-10-03T15:30Z', '2026-10-03T15:45Z', '2026-10-04T15:00Z'],
    ],
    [
      'Lord Howe, which changes by half an hour: runs at the first of two equal local times',
      '45 1 * * *',
      'Australia/Lord_Howe',
      '2026-04-04T00:00Z',
      ['2026-04-04T14:45Z', '2026-04-05T15:15Z'],
    ],
    [
      'Dublin, whose summer time is its standard time: skips a time in the gap',
      '30 1 * * *',
      'Europe/Dublin',
      '2026-03-28T12:00Z',
      ['2026-03-30T00:30Z gap 2026-03-29T01:00Z'],
    ],
    [
      'Samoa: skips the day that it left out',
      '0 12 * * *',
      'Pacific/Apia',
      '2011-12-29T00:00Z',
      ['2011-12-29T22:00Z', '2011-12-30T22:00Z gap 2011-12-30T10:00Z'],
    ],
    [
      'Kolkata, which never changes: runs at each time',
      '0 9 * * *',
      'Asia/Kolkata',
      '2026-02-12T10:30Z',
      ['2026-02-13T03:30Z', '2026-02-14T03:30Z'],
    ],
    [
      'New York: runs at 9:00 local time, unlike in the example of seed 001 §13.2 (ojs-choices C-48)',
      '0 9 * * *',
      'America/New_York',
      '2026-02-12T10:30Z',
      ['2026-02-12T14:00Z', '2026-02-13T14:00Z'],
    ],
  ])('%s', (_, expression, zone, from, expected) => {
    expectTimes(expression, zone, from, expected)
  })

  it('has no next time when all its times lie in gaps', () => {
    const never = { expression: '30 2 * 3 0#2', timezone: 'America/New_York' }
    expect(nextTick(never, Date.parse('2026-01-01T00:00Z'))).toBeNull()
    expect(nextTick({ ...never, timezone: 'UTC' }, 0)).not.toBeNull()
  })

  it('finds the end of a gap of 3,600 times in one step', () => {
    const seconds = { expression: '* * * * * *', timezone: 'America/New_York' }
    const tick = nextTick(seconds, Date.parse('2026-03-08T06:59:59Z'))
    expect(tick?.at).toBe(Date.parse('2026-03-08T07:00:00Z'))
    const later = nextTick(seconds, Date.parse('2026-11-01T06:00:00Z'))
    expect(later?.at).toBe(Date.parse('2026-11-01T07:00:00Z'))
  })
})
