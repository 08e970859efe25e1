import { describe, expect, it } from 'vitest'
import { percentile } from '../../../src/job/values/histogram.ts'
import type { TrafficQuery } from '../../../src/ledger/queues.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { FAILED, failAttempt, fenceOf, jobMessage, NOW, TERMS, type UnderTest } from '../harness.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
/** The beginning of an hour. */
const START = Math.floor(NOW / HOUR) * HOUR

/** What happened in queues, by the minute and by the hour. */
export function trafficContract({ harness, ledger, row }: UnderTest): void {
  /** A job of `queue` that is stored at `at`, waits, runs, and is completed. */
  async function done(queue: string, at: number, waitMs: number, durationMs: number) {
    const job = newJob({ queue })
    await ledger.insert(job, at)
    await ledger.claim([jobMessage(job.id)], { ...TERMS, now: at + waitMs, wall: at })
    await ledger.complete(job.id, {}, { now: at + waitMs + durationMs, result: null })
  }

  async function failed(queue: string, at: number, to: 'available' | 'discarded') {
    const job = newJob({ queue })
    await ledger.insert(job, at)
    await ledger.claim([jobMessage(job.id)], { ...TERMS, now: at, wall: at })
    const change =
      to === 'available' ? { to } : ({ to, isDeadLetter: false, copy: 'publish' } as const)
    await failAttempt(ledger, job.id, fenceOf(await row(job.id)), { ...FAILED, now: at, ...change })
  }

  const points = (query: Partial<TrafficQuery> = {}) =>
    ledger.read.traffic.history({
      ...{ queue: 'q', span: 'minute', from: START, to: START + HOUR },
      ...query,
    })

  describe('the history of traffic', () => {
    it('is kept by the minute and by the hour, of each queue and of all, also after a restart', async () => {
      await done('q', START, 10, 100)
      await done('q', START + 5 * MINUTE, 20, 300)
      await failed('q', START + 5 * MINUTE, 'available')
      await failed('r', START + 5 * MINUTE, 'discarded')
      await done('r', START + HOUR, 0, 0)
      const look = async () => {
        expect(await points()).toMatchObject([
          { start: START, enqueued: 1, completed: 1, failed: 0, retried: 0, durationMs: 100 },
          {
            ...{ start: START + 5 * MINUTE, enqueued: 2, completed: 1, failed: 1, retried: 1 },
            ...{ timed: 1, durationMs: 300, waited: 2, waitMs: 20 },
          },
        ])
        expect(await points({ queue: null })).toMatchObject([
          { start: START, enqueued: 1 },
          { start: START + 5 * MINUTE, enqueued: 3, failed: 2, retried: 1 },
        ])
        const hours = { span: 'hour', to: START + 2 * HOUR } as const
        expect(await points(hours)).toMatchObject([{ start: START, enqueued: 3, completed: 2 }])
        expect(await points({ queue: null, ...hours })).toMatchObject([
          { start: START, enqueued: 4, completed: 2, failed: 2 },
          { start: START + HOUR, enqueued: 1, completed: 1 },
        ])
        expect(await points({ queue: 'nowhere' })).toEqual([])
      }
      await look()
      await harness.reopen()
      await look()
    })

    it('knows percentiles to a tenth', async () => {
      for (let i = 1; i <= 100; i++) await done('q', START, i, i * 10)
      await harness.reopen()
      await done('q', START, 1, 1_000)
      const [point] = await points()
      for (const [share, ms] of [
        [0.5, 500],
        [0.95, 950],
        [0.99, 990],
      ] as const) {
        expect(percentile(point?.durations ?? new Map(), share)).toBeGreaterThan(ms * 0.9)
        expect(percentile(point?.durations ?? new Map(), share)).toBeLessThan(ms * 1.1)
      }
      expect(percentile(point?.waits ?? new Map(), 0)).toBeLessThan(2)
      expect(percentile(new Map(), 0.5)).toBeNull()
    })

    it('misses nothing of what is committed while the rest is stored', async () => {
      for (let round = 0; round < 5; round++) {
        const [, , look] = await Promise.all([
          done('q', START, 1, 1),
          done('q', START, 1, 1),
          points(),
          done('q', START, 1, 1),
        ])
        expect(look.length).toBeLessThanOrEqual(1)
      }
      expect(await points()).toMatchObject([{ enqueued: 15, completed: 15, timed: 15, waited: 15 }])
      await harness.reopen()
      expect(await points()).toMatchObject([{ enqueued: 15, completed: 15, timed: 15, waited: 15 }])
      expect(ledger.known.traffic.lastHour('q', START)).toMatchObject({ completed: 15 })
    })

    it('of the last whole minutes leaves out the one that goes on', async () => {
      const now = START + 10 * MINUTE + 1
      await done('q', now - 5 * MINUTE - 2, 0, 0)
      await done('q', now - 5 * MINUTE, 0, 0)
      await done('q', now - 2, 0, 0)
      await done('q', now, 0, 0)
      const { traffic } = ledger.known
      expect(traffic.wholeMinutes('q', now, 5)).toMatchObject({ enqueued: 2, completed: 2 })
      expect(traffic.wholeMinutes('q', now, 1)).toMatchObject({ enqueued: 1, completed: 1 })
      expect(traffic.wholeMinutes('q', now + MINUTE, 1)).toMatchObject({ enqueued: 1 })
      expect(traffic.wholeMinutes('r', now, 5)).toMatchObject({ enqueued: 0, completed: 0 })
      expect(traffic.lastHour('q', now)).toMatchObject({ enqueued: 4, completed: 4 })
    })

    it('does not count a job that was withdrawn', async () => {
      const now = Date.now()
      const job = newJob({ queue: 'q' })
      const inserted = await ledger.insert(job, now)
      await ledger.withdraw(job.id, ('outbox' in inserted && inserted.outbox) || 0)
      const range = { from: now - HOUR, to: now + HOUR }
      const all = await points({ span: 'hour', ...range })
      expect(all.reduce((sum, { enqueued }) => sum + enqueued, 0)).toBe(0)
    })

    it('after the clock was set back forgets what is later, stored or not', async () => {
      await done('q', START, 0, 0)
      await done('q', START + 2 * HOUR, 0, 0)
      await ledger.boundWaits(START)
      await harness.reopen()
      const hours = await points({ span: 'hour', to: START + 3 * HOUR })
      expect(hours).toMatchObject([{ start: START, enqueued: 1, completed: 1 }])
      expect(ledger.known.traffic.lastHour('q', START)).toMatchObject({ completed: 1 })
    })

    it('forgets minutes after a day, and hours after 30 days', async () => {
      await done('q', START, 0, 0)
      await harness.reopen()
      await done('q', START + 25 * HOUR, 0, 0)
      await harness.reopen()
      expect(await points({ to: START + 24 * HOUR })).toEqual([])
      const hours = { span: 'hour', to: START + 24 * HOUR } as const
      expect(await points(hours)).toHaveLength(1)
      await done('q', START + 31 * 24 * HOUR, 0, 0)
      await harness.reopen()
      expect(await points(hours)).toEqual([])
    })
  })
}
