import { expect, test, vi } from 'vitest'

vi.stubGlobal('navigator', { languages: ['xx', 'en-GB', 'de'] })
const { bytes, duration, inZone, orDash, relative, short } = await import(
  '../../src/console/text/format.ts'
)
vi.unstubAllGlobals()

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

test('a duration has its two largest units', () => {
  const shown = [
    0,
    12.34,
    999,
    SECOND,
    90.5 * SECOND,
    2 * MINUTE,
    3 * HOUR + 12 * MINUTE,
    49 * HOUR,
  ]
  expect(shown.map(duration)).toEqual([
    ...['0 ms', '12.3 ms', '999 ms', '1 s', '1 m 30 s', '2 m', '3 h 12 m', '2 d 1 h'],
  ])
})

test('large numbers and sizes are short', () => {
  expect([0, 12_345, 99_999, 100_000, 1_234_567].map(short)).toEqual([
    ...['0', '12,345', '99,999', '100K', '1.2M'],
  ])
  expect([0, 999, 1_000, 12_345_678, -5_000, 5e16].map(bytes)).toEqual([
    ...['0 B', '999 B', '1 kB', '12.3 MB', '−5 kB', '50,000 TB'],
  ])
  expect([undefined, 0].map(orDash)).toEqual(['–', '0'])
})

test('a time is told from now on, and on the clocks of a zone', () => {
  const now = Date.parse('2026-03-01T12:00:00Z')
  const told = (ms) => relative(now + ms, now)
  expect([0, -999, -3 * MINUTE, 2 * HOUR + MINUTE, -49 * HOUR].map(told)).toEqual([
    ...['now', 'now', '3m ago', 'in 2h', '2d ago'],
  ])
  expect(inZone(now, 'Asia/Tokyo')).toMatch(/^Sun, .*1.*21:00$/)
  const next = (at, zone, more) => inZone(Date.parse(at), zone, { now, ...more })
  expect(next('2028-02-29T00:00:00Z', 'UTC')).toBe('Tue, Feb 29, 2028, 00:00')
  // There it is the new year already.
  expect(next('2026-12-31T22:00:30Z', 'UTC', { hasSeconds: true })).toBe('Thu, Dec 31, 22:00:30')
  expect(next('2026-12-31T22:00:30Z', 'Asia/Tokyo')).toBe('Fri, Jan 1, 2027, 07:00')
  expect(inZone(now, 'No/Where')).toMatch(/12:00 UTC$/)
})
