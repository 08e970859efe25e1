import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formatDuration, isIsoDuration, parseDuration } from '../../src/job/values/duration.ts'
import { parseInstant } from '../../src/job/values/instant.ts'

describe('durations', () => {
  it.each([
    ['PT1S', 1_000],
    ['PT0.25S', 250],
    ['PT5M', 300_000],
    ['P1DT2H', 93_600_000],
    ['P1W', 604_800_000],
    ['P1Y', 31_536_000_000],
    ['1s', 1_000],
    ['300s', 300_000],
    ['250ms', 250],
  ])('%s is %i ms', (text, ms) => {
    expect(parseDuration(text, 'x')).toBe(ms)
  })

  it.each(['', 'P', 'PT', 'P1DT', '1', '-PT1S', 'PT1H1H', 'P200Y', 'PT1S ', '1 s', 'P'.repeat(99)])(
    'refuses %j and names the field',
    (text) => {
      expect(() => parseDuration(text, 'retry.initial_interval')).toThrow('retry.initial_interval')
    },
  )

  it('says only that a duration is too long', () => {
    expect(parseDuration('P10Y', 'x')).toBe(315_360_000_000)
    expect(() => parseDuration('P10YT1S', 'x')).toThrow(
      "The 'x' field must not be longer than ten years.",
    )
    const details = expect.objectContaining({ received: 'P11Y' })
    expect(() => parseDuration('P11Y', 'x')).toThrow(expect.objectContaining({ details }))
  })

  it('are formatted so that parsing gives the same milliseconds', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10_000_000_000 }), (ms) => {
        const text = formatDuration(ms)
        expect(isIsoDuration(text)).toBe(true)
        expect(parseDuration(text, 'x')).toBe(ms)
      }),
    )
  })
})

describe('instants', () => {
  it.each([
    ['2026-02-12T10:30:00Z', '2026-02-12T10:30:00Z'],
    ['2026-02-12T10:30:00.1230Z', '2026-02-12T10:30:00.1230Z'],
    ['2026-02-12T12:30:00+02:00', '2026-02-12T10:30:00.000Z'],
    ['2026-02-12 10:30:00z', '2026-02-12T10:30:00.000Z'],
    ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00Z'],
    ['9999-12-31T23:59:59Z', '9999-12-31T23:59:59Z'],
    // A leap second is stored as the second that follows.
    ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z'],
    ['1998-12-31t15:59:60.25-08:00', '1999-01-01T00:00:00.250Z'],
  ])('%s is kept as %s', (input, text) => {
    const instant = parseInstant(input, 'x', 0)
    expect(instant.text).toBe(text)
    expect(instant.ms).toBe(Date.parse(text))
  })

  it.each([
    ['2026-02-12T10:30:00.123456Z', '2026-02-12T10:30:00.123456Z', '2026-02-12T10:30:00.124Z'],
    ['2026-02-12T12:30:00.999000001+02:00', '2026-02-12T10:30:01.000Z', '2026-02-12T10:30:01.000Z'],
    // The last representable instant is not rounded up.
    ['9999-12-31T23:59:59.9999999Z', '9999-12-31T23:59:59.9999999Z', '9999-12-31T23:59:59.999Z'],
  ])('%s, finer than a millisecond, is kept as %s and counted as %s', (input, text, at) => {
    expect(parseInstant(input, 'x', 0)).toEqual({ text, ms: Date.parse(at) })
  })

  it.each([
    '2026-02-12',
    '2026-02-12T10:30:00',
    '2025-02-29T00:00:00Z',
    '2026-13-01T00:00:00Z',
    // RFC 3339 has no hour 24 and no years 0 or 10000, so a client could not read it back.
    '2026-02-12T24:00:00Z',
    '9999-12-31T23:59:59-12:00',
    '0000-01-01T00:00:00+14:00',
    // No UTC day ends there.
    '2016-12-31T22:59:60Z',
    '2016-12-31T23:59:60+01:00',
    '1960-12-31T12:00:60Z',
    '9999-12-31T23:59:60Z',
    'now',
  ])('refuses %s', (input) => {
    expect(() => parseInstant(input, 'expires_at', 0)).toThrow('expires_at')
  })
})
