import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type BackoffPolicy, chooseDelay, LADDER_MS } from '../../../src/job/retry/backoff.ts'

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

/** The delay when `random` returns `draw` first and `pick` then. */
function drawn(over: Partial<BackoffPolicy>, draw: number, pick = 0) {
  const given = [draw, pick]
  return chooseDelay({ ...seed003, ...over, jitter: true }, 1, () => given.shift() ?? neverAsked())
}

describe('backoff without jitter', () => {
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
    expect(delay({}, attempt)).toEqual({ delayMs, retryQueueMs: delayMs })
  })

  it.each<[string, Partial<BackoffPolicy>, number, number]>([
    ['linear', { strategy: 'linear' }, 3, 3_000],
    ['polynomial', { strategy: 'polynomial' }, 3, 9_000],
    ['none', { strategy: 'none' }, 9, 1_000],
    [
      'coefficient 10, capped by the maximum (L1-RTR-008)',
      { coefficient: 10, maxMs: 2_000 },
      2,
      2_000,
    ],
    ['1,234 ms is rounded up to two significant digits', { initialMs: 1_234 }, 1, 1_300],
    ['99 ms is not rounded', { initialMs: 99 }, 1, 99],
    ['101 ms is rounded up to two significant digits', { initialMs: 101 }, 1, 110],
    ['1 ms is not rounded', { initialMs: 1 }, 1, 1],
    ['the maximum applies after the rounding', { initialMs: 1_234, maxMs: 1_250 }, 1, 1_250],
    ['a maximum of many digits is not rounded', { initialMs: 99_999, maxMs: 12_345 }, 1, 12_345],
    ['floating-point noise is removed', { initialMs: 100, coefficient: 1.1 }, 2, 110],
    ['part of a millisecond is rounded up', { initialMs: 1, coefficient: 1.5 }, 2, 2],
    ['the default maximum caps a longer first delay', { initialMs: 900_000 }, 1, 300_000],
  ])('%s', (_name, over, attempt, delayMs) => {
    expect(delay(over, attempt)).toEqual({ delayMs, retryQueueMs: delayMs })
  })

  it('does not round a delay above the highest retry queue, for which the ledger waits', () => {
    const over = { initialMs: 300_001, maxMs: 3_600_000 }
    expect(delay(over, 1)).toEqual({ delayMs: 300_001, retryQueueMs: null })
    expect(delay({ ...over, initialMs: 1_234_567 }, 1)).toEqual({
      delayMs: 1_234_567,
      retryQueueMs: null,
    })
  })
})

describe('backoff with jitter', () => {
  it.each<[string, number, number, number]>([
    // Computed 1000: the interval is [500, 1500), and its retry queues are 500, 700, 1000 and 1400.
    ['takes the lowest retry queue for the lowest draw', 0, 0, 500],
    ['between 500 and 700: takes 500 with the chance that its distance gives', 0.1, 0.5, 500],
    ['between 500 and 700: takes 700 with the chance that its distance gives', 0.1, 0.49, 700],
    ['takes a retry queue that is drawn exactly', 0.5, 0, 1_000],
    [
      'above 1400: takes 1400, because the next retry queue is outside of the interval',
      0.95,
      0,
      1_400,
    ],
  ])('%s', (_name, draw, pick, delayMs) => {
    expect(drawn({}, draw, pick)).toEqual({ delayMs, retryQueueMs: delayMs })
  })

  it('never takes a retry queue above the maximum', () => {
    expect(drawn({ maxMs: 1_200 }, 0.99, 0)).toEqual({ delayMs: 1_000, retryQueueMs: 1_000 })
  })

  it('takes the lowest retry queue when the interval is below all retry queues', () => {
    expect(drawn({ initialMs: 50 }, 0.5)).toEqual({ delayMs: 125, retryQueueMs: 125 })
  })

  it('returns a maximum that is below the lowest retry queue', () => {
    expect(drawn({ initialMs: 50, maxMs: 60 }, 0)).toEqual({ delayMs: 60, retryQueueMs: 60 })
  })

  it('does not round the drawn delay when the ledger waits for it', () => {
    const over = { initialMs: 400_000, maxMs: 3_600_000 }
    expect(drawn(over, 0.6255)).toEqual({ delayMs: 450_200, retryQueueMs: null })
    expect(drawn(over, 0.1)).toEqual({ delayMs: 240_000, retryQueueMs: 240_000 })
    expect(drawn({ ...over, maxMs: 400_001 }, 0.9)).toEqual({
      delayMs: 400_001,
      retryQueueMs: null,
    })
  })

  it('picks between two retry queues so that the mean delay is the drawn one', () => {
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

/** The definition of OJS retry, written independently. */
function computed({ strategy, initialMs, coefficient, maxMs }: BackoffPolicy, n: number): number {
  const factor = { exponential: coefficient ** (n - 1), linear: n, polynomial: n ** coefficient }
  return Math.min(strategy === 'none' ? initialMs : initialMs * factor[strategy], maxMs)
}

describe('every backoff policy', () => {
  it('gives a whole delay of at least 1 ms and at most the maximum, equal to its retry queue if it has one', () => {
    fc.assert(
      fc.property(policies, attempts, unit, unit, (policy, attempt, draw, pick) => {
        const given = [draw, pick]
        const { delayMs, retryQueueMs } = chooseDelay(policy, attempt, () => given.shift() ?? 0)
        expect(Number.isSafeInteger(delayMs)).toBe(true)
        expect(delayMs).toBeGreaterThanOrEqual(1)
        expect(delayMs).toBeLessThanOrEqual(policy.maxMs)
        expect(retryQueueMs).toBe(delayMs <= 300_000 ? delayMs : null)
      }),
      { numRuns: 1_000 },
    )
  })

  it('without jitter is never early, and late by at most 10 % (or 1 ms)', () => {
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

  it('with jitter stays inside [0.5, 1.5) × the computed delay, from 84 ms on', () => {
    fc.assert(
      fc.property(policies, attempts, unit, unit, (policy, attempt, draw, pick) => {
        const exactMs = computed(policy, attempt)
        fc.pre(exactMs >= 84 && policy.maxMs >= 125)
        const given = [draw, pick]
        const { delayMs, retryQueueMs } = chooseDelay({ ...policy, jitter: true }, attempt, () => {
          return given.shift() ?? 0
        })
        expect(delayMs).toBeGreaterThanOrEqual(exactMs * 0.5 * (1 - 1e-9))
        expect(delayMs).toBeLessThan(exactMs * 1.5 + 1)
        if (retryQueueMs !== null) expect(LADDER_MS).toContain(retryQueueMs)
      }),
      { numRuns: 1_000 },
    )
  })

  it('without jitter needs at most 90 queues for each power of ten', () => {
    const retryQueues = new Set<number>()
    for (let initialMs = 1; initialMs <= 300_000; initialMs += 7) {
      retryQueues.add(delay({ initialMs }, 1).delayMs)
    }
    expect(retryQueues.size).toBeLessThan(90 * 6)
  })
})

it('the ladder has the 24 retry queues of docs/architecture.md §4.3, ascending', () => {
  expect(LADDER_MS).toHaveLength(24)
  expect(LADDER_MS).toEqual([...LADDER_MS].sort((a, b) => a - b))
  expect([LADDER_MS[0], LADDER_MS.at(-1)]).toEqual([125, 300_000])
})
