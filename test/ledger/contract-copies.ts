import { describe, expect, it } from 'vitest'
import type { JobRow } from '../../src/job/job.ts'
import type { Said } from '../../src/job/report.ts'
import { newJob } from '../support/jobs.ts'
import { eventOf, REPORT } from './contract-reports.ts'
import {
  copyCame,
  died,
  FAILED,
  fenceOf,
  fetched,
  NOW,
  pushed,
  settleLazily,
  staleQueues,
  sweep,
  TERMS,
  token,
  type UnderTest,
} from './harness.ts'

/** Copies in DLX queues: which are owed, and which nobody needs any more. */
export function copyContract({ harness, ledger, row, plant }: UnderTest): void {
  const discarded = async (copy: 'nack' | 'publish', isDeadLetter: boolean): Promise<JobRow> => {
    const job = await fetched(ledger, { queue: 'q' })
    await ledger.fail(job.id, fenceOf(job), { ...FAILED, to: 'discarded', isDeadLetter, copy })
    return row(job.id)
  }

  // The lease was ours, and its connection lost: RabbitMQ gave the token to a native worker.
  describe('the copy of a dead letter whose token a native worker has run', () => {
    const left: Said = {
      ...{ event: 'failed', outcome: null },
      failure: { code: 'e', type: 'e', message: 'it broke', retryable: true },
    }

    it.each<[string, Said]>([
      ['succeeded', { event: 'completed', result: null }],
      ['failed', left],
      ['held its retry', { ...left, outcome: { decision: 'retry', delay_ms: 9 } }],
      ['dropped it', { event: 'dropped' }],
      ['found it expired', { event: 'expired' }],
    ])('is owed when that is acknowledged, once: it %s', async (_, said) => {
      const { id } = await discarded('nack', true)
      expect(row(id)).toMatchObject({ tokenOut: true, outbox: null })
      await ledger.applyReports([eventOf(id, said)], REPORT)
      const { outbox } = row(id)
      expect(row(id)).toMatchObject({ tokenOut: false, deadLetterCopied: false })
      expect(ledger.outboxPage(0, 10).map((owed) => owed.id)).toEqual([id])
      await ledger.applyReports([eventOf(id, said)], REPORT)
      expect(row(id).outbox).toBe(outbox)
      ledger.copyConfirmed(id, outbox ?? 0)
      await settleLazily(ledger)
      await ledger.applyReports([eventOf(id, said)], REPORT)
      expect(row(id)).toMatchObject({ outbox: null, deadLetterCopied: true })
    })

    it('is owed no more when the token has come after all, and was rejected: it is there', async () => {
      const { id } = await discarded('nack', true)
      await ledger.applyReports([eventOf(id, { event: 'dropped' })], REPORT)
      expect(row(id).outbox).not.toBeNull()
      await copyCame(ledger, id, 0)
      expect(row(id)).toMatchObject({ outbox: null, deadLetterCopied: true })
    })

    it('is made by the nack of a worker that rejects it', async () => {
      const { id } = await discarded('nack', true)
      const said: Said = { ...left, outcome: { decision: 'discard' } }
      await ledger.applyReports([eventOf(id, said)], REPORT)
      expect(row(id)).toMatchObject({ tokenOut: false, outbox: null })
    })

    it('is on its way where our own nack was sent', async () => {
      const { id } = await discarded('nack', true)
      ledger.tokenReturned(id, 0)
      await settleLazily(ledger)
      await ledger.applyReports([eventOf(id, { event: 'completed', result: null })], REPORT)
      expect(row(id)).toMatchObject({ tokenOut: false, outbox: null })
    })

    it('is there already, or needed by nobody', async () => {
      const [copied, plain] = [await discarded('nack', true), await discarded('nack', false)]
      await plant({ id: copied.id, deadLetterCopied: true })
      const events = [copied, plain].map(({ id }) => eventOf(id, { event: 'dropped' }))
      await ledger.applyReports(events, REPORT)
      expect(ledger.outboxPage(0, 10)).toEqual([])
    })
  })

  describe('a copy that is published', () => {
    it.each([false, true])(
      'is recorded when it is confirmed, also after a restart: %s',
      async (again) => {
        const job = await discarded('publish', true)
        if (again) await harness.reopen()
        ledger.copyConfirmed(job.id, job.outbox ?? 0)
        await settleLazily(ledger)
        expect(row(job.id)).toEqual({ ...job, outbox: null, deadLetterCopied: true })
        expect(staleQueues(ledger)).toEqual([])
      },
    )

    it('of a plain discard is stale at once', async () => {
      const job = await discarded('publish', false)
      expect(staleQueues(ledger)).toEqual([])
      ledger.copyConfirmed(job.id, job.outbox ?? 0)
      await settleLazily(ledger)
      expect(row(job.id).deadLetterCopied).toBe(true)
      expect(staleQueues(ledger)).toEqual(['q'])
    })

    it('of a job that has gone on is stale, and records nothing', async () => {
      const [revived, deleted] = [
        await discarded('publish', true),
        await discarded('publish', true),
      ]
      const other = await died(ledger, { queue: 'other' })
      await ledger.revive(revived.id, 0, NOW)
      expect(staleQueues(ledger)).toEqual([])
      ledger.copyConfirmed(revived.id, revived.outbox ?? 0)
      await settleLazily(ledger)
      expect(row(revived.id)).toMatchObject({ state: 'available', deadLetterCopied: false })
      expect(row(revived.id).outbox).toBeGreaterThan(revived.outbox ?? 0)
      expect(staleQueues(ledger)).toEqual(['q'])
      await sweep(ledger, 'q')
      await ledger.deleteDeadLetter(deleted.id, NOW)
      expect(ledger.outboxPage(0, 10).map(({ id }) => id)).toEqual([revived.id])
      ledger.copyConfirmed(deleted.id, deleted.outbox ?? 0)
      await settleLazily(ledger)
      expect(staleQueues(ledger)).toEqual(['q'])
      expect(row(other.id)).toEqual(other)
    })

    it('is owed still when that of an earlier life is confirmed', async () => {
      const first = await discarded('publish', true)
      await ledger.revive(first.id, 0, NOW)
      const [claimed] = await ledger.claim([token(first.id, { generation: 1 })], TERMS)
      expect(claimed?.verdict).toBe('claimed')
      const change = { ...FAILED, to: 'discarded', isDeadLetter: true, copy: 'publish' } as const
      await ledger.fail(first.id, { generation: 1, attempt: 1 }, change)
      const second = row(first.id)
      ledger.copyConfirmed(first.id, first.outbox ?? 0)
      await settleLazily(ledger)
      expect(row(first.id)).toEqual(second)
      expect(second).toMatchObject({ outbox: expect.any(Number), deadLetterCopied: false })
    })

    it('leaves a token of a live job to its own confirm', async () => {
      const { id, outbox } = await pushed(ledger)
      ledger.confirmed(outbox)
      await settleLazily(ledger)
      expect(row(id)).toMatchObject({ outbox: null, deadLetterCopied: false })
    })
  })

  describe('a copy that was made by a nack', () => {
    it.each([
      [true, []],
      [false, ['q']],
    ])('is stale unless the job is a dead letter (%s)', async (isDeadLetter, stale) => {
      const job = await discarded('nack', isDeadLetter)
      expect(staleQueues(ledger)).toEqual([])
      await copyCame(ledger, job.id, 0)
      await settleLazily(ledger)
      expect(row(job.id).deadLetterCopied).toBe(true)
      expect(staleQueues(ledger)).toEqual(stale)
    })

    it('is asked for again until it is told of, also of a token run as a later attempt', async () => {
      const { id } = await pushed(ledger, { queue: 'q', maxAttempts: 2 })
      await plant({ ...row(id), attempt: 2, holder: 'native', outbox: null })
      const arrive = async () =>
        (await ledger.claim([token(id, { attempt: 1 })], TERMS))[0]?.verdict
      expect([await arrive(), await arrive()]).toEqual(['exhausted', 'dead-letter'])
      await copyCame(ledger, id, 0)
      expect(await arrive()).toBe('drop')
    })

    it('and is told of when the job has gone on is stale too', async () => {
      const revived = await discarded('nack', true)
      await ledger.revive(revived.id, 0, NOW)
      await copyCame(ledger, revived.id, 0)
      await settleLazily(ledger)
      expect(row(revived.id).deadLetterCopied).toBe(false)
      expect(staleQueues(ledger)).toEqual(['q'])
    })

    it('and is told of when the dead letter is deleted is stale too', async () => {
      const deleted = await discarded('nack', true)
      await ledger.deleteDeadLetter(deleted.id, NOW)
      expect(staleQueues(ledger)).toEqual([])
      await copyCame(ledger, deleted.id, 0)
      await settleLazily(ledger)
      expect(staleQueues(ledger)).toEqual(['q'])
    })

    it('of a job that is unknown or copied already changes nothing', async () => {
      const copied = await died(ledger, { queue: 'q' })
      for (const id of [copied.id, 'nobody']) await copyCame(ledger, id, 0)
      await settleLazily(ledger)
      expect(staleQueues(ledger)).toEqual([])
    })
  })

  describe('staleCopies', () => {
    const makeStale = async (queue: string) => {
      await died(ledger, { queue, isDeadLetter: false })
    }

    it('are remembered over a restart, until a sweep has ended', async () => {
      await makeStale('a')
      await makeStale('b')
      await makeStale('a')
      expect(staleQueues(ledger)).toEqual(['a', 'b'])
      await harness.reopen()
      expect(staleQueues(ledger)).toEqual(['a', 'b'])
      await sweep(ledger, 'a')
      expect(staleQueues(ledger)).toEqual(['b'])
      await harness.reopen()
      expect(staleQueues(ledger)).toEqual(['b'])
    })

    it('are there again when the process goes during a sweep', async () => {
      await makeStale('a')
      await harness.reopen()
      expect(staleQueues(ledger)).toEqual(['a'])
      await sweep(ledger, 'a', () => makeStale('a'))
      expect(staleQueues(ledger)).toEqual(['a'])
      await sweep(ledger, 'a')
      expect(staleQueues(ledger)).toEqual([])
    })

    it('that come up during a sweep survive it, and count for the next one', async () => {
      await makeStale('a')
      await makeStale('b')
      await sweep(ledger, 'a', () => makeStale('a'))
      expect(staleQueues(ledger)).toEqual(['a', 'b'])
      await harness.reopen()
      expect(staleQueues(ledger)).toEqual(['a', 'b'])
      await sweep(ledger, 'a', () => makeStale('b'))
      expect(staleQueues(ledger)).toEqual(['b'])
    })

    it('that were swept already are not cleared by a sweep from before', async () => {
      await makeStale('a')
      await sweep(ledger, 'a', async () => {
        await sweep(ledger, 'a')
        await makeStale('a')
      })
      expect(staleQueues(ledger)).toEqual(['a'])
    })

    it('count in the order in which they are written, in one turn too', async () => {
      const [first, second] = [
        await died(ledger, { queue: 'a' }),
        await died(ledger, { queue: 'a' }),
      ]
      await ledger.deleteDeadLetter(first.id, NOW)
      const mark = ledger.staleCopies().get('a') ?? -1
      const deleting = ledger.deleteDeadLetter(second.id, NOW)
      await Promise.all([ledger.swept('a', mark), deleting])
      expect(staleQueues(ledger)).toEqual(['a'])
      await Promise.all([makeStale('a'), ledger.swept('a', mark)])
      expect(staleQueues(ledger)).toEqual(['a'])
      const newest = ledger.staleCopies().get('a') ?? -1
      await Promise.all([ledger.swept('a', newest), ledger.swept('a', newest)])
      expect(staleQueues(ledger)).toEqual([])
    })

    it('stay noted when another write of the same turn is refused', async () => {
      const [a, b] = [await died(ledger, { queue: 'a' }), await died(ledger, { queue: 'b' })]
      const batch = [newJob(), newJob({ id: a.id })]
      const [first, refused, second, rung] = await Promise.all([
        ledger.deleteDeadLetter(a.id, NOW),
        ledger.insertAll([...batch, ...batch], NOW),
        ledger.deleteDeadLetter(b.id, NOW),
        ledger.recordRung({ queue: 'a', delayMs: 5 }),
        ledger.insertAll([newJob({ id: 'twice' }), newJob({ id: 'twice' })], NOW),
      ])
      expect([first, refused.outcome, second, rung]).toEqual([true, 'duplicate', true, undefined])
      expect(staleQueues(ledger)).toEqual(['a', 'b'])
      expect(ledger.rungs()).toEqual([{ queue: 'a', delayMs: 5 }])
    })
  })
}
