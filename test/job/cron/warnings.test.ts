import { expect, it } from 'vitest'
import { cronWarnings } from '../../../src/job/cron/warnings.ts'
import type { PushOptions } from '../../../src/job/request.ts'

const NOW = Date.parse('2026-02-12T10:30:00Z')

const definition = (expression: string, timezone: string, options: PushOptions = {}) => ({
  name: 'n',
  expression,
  timezone,
  overlap: 'skip' as const,
  isEnabled: true,
  description: null,
  template: { type: 'a', args: [], options },
})

const told = (expression: string, timezone: string, now = NOW) =>
  cronWarnings(definition(expression, timezone), now).map(({ code, at }) => `${code} ${at}`)

const BERLIN = ['skipped_times 2026-03-29T01:00:00.000Z', 'repeated_times 2026-10-25T01:00:00.000Z']

it('an entry is warned of the next changes of the clocks that meet its times', () => {
  expect(told('* * * * *', 'Europe/Berlin')).toEqual(BERLIN)
  expect(told('30 2 * * *', 'Europe/Berlin')).toEqual(BERLIN)
  expect(told('59 59 2 * * *', 'Europe/Berlin')).toEqual(BERLIN)
  expect(told('0 2 * * SUN', 'Europe/Berlin')).toEqual(BERLIN)
  // Already summer: first the repeated hour, then next year's skipped one.
  expect(told('@hourly', 'Europe/Berlin', Date.parse('2026-06-01T00:00:00Z'))).toEqual([
    'repeated_times 2026-10-25T01:00:00.000Z',
    'skipped_times 2027-03-28T01:00:00.000Z',
  ])
  // Half an hour, and the other half of the year.
  expect(told('45 1 * * *', 'Australia/Lord_Howe')).toEqual([
    'repeated_times 2026-04-04T15:00:00.000Z',
  ])
  // During Ramadan the clocks of Morocco are set back for four weeks.
  expect(told('30 2 * * *', 'Africa/Casablanca')).toEqual([
    'repeated_times 2026-02-15T02:00:00.000Z',
    'skipped_times 2026-03-22T02:00:00.000Z',
  ])
  // Here it is midnight that does not exist; 23:00 to 24:00 exists twice.
  expect(told('@daily', 'Africa/Cairo')).toEqual(['skipped_times 2026-04-23T22:00:00.000Z'])
  expect(told('59 23 * * *', 'Africa/Cairo')).toEqual(['repeated_times 2026-10-29T21:00:00.000Z'])
  // Two hours; and a zone whose winter is the exception.
  expect(told('30 2 * * *', 'Antarctica/Troll')).toHaveLength(2)
  expect(told('30 1 * * *', 'Europe/Dublin')).toEqual(BERLIN)
  // The clocks are set back on 1 November in 2026, and then not before 2037.
  expect(told('30 1 1 11 *', 'America/New_York')).toEqual([
    'repeated_times 2026-11-01T06:00:00.000Z',
  ])
  // A date that meets a change only in a later year.
  expect(told('30 2 26 3 *', 'Europe/Berlin')).toEqual(['skipped_times 2028-03-26T01:00:00.000Z'])
})

it('an entry whose times never meet a change of the clocks is warned of nothing', () => {
  expect(told('* * * * *', 'UTC')).toEqual([])
  expect(told('* * * * *', 'Asia/Tokyo')).toEqual([])
  expect(told('0 9 * * *', 'Europe/Berlin')).toEqual([])
  expect(told('0 3 * * *', 'Europe/Berlin')).toEqual([])
  expect(told('59 1 * * *', 'Europe/Berlin')).toEqual([])
  expect(told('30 2 * * 1', 'Europe/Berlin')).toEqual([])
})

it('a warning says what happens, in local time', () => {
  const [skipped, repeated] = cronWarnings(definition('30 2 * * *', 'Europe/Berlin'), NOW)
  expect(skipped?.message).toBe(
    'On 2026-03-29 the clocks of Europe/Berlin leap from 02:00 to 03:00: a time in between makes no job.',
  )
  expect(repeated?.message).toBe(
    'On 2026-10-25 the clocks of Europe/Berlin show 02:00 to 03:00 twice: a time in between makes one job, the first time it comes.',
  )
})

it('an entry is warned of the time from which on its jobs have expired', () => {
  const options = { expires_at: '2026-12-31T23:59:59+01:00' }
  expect(cronWarnings(definition('* * * * *', 'UTC', options), NOW)).toEqual([
    {
      code: 'expired_jobs',
      at: '2026-12-31T22:59:59.000Z',
      message:
        'From 2026-12-31T22:59:59.000Z on, each job of the entry has expired before it can run.',
    },
  ])
  expect(cronWarnings(definition('* * * * *', 'UTC', { expires_at: '+PT1H' }), NOW)).toEqual([])
})
