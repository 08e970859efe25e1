import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type BackoffPolicy, chooseDelay, LADDER_MS } from '../../src/job/backoff.ts'

const seed003: BackoffPolicy = {
  strategy: 'exponential',
  initialMs: 1_000,
  coefficient: 2,
  maxMs: 300_000,
  jitter: false,
}
const neverAsked = () => {
  throw new Error('no jitter, no randomness')
}

/** The delay without jitter. */
function delay(over: Partial<BackoffPolicy>, attempt: number) {
  return chooseDelay({ ...seed003, ...over }, attempt, neverAsked)
}

/** The delay when `random` gives `draw` first and `pick` then. */
function drawn(over: Partial<BackoffPolicy>, draw: number, pick = 0) {
  const given = [draw, pick]
  return chooseDelay({ ...seed003, ...over, jitter: true }, 1, () => given.shift() ?? neverAsked())
}

describe('without jitter', () => {
  it.each([
    [1, 1_000],
    [2, 2_000],
    [5, 16_000],
    [6, 32_000],
    [7, 64_000],
    [8, 130_000],
    [9, 260_000],
    [10, 300_000],
    [2_000_000_000, 300_000],
  ])('exponential, attempt %i: %i ms', (attempt, delayMs) => {
    expect(delay({}, attempt)).toEqual({ delayMs, rungMs: delayMs })
  })

  it.each<[string, Partial<BackoffPolicy>, number, number]>([
    ['linear', { strategy: 'linear' }, 3, 3_000],
    ['polynomial', { strategy: 'polynomial' }, 3, 9_000],
    ['none', { strategy: 'none' }, 9, 1_000],
    ['ten times, capped (L1-RTR-008)', { coefficient: 10, maxMs: 2_000 }, 2, 2_000],
    ['rounded up', { initialMs: 1_234 }, 1, 1_300],
    ['99 stays', { initialMs: 99 }, 1, 99],
    ['101 is rounded', { initialMs: 101 }, 1, 110],
    ['one millisecond', { initialMs: 1 }, 1, 1],
    ['the maximum wins over the rounding', { initialMs: 1_234, maxMs: 1_250 }, 1, 1_250],
    ['a maximum of many digits', { initialMs: 99_999, maxMs: 12_345 }, 1, 12_345],
    ['noise of a double', { initialMs: 100, coefficient: 1.1 }, 2, 110],
    ['part of a millisecond', { initialMs: 1, coefficient: 1.5 }, 2, 2],
    ['a default maximum below the first delay', { initialMs: 900_000 }, 1, 300_000],
  ])('%s', (_name, over, attempt, delayMs) => {
    expect(delay(over, attempt)).toEqual({ delayMs, rungMs: delayMs })
  })

  it('leaves what is above the top rung to the ledger, to the millisecond', () => {
    const over = { initialMs: 300_001, maxMs: 3_600_000 }
    expect(delay(over, 1)).toEqual({ delayMs: 300_001, rungMs: null })
    expect(delay({ ...over, initialMs: 1_234_567 }, 1)).toEqual({
      delayMs: 1_234_567,
      rungMs: null,
    })
  })
})

describe('with jitter', () => {
  it.each<[string, number, number, number]>([
    // computed 1000: the interval is [500, 1500), its rungs 500, 700, 1000 and 1400.
    ['the low end', 0, 0, 500],
    ['between 500 and 700: nearer to 500', 0.1, 0.5, 500],
    ['between 500 and 700: up with the chance of its distance', 0.1, 0.49, 700],
    ['on a rung', 0.5, 0, 1_000],
    ['above 1400: the upper neighbour is outside', 0.95, 0, 1_400],
  ])('%s', (_name, draw, pick, delayMs) => {
    expect(drawn({}, draw, pick)).toEqual({ delayMs, rungMs: delayMs })
  })

  it('never takes a rung above the maximum', () => {
    expect(drawn({ maxMs: 1_200 }, 0.99, 0)).toEqual({ delayMs: 1_000, rungMs: 1_000 })
  })

  it('goes up to the first rung when all of them are too long', () => {
    expect(drawn({ initialMs: 50 }, 0.5)).toEqual({ delayMs: 125, rungMs: 125 })
  })

  it('stops at a maximum below the first rung', () => {
    expect(drawn({ initialMs: 50, maxMs: 60 }, 0)).toEqual({ delayMs: 60, rungMs: 60 })
  })

  it('keeps what was drawn where the ledger waits', () => {
    const over = { initialMs: 400_000, maxMs: 3_600_000 }
    expect(drawn(over, 0.6255)).toEqual({ delayMs: 450_200, rungMs: null })
    expect(drawn(over, 0.1)).toEqual({ delayMs: 240_000, rungMs: 240_000 })
    expect(drawn({ ...over, maxMs: 400_001 }, 0.9)).toEqual({ delayMs: 400_001, rungMs: null })
  })

  it('keeps what was drawn, on average, between two rungs', () => {
    const picks = Array.from({ length: 1_000 }, (_, index) => (index + 0.5) / 1_000)
    for (const draw of [0.35, 0.45, 0.55]) {
      const delays = picks.map((pick) => drawn({ initialMs: 10_000 }, draw, pick).delayMs)
      expect(new Set(delays)).toEqual(new Set([8_000, 11_000]))
      const mean = delays.reduce((sum, delayMs) => sum + delayMs, 0) / picks.length
      expect(Math.abs(mean - 10_000 * (0.5 + draw))).toBeLessThan(10)
    }
  })
})

