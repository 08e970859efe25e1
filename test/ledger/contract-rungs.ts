import { describe, expect, it } from 'vitest'
import type { JobRow } from '../../src/job/job.ts'
import { eventOf, REPORT } from './contract-reports.ts'
import {
  FAILED,
  fenceOf,
  fetched,
  NOW,
  settleLazily,
  TERMS,
  token,
  type UnderTest,
} from './harness.ts'

const RUNG = { queue: 'q', delayMs: 250 }
const LATER = NOW + 1000

/** TTL queues of retries: which there are, and what is lost with one. */
export function rungContract({ harness, ledger, row, plant }: UnderTest): void {
  /** A job whose retry token is in the rung. */
  const retrying = async (queue = 'q', rungMs: number | null = 250): Promise<JobRow> => {
    const job = await fetched(ledger, { queue })
    const to = { to: 'retryable', dueAt: LATER, delayMs: 250, rungMs, isTokenBack: true } as const
    await ledger.fail(job.id, fenceOf(job), { ...FAILED, ...to })
    const { outbox } = row(job.id)
    if (outbox !== null) ledger.confirmed(outbox)
    await settleLazily(ledger)
    return row(job.id)
  }
  const promoteAll = () => ledger.promote(LATER, NOW, 10_000)
  /** A job whose retry token is on its way into the rung. */
  const failing = async (): Promise<JobRow> => {
    const job = await fetched(ledger, { queue: 'q' })
    const to = {
      to: 'retryable',
      dueAt: LATER,
      delayMs: 250,
      rungMs: 250,
      isTokenBack: true,
    } as const
    await ledger.fail(job.id, fenceOf(job), { ...FAILED, ...to })
    return row(job.id)
  }
  /** The token was faster than its confirm, and acknowledged early: the job needs another. */
  const runAndRelease = async ({ id }: JobRow) => {
    await promoteAll()
    await ledger.claim([token(id, { attempt: 2 })], { ...TERMS, now: LATER })
    await ledger.handOver([{ id, generation: 0, attempt: 2 }])
    await ledger.release(id, fenceOf(row(id)))
  }
  const confirm = async ({ outbox }: JobRow) => {
    ledger.confirmed(outbox ?? 0)
    await settleLazily(ledger)
  }
  /** How many of those that ended retention may have. */
  const prunable = (): Promise<number> => {
    const at = NOW + 1
    const kinds = { completed: at, cancelled: at, discarded: at, withdrawn: at, deadLetters: at }
    return ledger.prune(kinds, NOW, 10)
  }

  describe('rungs', () => {
    it('are remembered once each, also over a restart', async () => {
      const other = { queue: 'q', delayMs: 350 }
      await Promise.all([ledger.recordRung(RUNG), ledger.recordRung(RUNG)])
      await ledger.recordRung(other)
      await ledger.recordRung(RUNG)
      expect(ledger.rungs()).toEqual([RUNG, other])
      await harness.reopen()
      expect(ledger.rungs()).toEqual([RUNG, other])
    })
  })

  describe('a rung that confirms a token when its job is due', () => {
    it('has it: none is owed to the queue', async () => {
      const failed = await failing()
      await promoteAll()
      const before = row(failed.id)
      await confirm(failed)
      expect(row(failed.id)).toEqual({ ...before, outbox: null, rungMs: 250 })
      // In the rung, with which it would be lost.
      expect(await ledger.rearmRung(RUNG, NOW)).toBe(1)
    })

    it('is heard at once: neither the relay nor a cancellation takes it for owed', async () => {
      const failed = await failing()
      const [promoted] = await promoteAll()
      ledger.confirmed(failed.outbox ?? 0)
      expect(ledger.isConfirming(promoted?.outbox ?? 0)).toBe(true)
      expect(ledger.outboxPage(0, 9)).toEqual([])
      expect(await ledger.cancel(failed.id, NOW)).toMatchObject({ isTokenOwed: false })
    })

    it('is heard by the job that comes due behind it', async () => {
      const failed = await failing()
      ledger.confirmed(failed.outbox ?? 0)
      const [promoted] = await promoteAll()
      expect(promoted).toMatchObject({ outbox: null, rungMs: 250 })
      await settleLazily(ledger)
      expect(row(failed.id)).toEqual(promoted)
    })

    it('is not heard where it has been lost since, with the token', async () => {
      const failed = await failing()
      const [promoted] = await promoteAll()
      expect(await ledger.rearmRung(RUNG, NOW)).toBe(0)
      await confirm(failed)
      expect(row(failed.id)).toEqual(promoted)
    })

    it.each<[string, (failed: JobRow) => Promise<unknown>]>([
      ['was lost before', () => ledger.rearmRung(RUNG, NOW).then(promoteAll)],
      ['had a queue that was lost since', () => promoteAll().then(() => ledger.rearm('q', NOW))],
      ['had its token run and given back', runAndRelease],
    ])('is not heard by the new token of a job whose rung %s', async (_, renew) => {
      const failed = await failing()
      await renew(failed)
      const before = row(failed.id)
      expect(before).toMatchObject({ state: 'available', attempt: 1, rungMs: null })
      expect(before.outbox).toBeGreaterThan(failed.outbox ?? 0)
      await confirm(failed)
      expect(row(failed.id)).toEqual(before)
    })

    it('pays nothing behind a restart', async () => {
      const failed = await failing()
      const [promoted] = await promoteAll()
      await harness.reopen()
      await confirm(failed)
      expect(row(failed.id)).toEqual(promoted)
    })
  })

  describe('a token in a rung', () => {
    it.each([
      ['drops', { event: 'dropped' }],
      ['has run', { event: 'completed', result: null }],
    ] as const)('is waited for whoever %s that of the attempt before', async (_, said) => {
      const [waiting, back] = [await retrying(), await retrying()]
      for (const { id } of [waiting, back]) await ledger.cancel(id, NOW)
      const events = [eventOf(waiting.id, said), eventOf(back.id, said, { attempt: 2 })]
      await ledger.applyReports(events, REPORT)
      expect([waiting, back].map(({ id }) => row(id).tokenOut)).toEqual([true, false])
    })
  })

  describe('rearmRung', () => {
    it('gives the ledger the retries whose token was in it', async () => {
      const lost = await retrying()
      const others = [
        await retrying('other'),
        await retrying('q', 350),
        await retrying('q', null),
        await fetched(ledger, { queue: 'q' }),
      ]
      expect(await ledger.rearmRung(RUNG, NOW)).toBe(1)
      const { outbox } = row(lost.id)
      expect(row(lost.id)).toEqual({ ...lost, rungMs: null, outbox })
      expect(outbox).not.toBeNull()
      expect(others).toEqual(others.map(({ id }) => row(id)))
      const promoted = await promoteAll()
      const again = promoted.find(({ id }) => id === lost.id)
      expect(again).toMatchObject({ state: 'available', rungMs: null, tokenOut: true })
      expect(again?.outbox).toBeGreaterThan(outbox ?? 0)
    })

    it('publishes those that are due already', async () => {
      const lost = await retrying()
      await promoteAll()
      expect(row(lost.id)).toMatchObject({ state: 'available', outbox: null, rungMs: 250 })
      expect(await ledger.rearmRung(RUNG, NOW)).toBe(1)
      expect(ledger.outboxPage(0, 10).map(({ id }) => id)).toEqual([lost.id])
      expect(await ledger.rearmRung(RUNG, NOW)).toBe(0)
    })

    it('leaves alone what was claimed meanwhile', async () => {
      const claimed = await retrying()
      await ledger.claim([token(claimed.id, { attempt: 2 })], { ...TERMS, now: LATER })
      await ledger.release(claimed.id, fenceOf(row(claimed.id)))
      const before = row(claimed.id)
      expect(await ledger.rearmRung(RUNG, NOW)).toBe(0)
      expect(row(claimed.id)).toEqual(before)
    })

    it('has nobody wait for the token of a job that ended meanwhile', async () => {
      const ended = [await retrying(), await retrying()]
      const others = [await retrying('other'), await retrying('q', 350)]
      const all = [...ended, ...others]
      for (const { id } of all) await ledger.cancel(id, NOW)
      expect(await ledger.rearmRung(RUNG, LATER - 1)).toBe(0)
      expect(all.map(({ id }) => row(id).tokenOut)).toEqual([false, false, true, true])
      expect(await prunable()).toBe(2)
    })

    it('leaves it to the job queue where that may have had the token before', async () => {
      const { id } = await retrying()
      await ledger.cancel(id, NOW)
      expect(await ledger.rearmRung(RUNG, LATER)).toBe(0)
      expect(row(id).tokenOut).toBe(true)
      await ledger.rearm('q', NOW)
      expect(row(id).tokenOut).toBe(false)
    })

    it('takes as many pages as it needs', async () => {
      const jobs = await Promise.all(
        Array.from({ length: 2100 }, () => fetched(ledger, { queue: 'q' })),
      )
      const to = {
        to: 'retryable',
        dueAt: LATER,
        delayMs: 9,
        rungMs: 250,
        isTokenBack: true,
      } as const
      const failed = await Promise.all(
        jobs.map((job) => ledger.fail(job.id, fenceOf(job), { ...FAILED, ...to })),
      )
      expect(failed).not.toContain('stale')
      expect(await ledger.rearmRung(RUNG, NOW)).toBe(2100)
      expect(await ledger.rearmRung(RUNG, NOW)).toBe(0)
      expect(ledger.owedTokens(5000)).toBe(2100)
    })

    it('twice at once: each row is given to the ledger once', async () => {
      await retrying()
      const both = await Promise.all([ledger.rearmRung(RUNG, NOW), ledger.rearmRung(RUNG, NOW)])
      expect(both).toEqual([1, 0])
    })
  })

  describe('rearm, with retries on their way', () => {
    it('holds those whose token may have come out of its rung into the lost queue', async () => {
      const waiting = await retrying()
      const owing = await retrying()
      await ledger.rearmRung({ queue: 'q', delayMs: 250 }, NOW)
      const late = await retrying()
      expect(await ledger.rearm('q', NOW)).toBe(0)
      expect(row(late.id)).toEqual({ ...late, rungMs: null, workerId: '' })
      const promoted = await promoteAll()
      expect(promoted.map(({ outbox }) => outbox !== null)).toEqual([true, true, true])
      expect(promoted.map(({ id }) => id)).toEqual([waiting.id, owing.id, late.id])
    })

    it('leaves those in their rung that are due later: a second token would be run as well', async () => {
      const waiting = await retrying()
      // As long as the retry waits, its token does: the ledger says when that was.
      const minute = 60_000
      await plant({ id: waiting.id, dueAt: NOW + minute + 1, retryDelayMs: 250 })
      const before = row(waiting.id)
      expect(await ledger.rearm('q', NOW)).toBe(0)
      expect(row(waiting.id)).toEqual(before)
      expect(await ledger.rearm('q', NOW + 1)).toBe(0)
      expect(row(waiting.id)).toEqual({ ...before, rungMs: null, workerId: '' })
    })

    it('holds one whose token left a rung that is shorter than its delay', async () => {
      const waiting = await retrying()
      await plant({ id: waiting.id, dueAt: NOW + 600_000, retryDelayMs: 600_000 })
      await ledger.rearm('q', NOW)
      expect(row(waiting.id)).toMatchObject({ state: 'retryable', rungMs: null })
    })

    it('leaves alone those whose token is not in its rung yet', async () => {
      const job = await fetched(ledger, { queue: 'q' })
      const to = { dueAt: LATER, delayMs: 250, rungMs: 250, isTokenBack: true } as const
      await ledger.fail(job.id, fenceOf(job), { ...FAILED, to: 'retryable', ...to })
      const owing = row(job.id)
      expect(await ledger.rearm('q', NOW)).toBe(0)
      expect(row(job.id)).toEqual(owing)
    })

    it('publishes those that are due, wherever their token is', async () => {
      const { id } = await retrying()
      await promoteAll()
      expect(await ledger.rearm('q', NOW)).toBe(1)
      expect(row(id)).toMatchObject({ state: 'available', rungMs: null })
      expect(row(id).outbox).not.toBeNull()
    })
  })
}
