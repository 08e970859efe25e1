import { describe, expect, it } from 'vitest'
import type { JobRow } from '../../../src/job/job.ts'
import { isStale } from '../../../src/job/stale.ts'
import {
  FAILED,
  failAttempt,
  fenceOf,
  fetched,
  giveBack,
  jobMessage,
  NOW,
  settleLazily,
  TERMS,
  type UnderTest,
} from '../harness.ts'
import { eventOf, REPORT } from './reports.ts'

const RETRY_QUEUE = { queue: 'q', delayMs: 250 }
const LATER = NOW + 1000

/** Retry queues, the TTL queues of retries: which ones the ledger remembers, and what is lost with one. */
export function retryQueueContract({ harness, ledger, row, plant }: UnderTest): void {
  /** A job whose retry job message is in the retry queue. */
  const retrying = async (queue = 'q', retryQueueMs: number | null = 250): Promise<JobRow> => {
    const job = await fetched(ledger, { queue })
    const to = {
      to: 'retryable',
      dueAt: LATER,
      delayMs: 250,
      retryQueueMs,
      isMessageBack: true,
    } as const
    await failAttempt(ledger, job.id, fenceOf(job), { ...FAILED, ...to })
    const { outbox } = await row(job.id)
    if (outbox !== null) ledger.confirmed(outbox)
    await settleLazily(ledger)
    return await row(job.id)
  }
  const promoteAll = () => ledger.promote(LATER, NOW, 10_000)
  /** A job whose retry job message is on its way into the retry queue. */
  const failing = async (): Promise<JobRow> => {
    const job = await fetched(ledger, { queue: 'q' })
    const to = {
      to: 'retryable',
      dueAt: LATER,
      delayMs: 250,
      retryQueueMs: 250,
      isMessageBack: true,
    } as const
    await failAttempt(ledger, job.id, fenceOf(job), { ...FAILED, ...to })
    return await row(job.id)
  }
  /**
   * The job message was delivered before its confirm, and acknowledged early, so the job needs another one.
   */
  const runAndRelease = async ({ id }: JobRow) => {
    await promoteAll()
    await ledger.claim([jobMessage(id, { attempt: 2 })], { ...TERMS, now: LATER })
    await ledger.handOver([{ id, generation: 0, attempt: 2 }])
    await giveBack(ledger, id, fenceOf(await row(id)))
  }
  const confirm = async ({ outbox }: JobRow) => {
    ledger.confirmed(outbox ?? 0)
    await settleLazily(ledger)
  }
  /** Prunes all ended jobs, and returns how many retention could remove. */
  const prunable = (): Promise<number> => {
    const at = NOW + 1
    const kinds = { completed: at, cancelled: at, discarded: at, withdrawn: at, deadLetters: at }
    return ledger.prune(kinds, NOW, 10)
  }

  describe('retry queues', () => {
    it('are remembered once each, also after a restart', async () => {
      const other = { queue: 'q', delayMs: 350 }
      await Promise.all([
        ledger.recordRetryQueue(RETRY_QUEUE),
        ledger.recordRetryQueue(RETRY_QUEUE),
      ])
      await ledger.recordRetryQueue(other)
      await ledger.recordRetryQueue(RETRY_QUEUE)
      expect(ledger.known.retryQueues()).toEqual([RETRY_QUEUE, other])
      await harness.reopen()
      expect(ledger.known.retryQueues()).toEqual([RETRY_QUEUE, other])
    })
  })

  describe("a retry queue's confirm of a job message whose job comes due", () => {
    it('clears the job message that is owed to the queue', async () => {
      const failed = await failing()
      await promoteAll()
      const before = await row(failed.id)
      await confirm(failed)
      expect(await row(failed.id)).toEqual({ ...before, outbox: null, retryQueueMs: 250 })
      // The job message is in the retry queue, and would be lost with it.
      expect(await ledger.rearmRetryQueue(RETRY_QUEUE, NOW)).toBe(1)
    })

    it('counts for the relay and a cancellation before it is written', async () => {
      const failed = await failing()
      const [promoted] = await promoteAll()
      ledger.confirmed(failed.outbox ?? 0)
      expect(await ledger.read.owed([promoted?.outbox ?? 0])).toEqual([])
      expect(await ledger.read.outboxPage(0, 9)).toEqual([])
      expect(await ledger.cancel(failed.id, NOW)).toMatchObject({ isMessageOwed: false })
    })

    it('counts for a promotion that comes before it is written', async () => {
      const failed = await failing()
      ledger.confirmed(failed.outbox ?? 0)
      const [promoted] = await promoteAll()
      expect(promoted).toMatchObject({ outbox: null, retryQueueMs: 250 })
      await settleLazily(ledger)
      expect(await row(failed.id)).toEqual(promoted)
    })

    it('is ignored when the retry queue, and the job message with it, was lost meanwhile', async () => {
      const failed = await failing()
      const [promoted] = await promoteAll()
      expect(await ledger.rearmRetryQueue(RETRY_QUEUE, NOW)).toBe(0)
      await confirm(failed)
      expect(await row(failed.id)).toEqual(promoted)
    })

    it.each<[string, (failed: JobRow) => Promise<unknown>]>([
      [
        'whose retry queue was lost before',
        () => ledger.rearmRetryQueue(RETRY_QUEUE, NOW).then(promoteAll),
      ],
      ['whose queue was lost meanwhile', () => promoteAll().then(() => ledger.rearm('q', NOW))],
      ['whose old job message ran and was given back', runAndRelease],
    ])('does not clear the new job message of a job %s', async (_, renew) => {
      const failed = await failing()
      await renew(failed)
      const before = await row(failed.id)
      expect(before).toMatchObject({ state: 'available', attempt: 1, retryQueueMs: null })
      expect(before.outbox).toBeGreaterThan(failed.outbox ?? 0)
      await confirm(failed)
      expect(await row(failed.id)).toEqual(before)
    })

    it('clears nothing after a restart', async () => {
      const failed = await failing()
      const [promoted] = await promoteAll()
      await harness.reopen()
      await confirm(failed)
      expect(await row(failed.id)).toEqual(promoted)
    })
  })

  describe('a job message in a retry queue', () => {
    it.each([
      ['drops', { event: 'dropped' }],
      ['has run', { event: 'completed', result: null }],
    ] as const)(
      'keeps messageOut when a worker %s the job message of the previous attempt',
      async (_, said) => {
        const [waiting, back] = [await retrying(), await retrying()]
        for (const { id } of [waiting, back]) await ledger.cancel(id, NOW)
        const events = [eventOf(waiting.id, said), eventOf(back.id, said, { attempt: 2 })]
        await ledger.applyReports(events, REPORT)
        expect(
          await Promise.all([waiting, back].map(async ({ id }) => (await row(id)).messageOut)),
        ).toEqual([true, false])
      },
    )
  })

  describe('rearmRetryQueue', () => {
    it('returns the retries whose job message was in the retry queue to the ledger', async () => {
      const lost = await retrying()
      const others = [
        await retrying('other'),
        await retrying('q', 350),
        await retrying('q', null),
        await fetched(ledger, { queue: 'q' }),
      ]
      expect(await ledger.rearmRetryQueue(RETRY_QUEUE, NOW)).toBe(1)
      const { outbox } = await row(lost.id)
      expect(await row(lost.id)).toEqual({ ...lost, retryQueueMs: null, outbox })
      expect(outbox).not.toBeNull()
      expect(others).toEqual(await Promise.all(others.map(({ id }) => row(id))))
      const promoted = await promoteAll()
      const again = promoted.find(({ id }) => id === lost.id)
      expect(again).toMatchObject({ state: 'available', retryQueueMs: null, messageOut: true })
      expect(again?.outbox).toBeGreaterThan(outbox ?? 0)
    })

    it('owes job messages for retries that are due already', async () => {
      const lost = await retrying()
      await promoteAll()
      expect(await row(lost.id)).toMatchObject({
        state: 'available',
        outbox: null,
        retryQueueMs: 250,
      })
      expect(await ledger.rearmRetryQueue(RETRY_QUEUE, NOW)).toBe(1)
      expect((await ledger.read.outboxPage(0, 10)).map(({ id }) => id)).toEqual([lost.id])
      expect(await ledger.rearmRetryQueue(RETRY_QUEUE, NOW)).toBe(0)
    })

    it('leaves jobs that were claimed meanwhile', async () => {
      const claimed = await retrying()
      await ledger.claim([jobMessage(claimed.id, { attempt: 2 })], { ...TERMS, now: LATER })
      await giveBack(ledger, claimed.id, fenceOf(await row(claimed.id)))
      const before = await row(claimed.id)
      expect(await ledger.rearmRetryQueue(RETRY_QUEUE, NOW)).toBe(0)
      expect(await row(claimed.id)).toEqual(before)
    })

    it('clears messageOut of jobs that ended while their job message was in the retry queue', async () => {
      const ended = [await retrying(), await retrying()]
      const others = [await retrying('other'), await retrying('q', 350)]
      const all = [...ended, ...others]
      for (const { id } of all) await ledger.cancel(id, NOW)
      expect(await ledger.rearmRetryQueue(RETRY_QUEUE, LATER - 1)).toBe(0)
      expect(await Promise.all(all.map(async ({ id }) => (await row(id)).messageOut))).toEqual([
        false,
        false,
        true,
        true,
      ])
      expect(await prunable()).toBe(2)
    })

    it('keeps messageOut of an ended job whose job message may have reached the job queue, until that queue is lost', async () => {
      const { id } = await retrying()
      await ledger.cancel(id, NOW)
      expect(await ledger.rearmRetryQueue(RETRY_QUEUE, LATER)).toBe(0)
      expect((await row(id)).messageOut).toBe(true)
      await ledger.rearm('q', NOW)
      expect((await row(id)).messageOut).toBe(false)
    })

    it('handles more retries than one page holds', async () => {
      const jobs = await Promise.all(
        Array.from({ length: 2100 }, () => fetched(ledger, { queue: 'q' })),
      )
      const to = {
        to: 'retryable',
        dueAt: LATER,
        delayMs: 9,
        retryQueueMs: 250,
        isMessageBack: true,
      } as const
      const failed = await Promise.all(
        jobs.map((job) => failAttempt(ledger, job.id, fenceOf(job), { ...FAILED, ...to })),
      )
      expect(failed.some((one) => isStale(one))).toBe(false)
      expect(await ledger.rearmRetryQueue(RETRY_QUEUE, NOW)).toBe(2100)
      expect(await ledger.rearmRetryQueue(RETRY_QUEUE, NOW)).toBe(0)
      expect(await ledger.read.owedMessages(5000)).toBe(2100)
    })

    it('called twice at once returns each retry to the ledger once', async () => {
      await retrying()
      const both = await Promise.all([
        ledger.rearmRetryQueue(RETRY_QUEUE, NOW),
        ledger.rearmRetryQueue(RETRY_QUEUE, NOW),
      ])
      expect(both).toEqual([1, 0])
    })
  })

  describe('rearm with retries in retry queues', () => {
    it('returns retries to the ledger whose job message may have left its retry queue for the lost queue', async () => {
      const waiting = await retrying()
      const owing = await retrying()
      await ledger.rearmRetryQueue({ queue: 'q', delayMs: 250 }, NOW)
      const late = await retrying()
      expect(await ledger.rearm('q', NOW)).toBe(0)
      expect(await row(late.id)).toEqual({ ...late, retryQueueMs: null, workerId: '' })
      const promoted = await promoteAll()
      expect(promoted.map(({ outbox }) => outbox !== null)).toEqual([true, true, true])
      expect(promoted.map(({ id }) => id)).toEqual([waiting.id, owing.id, late.id])
    })

    it('leaves retries that are due later in their retry queue, because a second job message would run as well', async () => {
      const waiting = await retrying()
      // The job message waits as long as the retry, so the due time tells when the job message left its retry
      // queue.
      const minute = 60_000
      await plant({ id: waiting.id, dueAt: NOW + minute + 1, retryDelayMs: 250 })
      const before = await row(waiting.id)
      expect(await ledger.rearm('q', NOW)).toBe(0)
      expect(await row(waiting.id)).toEqual(before)
      expect(await ledger.rearm('q', NOW + 1)).toBe(0)
      expect(await row(waiting.id)).toEqual({ ...before, retryQueueMs: null, workerId: '' })
    })

    it('returns a retry to the ledger whose job message left a retry queue that is shorter than its delay', async () => {
      const waiting = await retrying()
      await plant({ id: waiting.id, dueAt: NOW + 600_000, retryDelayMs: 600_000 })
      await ledger.rearm('q', NOW)
      expect(await row(waiting.id)).toMatchObject({ state: 'retryable', retryQueueMs: null })
    })

    it('leaves retries whose retry queue has not confirmed the job message', async () => {
      const job = await fetched(ledger, { queue: 'q' })
      const to = { dueAt: LATER, delayMs: 250, retryQueueMs: 250, isMessageBack: true } as const
      await failAttempt(ledger, job.id, fenceOf(job), { ...FAILED, to: 'retryable', ...to })
      const owing = await row(job.id)
      expect(await ledger.rearm('q', NOW)).toBe(0)
      expect(await row(job.id)).toEqual(owing)
    })

    it('owes job messages for retries that are due, wherever their job message is', async () => {
      const { id } = await retrying()
      await promoteAll()
      expect(await ledger.rearm('q', NOW)).toBe(1)
      expect(await row(id)).toMatchObject({ state: 'available', retryQueueMs: null })
      expect((await row(id)).outbox).not.toBeNull()
    })
  })
}
