import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OjsError } from '../../../src/errors.ts'
import { nativeDueAt } from '../../../src/job/native/schedule.ts'
import { MAX_DURATION_MS } from '../../../src/job/values/duration.ts'

const WALL = 1_700_000_000_000

describe('nativeDueAt', () => {
  it.each([
    ['no header', {}, null],
    ['a number', { 'x-delay': 1_500 }, WALL + 1_500],
    ['a number beyond 32 bits', { 'x-delay': 5_000_000_000 }, WALL + 5_000_000_000],
    ['digits', { 'x-delay': '250' }, WALL + 250],
    ['a fraction, rounded up', { 'x-delay': 0.2 }, WALL + 1],
    ['zero', { 'x-delay': 0 }, WALL],
    ['a negative number', { 'x-delay': -1_000 }, WALL],
    ['a negative number, as text', { 'x-delay': '-1000' }, WALL],
    ['the longest delay', { 'x-delay': MAX_DURATION_MS }, WALL + MAX_DURATION_MS],
    ['an instant', { 'x-ojs-scheduled-at': '2030-01-01T00:00:00Z' }, Date.UTC(2030, 0, 1)],
    [
      'an instant with an offset',
      { 'x-ojs-scheduled-at': '2030-01-01T02:00:00+02:00' },
      Date.UTC(2030, 0, 1),
    ],
    ['a past instant', { 'x-ojs-scheduled-at': '2001-01-01T00:00:00Z' }, Date.UTC(2001, 0, 1)],
    ['a relative time', { 'x-ojs-scheduled-at': '+PT5S' }, WALL + 5_000],
    [
      'x-delay before an invalid x-ojs-scheduled-at',
      { 'x-delay': 1, 'x-ojs-scheduled-at': 'nonsense' },
      WALL + 1,
    ],
  ])('reads %s', (_, headers, expected) => {
    expect(nativeDueAt(headers, WALL)).toBe(expected)
  })

  it.each([
    [{ 'x-delay': 'soon' }],
    [{ 'x-delay': '' }],
    [{ 'x-delay': '1e3' }],
    [{ 'x-delay': '0x10' }],
    [{ 'x-delay': '9'.repeat(16) }],
    [{ 'x-delay': MAX_DURATION_MS + 1 }],
    [{ 'x-delay': Number.NaN }],
    [{ 'x-delay': Number.POSITIVE_INFINITY }],
    [{ 'x-delay': true }],
    [{ 'x-delay': null }],
    [{ 'x-delay': [5] }],
    [{ 'x-delay': { '!': 'timestamp', value: 5 } }],
    [{ 'x-delay': { toString: 5, valueOf: 5 } }],
    [{ 'x-delay': Buffer.from('5') }],
    [{ 'x-ojs-scheduled-at': '' }],
    [{ 'x-ojs-scheduled-at': 5 }],
    [{ 'x-ojs-scheduled-at': '2030-01-01T00:00:00' }],
  ])('refuses %j', (headers) => {
    expect(() => nativeDueAt(headers, WALL)).toThrow(OjsError)
  })

  it('returns a safe integer that is never early, or throws an OjsError, for any header', () => {
    fc.assert(
      fc.property(fc.oneof(fc.anything(), fc.double(), fc.integer().map(String)), (delay) => {
        let dueAt: number | null
        try {
          dueAt = nativeDueAt({ 'x-delay': delay }, WALL)
        } catch (error) {
          return error instanceof OjsError
        }
        if (delay === undefined) return dueAt === null
        return Number.isSafeInteger(dueAt) && Number(dueAt) - WALL >= Number(delay)
      }),
    )
  })
})
