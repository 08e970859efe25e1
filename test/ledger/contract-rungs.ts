import { describe, expect, it } from 'vitest'
import type { JobRow } from '../../src/job/job.ts'
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
export function rungContract({ harness, ledger, row }: UnderTest): void {
  /** A job whose retry token is in the rung. */
  const retrying = async (queue = 'q', rungMs: number | null = 250): Promise<JobRow> => {
    const job = await fetched(ledger, { queue })
    const to = { to: 'retryable', dueAt: LATER, delayMs: 250, rungMs, isTokenBack: true } as const
    await ledger.fail(job.id, fenceOf(job), { ...FAILED, ...to })
    const { outbox } = row(job.id)
    if (outbox !== null) ledger.confirmed(job.id, outbox)
    await settleLazily(ledger)
    return row(job.id)
  }
  const promoteAll = () => ledger.promote(LATER, NOW, 10_000)

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

  describe('rearmRung', () => {
    it('gives the ledger the retries whose token was in it', async () => {
      const lost = await retrying()
      const others = [
        await retrying('other'),
        await retrying('q', 350),
        await retrying('q', null),
        await fetched(ledger, { queue: 'q' }),
      ]
      expect(await ledger.rearmRung(RUNG)).toBe(1)
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
      expect(await ledger.rearmRung(RUNG)).toBe(1)
      expect(ledger.outboxPage(0, 10).map(({ id }) => id)).toEqual([lost.id])
      expect(await ledger.rearmRung(RUNG)).toBe(0)
    })

    it('leaves alone what ended or was claimed meanwhile', async () => {
      const [ended, claimed] = [await retrying(), await retrying()]
      await ledger.cancel(ended.id, NOW)
      await ledger.claim([token(claimed.id, { attempt: 2 })], { ...TERMS, now: LATER })
      await ledger.release(claimed.id, fenceOf(row(claimed.id)))
      const before = [row(ended.id), row(claimed.id)]
      expect(await ledger.rearmRung(RUNG)).toBe(0)
      expect([row(ended.id), row(claimed.id)]).toEqual(before)
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
      expect(await ledger.rearmRung(RUNG)).toBe(2100)
      expect(await ledger.rearmRung(RUNG)).toBe(0)
      expect(ledger.owedTokens(5000)).toBe(2100)
    })

    it('twice at once: each row is given to the ledger once', async () => {
      await retrying()
      const both = await Promise.all([ledger.rearmRung(RUNG), ledger.rearmRung(RUNG)])
      expect(both).toEqual([1, 0])
    })
  })

  describe('rearm, with retries on their way', () => {
    it('holds those whose token may have come out of its rung into the lost queue', async () => {
      const waiting = await retrying()
      const owing = await retrying()
      await ledger.rearmRung({ queue: 'q', delayMs: 250 })
      const late = await retrying()
      expect(await ledger.rearm('q')).toBe(0)
      expect(row(late.id)).toEqual({ ...late, rungMs: null })
      const promoted = await promoteAll()
      expect(promoted.map(({ outbox }) => outbox !== null)).toEqual([true, true, true])
      expect(promoted.map(({ id }) => id)).toEqual([waiting.id, owing.id, late.id])
    })

    it('leaves alone those whose token is not in its rung yet', async () => {
      const job = await fetched(ledger, { queue: 'q' })
      const to = { dueAt: LATER, delayMs: 250, rungMs: 250, isTokenBack: true } as const
      await ledger.fail(job.id, fenceOf(job), { ...FAILED, to: 'retryable', ...to })
      const owing = row(job.id)
      expect(await ledger.rearm('q')).toBe(0)
      expect(row(job.id)).toEqual(owing)
    })

    it('publishes those that are due, wherever their token is', async () => {
      const { id } = await retrying()
      await promoteAll()
      expect(await ledger.rearm('q')).toBe(1)
      expect(row(id)).toMatchObject({ state: 'available', rungMs: null })
      expect(row(id).outbox).not.toBeNull()
    })
  })
}
