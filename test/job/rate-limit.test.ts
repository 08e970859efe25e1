import { describe, expect, it } from 'vitest'
import { rateLimitOf } from '../../src/job/rate-limit.ts'

const body = (max_per_second: unknown) => ({ type: 'a.b', rate_limit: { max_per_second } })

describe('the rate limit of a job', () => {
  it.each([
    [1, 1, 1_000],
    [10, 10, 1_000],
    [2.5, 2, 800],
    [1.5, 1, 1_000 / 1.5],
    [0.5, 1, 2_000],
    [0.000_001, 1, 3_600_000],
    [1_000_000, 1_000_000, 1_000],
  ])('of %s per second allows %s starts within %s ms', (rate, starts, windowMs) => {
    expect(rateLimitOf(body(rate), 'q')).toEqual({ key: 'q', starts, windowMs })
    // The limit is not exceeded on average, nor within any second.
    expect(starts / windowMs).toBeCloseTo(Math.max(rate, 1 / 3_600) / 1_000)
    expect(starts).toBeLessThanOrEqual(Math.max(1, rate))
  })

  it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e9, '1', null, undefined, {}])(
    'of %s per second is ignored',
    (rate) => {
      expect(rateLimitOf(body(rate), 'q')).toBeNull()
    },
  )

  it.each([null, 7, 'text', [], {}, { rate_limit: 5 }, { options: null }, { rate_limit: null }])(
    'is null for %j',
    (value) => {
      expect(rateLimitOf(value, 'q')).toBeNull()
    },
  )

  it.each([undefined, 7, {}, 'x'.repeat(256)])('is null for the invalid type %j', (type) => {
    expect(rateLimitOf({ ...body(1), type }, 'q')).toBeNull()
  })

  it('is read from the body and from options, which win', () => {
    const native = { ...body(1), options: { rate_limit: { max_per_second: 3 } } }
    expect(rateLimitOf(native, 'q')?.starts).toBe(3)
    expect(rateLimitOf({ ...native, options: {} }, 'q')?.starts).toBe(1)
  })

  it('has one key for each queue, whatever the type', () => {
    const other = { ...body(1), type: 'c' }
    const keys = [
      rateLimitOf(body(1), 'q'),
      rateLimitOf(body(9), 'q'),
      rateLimitOf(body(1), 'r'),
      rateLimitOf(other, 'q'),
    ].map((limit) => limit?.key)
    expect(new Set(keys)).toEqual(new Set(['q', 'r']))
  })
})
