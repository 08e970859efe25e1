import { describe, expect, test } from 'vitest'
import { LeaseAllowance } from '../../../src/http/access/lease-allowance.ts'
import {
  callerOfAddress,
  parseRateLimit,
  RequestLimiter,
} from '../../../src/http/access/request-limiter.ts'

describe('OJS_RATE_LIMIT', () => {
  test.each([
    ['', undefined],
    ['1000/60s', { limit: 1_000, windowMs: 60_000 }],
    ['1/2m', { limit: 1, windowMs: 120_000 }],
    ['5/24h', { limit: 5, windowMs: 86_400_000 }],
  ])('is parsed: "%s"', (text, expected) => {
    const mistakes: string[] = []
    expect(parseRateLimit(text, mistakes)).toEqual(expected)
    expect(mistakes).toEqual([])
  })

  test.each(['0/60s', '10/0s', '10', '10/60', '10/25h', '1.5/s', '-1/1s', 'x'])(
    'is refused: "%s"',
    (text) => {
      const mistakes: string[] = []
      expect(parseRateLimit(text, mistakes)).toBeUndefined()
      expect(mistakes).toHaveLength(1)
    },
  )
})

describe('a window of RequestLimiter', () => {
  const rate = { limit: 2, windowMs: 1_000 }

  test('starts with the first request, and is not extended by requests over the limit', () => {
    const limiter = new RequestLimiter(rate)
    expect(limiter.take('a', 500)).toEqual({ remaining: 1, resetAt: 1_500, isOver: false })
    expect(limiter.take('a', 700)).toEqual({ remaining: 0, resetAt: 1_500, isOver: false })
    expect(limiter.take('a', 1_499)).toEqual({ remaining: 0, resetAt: 1_500, isOver: true })
    expect(limiter.take('a', 1_500)).toEqual({ remaining: 1, resetAt: 2_500, isOver: false })
  })

  test('is separate for each caller', () => {
    const limiter = new RequestLimiter(rate)
    for (let i = 0; i < 3; i++) limiter.take('a', 0)
    expect(limiter.take('b', 0).isOver).toBe(false)
  })

  test('can be read by look() without counting', () => {
    const limiter = new RequestLimiter(rate)
    expect(limiter.look('a', 0)).toEqual({ remaining: 2, resetAt: 1_000, isOver: false })
    for (let i = 0; i < 3; i++) limiter.take('a', 100)
    expect(limiter.look('a', 200)).toEqual({ remaining: 0, resetAt: 1_100, isOver: false })
  })
})

describe('the memory of RequestLimiter', () => {
  const rate = { limit: 2, windowMs: 1_000 }

  test('holds no windows that have ended', () => {
    const limiter = new RequestLimiter(rate)
    for (let i = 0; i < 100; i++) limiter.take(`a${i}`, i)
    limiter.take('b', 1_050)
    expect(limiter.size).toBe(50)
  })

  test('is bounded: callers beyond the bound share one window', () => {
    const limiter = new RequestLimiter(rate, 3)
    for (const caller of ['a', 'b', 'c']) limiter.take(caller, 0)
    const strangers = ['d', 'e', 'f', 'g'].map((caller) => limiter.take(caller, 1).isOver)
    expect(strangers).toEqual([false, false, true, true])
    expect(limiter.take('a', 2)).toMatchObject({ remaining: 0, isOver: false })
    expect(limiter.size).toBe(4)
    expect(limiter.take('d', 1_500)).toMatchObject({ remaining: 1, isOver: false })
    expect(limiter.size).toBe(1)
  })
})

describe('callerOfAddress', () => {
  test.each([
    ['10.0.0.1', '10.0.0.1'],
    ['::ffff:10.0.0.1', '10.0.0.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::9', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ])('maps %s to %s', (address, caller) => {
    expect(callerOfAddress(address)).toBe(caller)
  })
})

describe('a request that is given back', () => {
  const rate = { limit: 2, windowMs: 1_000 }

  test('may be used again, but only in the window that counted it', () => {
    const limiter = new RequestLimiter(rate)
    const taken = limiter.take('a', 0)
    limiter.take('a', 0)
    expect(limiter.giveBack('a', taken, 10)).toMatchObject({ remaining: 1 })
    const over = [limiter.take('a', 10), limiter.take('a', 10)].at(-1)
    if (over === undefined) throw new Error('no standing')
    expect(limiter.giveBack('a', over, 20)).toMatchObject({ remaining: 0 })
    limiter.take('a', 1_000)
    expect(limiter.giveBack('a', taken, 1_001)).toMatchObject({ remaining: 1 })
  })

  test('of a caller beyond the limit of callers goes back to the shared window', () => {
    const limiter = new RequestLimiter(rate, 1)
    limiter.take('a', 0)
    const taken = limiter.take('b', 0)
    expect(limiter.giveBack('b', taken, 0)).toMatchObject({ remaining: 2 })
    expect(limiter.look('a', 0)).toMatchObject({ remaining: 1 })
  })
})

describe('LeaseAllowance', () => {
  const lease = { id: 'a', attempt: 1, lengthMs: 30_000 }

  test('gives each attempt of each job twenty free requests in the length of its lease', () => {
    const allowance = new LeaseAllowance()
    const free = (now: number, more = {}) => allowance.take({ ...lease, ...more }, now)
    for (let i = 0; i < 20; i++) expect(free(i)).toBe(true)
    expect(free(29_999)).toBe(false)
    expect(free(29_999, { attempt: 2 })).toBe(true)
    expect(free(29_999, { id: 'b' })).toBe(true)
    expect(free(30_000)).toBe(true)
    // A lease of a few milliseconds is no licence for thousands of requests.
    const short = { id: 'c', lengthMs: 1 }
    for (let i = 0; i < 20; i++) expect(free(i, short)).toBe(true)
    expect(free(999, short)).toBe(false)
  })

  test('forgets the oldest of too many leases', () => {
    const allowance = new LeaseAllowance(2)
    for (let i = 0; i < 20; i++) allowance.take(lease, 0)
    allowance.take({ ...lease, id: 'b' }, 0)
    allowance.take({ ...lease, id: 'c' }, 0)
    expect(allowance.size).toBe(2)
    expect(allowance.take(lease, 0)).toBe(true)
  })
})