const policies = fc.record({
  strategy: fc.constantFrom('exponential' as const, 'linear' as const, 'polynomial' as const),
  initialMs: fc.integer({ min: 1, max: 1_000_000 }),
  coefficient: fc.double({ min: 1, max: 10, noNaN: true }),
  maxMs: fc.integer({ min: 1, max: 2_000_000 }),
  jitter: fc.boolean(),
})
const unit = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
const attempts = fc.oneof(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 2 ** 31 - 1 }))

/** The definition of ojs-digest §3.2, once more. */
function computed({ strategy, initialMs, coefficient, maxMs }: BackoffPolicy, n: number): number {
  const factor = { exponential: coefficient ** (n - 1), linear: n, polynomial: n ** coefficient }
  return Math.min(strategy === 'none' ? initialMs : initialMs * factor[strategy], maxMs)
}

describe('every policy', () => {
  it('gives a whole delay of at least 1 ms, at most the maximum, on its own rung or none', () => {
    fc.assert(
      fc.property(policies, attempts, unit, unit, (policy, attempt, draw, pick) => {
        const given = [draw, pick]
        const { delayMs, rungMs } = chooseDelay(policy, attempt, () => given.shift() ?? 0)
        expect(Number.isSafeInteger(delayMs)).toBe(true)
        expect(delayMs).toBeGreaterThanOrEqual(1)
        expect(delayMs).toBeLessThanOrEqual(policy.maxMs)
        expect(rungMs).toBe(delayMs <= 300_000 ? delayMs : null)
      }),
      { numRuns: 1_000 },
    )
  })

  it('is never early and at most 10 % (or 1 ms) late without jitter', () => {
    fc.assert(
      fc.property(policies, attempts, (policy, attempt) => {
        const { delayMs } = chooseDelay({ ...policy, jitter: false }, attempt, neverAsked)
        const exactMs = computed(policy, attempt)
        expect(delayMs).toBeGreaterThanOrEqual(exactMs * (1 - 1e-9))
        expect(delayMs).toBeLessThanOrEqual(Math.max(exactMs * 1.1, exactMs + 1))
      }),
      { numRuns: 1_000 },
    )
  })

  it('stays inside [0.5, 1.5) × computed with jitter, from 84 ms on', () => {
    fc.assert(
      fc.property(policies, attempts, unit, unit, (policy, attempt, draw, pick) => {
        const exactMs = computed(policy, attempt)
        fc.pre(exactMs >= 84 && policy.maxMs >= 125)
        const given = [draw, pick]
        const { delayMs, rungMs } = chooseDelay({ ...policy, jitter: true }, attempt, () => {
          return given.shift() ?? 0
        })
        expect(delayMs).toBeGreaterThanOrEqual(exactMs * 0.5 * (1 - 1e-9))
        expect(delayMs).toBeLessThan(exactMs * 1.5 + 1)
        if (rungMs !== null) expect(LADDER_MS).toContain(rungMs)
      }),
      { numRuns: 1_000 },
    )
  })

  it('needs few queues: at most 90 for each power of ten without jitter', () => {
    const rungs = new Set<number>()
    for (let initialMs = 1; initialMs <= 300_000; initialMs += 7) {
      rungs.add(delay({ initialMs }, 1).delayMs)
    }
    expect(rungs.size).toBeLessThan(90 * 6)
  })
})

it('has the 24 rungs of architecture §4.3, ascending', () => {
  expect(LADDER_MS).toHaveLength(24)
  expect(LADDER_MS).toEqual([...LADDER_MS].sort((a, b) => a - b))
  expect([LADDER_MS[0], LADDER_MS.at(-1)]).toEqual([125, 300_000])
})
