import { describe, expect, it } from 'vitest'
import type { JobRow } from '../../../src/job/job.ts'
import type { Said } from '../../../src/job/native/report.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  copyCame,
  deleteDeadLetter,
  died,
  FAILED,
  failAttempt,
  fenceOf,
  fetched,
  jobMessage,
  NOW,
  pushed,
  revive,
  settleLazily,
  staleQueues,
  sweep,
  TERMS,
  type UnderTest,
} from '../harness.ts'
import { eventOf, REPORT } from './reports.ts'

/** Copies of jobs in DLX queues: which ones the ledger owes, and which ones are stale and to be swept. */
export function copyContract({ harness, ledger, row, plant }: UnderTest): void {
  const discarded = async (copy: 'nack' | 'publish', isDeadLetter: boolean): Promise<JobRow> => {
    const job = await fetched(ledger, { queue: 'q' })
    await failAttempt(ledger, job.id, fenceOf(job), {
      ...FAILED,
      to: 'discarded',
      isDeadLetter,
      copy,
    })
    return await row(job.id)
  }

  // The gateway held the lease and lost its connection: RabbitMQ redelivered the job message to a native
  // worker.
  describe('the copy of a dead letter whose job message a native worker has run', () => {
    const failedReport: Said = {
      ...{ event: 'failed', outcome: null },
      failure: { code: 'e', type: 'e', message: 'it broke', retryable: true },
    }

    it.each<[string, Said]>([
      ['completed the job', { event: 'completed', result: null }],
      ['reported a failure', failedReport],
      ['published its own retry', { ...failedReport, outcome: { decision: 'retry', delay_ms: 9 } }],
      ['dropped the job message', { event: 'dropped' }],
      ['found the job message expired', { event: 'expired' }],
    ])(
      'is owed once when the worker acknowledges the job message because it %s',
      async (_, said) => {
        const { id } = await discarded('nack', true)
        expect(await row(id)).toMatchObject({ messageOut: true, outbox: null })
        await ledger.applyReports([eventOf(id, said)], REPORT)
        const { outbox } = await row(id)
        expect(await row(id)).toMatchObject({ messageOut: false, deadLetterCopied: false })
        expect((await ledger.read.outboxPage(0, 10)).map((owed) => owed.id)).toEqual([id])
        await ledger.applyReports([eventOf(id, said)], REPORT)
        expect((await row(id)).outbox).toBe(outbox)
        ledger.copyConfirmed(id, outbox ?? 0)
        await settleLazily(ledger)
        await ledger.applyReports([eventOf(id, said)], REPORT)
        expect(await row(id)).toMatchObject({ outbox: null, deadLetterCopied: true })
      },
    )

    it('is no longer owed when the rejected job message reaches the DLX queue after all', async () => {
      const { id } = await discarded('nack', true)
      await ledger.applyReports([eventOf(id, { event: 'dropped' })], REPORT)
      expect((await row(id)).outbox).not.toBeNull()
      await copyCame(ledger, id, 0)
      expect(await row(id)).toMatchObject({ outbox: null, deadLetterCopied: true })
    })

    it('is not owed when the worker rejects the job message, because its nack makes the copy', async () => {
      const { id } = await discarded('nack', true)
      const said: Said = { ...failedReport, outcome: { decision: 'discard' } }
      await ledger.applyReports([eventOf(id, said)], REPORT)
      expect(await row(id)).toMatchObject({ messageOut: false, outbox: null })
    })

    it('is not owed when the gateway has nacked the job message itself', async () => {
      const { id } = await discarded('nack', true)
      ledger.messageReturned(id, 0)
      await settleLazily(ledger)
      await ledger.applyReports([eventOf(id, { event: 'completed', result: null })], REPORT)
      expect(await row(id)).toMatchObject({ messageOut: false, outbox: null })
    })

    it('is not owed when it has arrived already, or when the job is not a dead letter', async () => {
      const [copied, plain] = [await discarded('nack', true), await discarded('nack', false)]
      await plant({ id: copied.id, deadLetterCopied: true })
      const events = [copied, plain].map(({ id }) => eventOf(id, { event: 'dropped' }))
      await ledger.applyReports(events, REPORT)
      expect(await ledger.read.outboxPage(0, 10)).toEqual([])
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
        expect(await row(job.id)).toEqual({ ...job, outbox: null, deadLetterCopied: true })
        expect(staleQueues(ledger)).toEqual([])
      },
    )

    it('makes its queue stale as soon as it is confirmed, when the job is not a dead letter', async () => {
      const job = await discarded('publish', false)
      expect(staleQueues(ledger)).toEqual([])
      ledger.copyConfirmed(job.id, job.outbox ?? 0)
      await settleLazily(ledger)
      expect((await row(job.id)).deadLetterCopied).toBe(true)
      expect(staleQueues(ledger)).toEqual(['q'])
    })

    it('makes its queue stale and is not recorded when the job was revived or deleted meanwhile', async () => {
      const [revived, deleted] = [
        await discarded('publish', true),
        await discarded('publish', true),
      ]
      const other = await died(ledger, { queue: 'other' })
      await revive(ledger, revived.id, NOW)
      expect(staleQueues(ledger)).toEqual([])
      ledger.copyConfirmed(revived.id, revived.outbox ?? 0)
      await settleLazily(ledger)
      expect(await row(revived.id)).toMatchObject({ state: 'available', deadLetterCopied: false })
      expect((await row(revived.id)).outbox).toBeGreaterThan(revived.outbox ?? 0)
      expect(staleQueues(ledger)).toEqual(['q'])
      await sweep(ledger, 'q')
      await deleteDeadLetter(ledger, deleted.id, NOW)
      expect((await ledger.read.outboxPage(0, 10)).map(({ id }) => id)).toEqual([revived.id])
      ledger.copyConfirmed(deleted.id, deleted.outbox ?? 0)
      await settleLazily(ledger)
      expect(staleQueues(ledger)).toEqual(['q'])
      expect(await row(other.id)).toEqual(other)
    })

    it('is still owed when the copy of an earlier generation is confirmed', async () => {
      const first = await discarded('publish', true)
      await revive(ledger, first.id, NOW)
      const [claimed] = await ledger.claim([jobMessage(first.id, { generation: 1 })], TERMS)
      expect(claimed?.verdict).toBe('claimed')
      const change = { ...FAILED, to: 'discarded', isDeadLetter: true, copy: 'publish' } as const
      await failAttempt(ledger, first.id, { generation: 1, attempt: 1 }, change)
      const second = await row(first.id)
      ledger.copyConfirmed(first.id, first.outbox ?? 0)
      await settleLazily(ledger)
      expect(await row(first.id)).toEqual(second)
      expect(second).toMatchObject({ outbox: expect.any(Number), deadLetterCopied: false })
    })

    it('is not recorded when the job message of a live job is confirmed', async () => {
      const { id, outbox } = await pushed(ledger)
      ledger.confirmed(outbox)
      await settleLazily(ledger)
      expect(await row(id)).toMatchObject({ outbox: null, deadLetterCopied: false })
    })
  })

  describe('a copy that was made by a nack', () => {
    it.each([
      [true, []],
      [false, ['q']],
    ])(
      'makes its queue stale unless the job is a dead letter (%s)',
      async (isDeadLetter, stale) => {
        const job = await discarded('nack', isDeadLetter)
        expect(staleQueues(ledger)).toEqual([])
        await copyCame(ledger, job.id, 0)
        await settleLazily(ledger)
        expect((await row(job.id)).deadLetterCopied).toBe(true)
        expect(staleQueues(ledger)).toEqual(stale)
      },
    )

    it('is requested at every arrival of the job message until it is recorded, also when the job message ran as a later attempt', async () => {
      const { id } = await pushed(ledger, { queue: 'q', maxAttempts: 2 })
      await plant({ ...(await row(id)), attempt: 2, holder: 'native', outbox: null })
      const arrive = async () =>
        (await ledger.claim([jobMessage(id, { attempt: 1 })], TERMS))[0]?.verdict
      expect([await arrive(), await arrive()]).toEqual(['exhausted', 'dead-letter'])
      await copyCame(ledger, id, 0)
      expect(await arrive()).toBe('drop')
    })

    it('makes its queue stale when it arrives after the job was revived', async () => {
      const revived = await discarded('nack', true)
      await revive(ledger, revived.id, NOW)
      await copyCame(ledger, revived.id, 0)
      await settleLazily(ledger)
      expect((await row(revived.id)).deadLetterCopied).toBe(false)
      expect(staleQueues(ledger)).toEqual(['q'])
    })

    it('makes its queue stale when it arrives after the dead letter was deleted', async () => {
      const deleted = await discarded('nack', true)
      await deleteDeadLetter(ledger, deleted.id, NOW)
      expect(staleQueues(ledger)).toEqual([])
      await copyCame(ledger, deleted.id, 0)
      await settleLazily(ledger)
      expect(staleQueues(ledger)).toEqual(['q'])
    })

    it('changes nothing when the job is unknown or its copy is recorded already', async () => {
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

    it('lists a queue, also after a restart, until a sweep of it has ended', async () => {
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

    it('lists a queue that the write of its first stale copy has recorded, also after a restart', async () => {
      const dead = {
        ...jobMessage('unknown', { adopt: () => newJob({ id: 'unknown', queue: 'new' }) }),
        describe: () => ({ error: null, errors: null, isDeadLetter: false }),
        ...{ isExpired: false, wasInQueue: false },
      }
      await ledger.discardDead(dead, { now: NOW, wall: NOW })
      expect(staleQueues(ledger)).toEqual(['new'])
      await harness.reopen()
      expect(staleQueues(ledger)).toEqual(['new'])
    })

    it('lists a queue after a restart before the sweep ended, and when a copy becomes stale during the sweep', async () => {
      await makeStale('a')
      await harness.reopen()
      expect(staleQueues(ledger)).toEqual(['a'])
      await sweep(ledger, 'a', () => makeStale('a'))
      expect(staleQueues(ledger)).toEqual(['a'])
      await sweep(ledger, 'a')
      expect(staleQueues(ledger)).toEqual([])
    })

    it('keeps a queue for the next sweep when a copy becomes stale during a sweep, also after a restart', async () => {
      await makeStale('a')
      await makeStale('b')
      await sweep(ledger, 'a', () => makeStale('a'))
      expect(staleQueues(ledger)).toEqual(['a', 'b'])
      await harness.reopen()
      expect(staleQueues(ledger)).toEqual(['a', 'b'])
      await sweep(ledger, 'a', () => makeStale('b'))
      expect(staleQueues(ledger)).toEqual(['b'])
    })

    it('is not cleared by a sweep that began before the last finished one', async () => {
      await makeStale('a')
      await sweep(ledger, 'a', async () => {
        await sweep(ledger, 'a')
        await makeStale('a')
      })
      expect(staleQueues(ledger)).toEqual(['a'])
    })

    it('applies sweeps and new stale copies of one group commit in the order of the calls', async () => {
      const [first, second] = [
        await died(ledger, { queue: 'a' }),
        await died(ledger, { queue: 'a' }),
      ]
      await deleteDeadLetter(ledger, first.id, NOW)
      const mark = ledger.known.staleCopies().get('a') ?? -1
      const deleting = deleteDeadLetter(ledger, second.id, NOW)
      await Promise.all([ledger.swept('a', mark), deleting])
      expect(staleQueues(ledger)).toEqual(['a'])
      await Promise.all([makeStale('a'), ledger.swept('a', mark)])
      expect(staleQueues(ledger)).toEqual(['a'])
      const newest = ledger.known.staleCopies().get('a') ?? -1
      await Promise.all([ledger.swept('a', newest), ledger.swept('a', newest)])
      expect(staleQueues(ledger)).toEqual([])
    })

    it('keeps its queues when another write of the same group commit is refused', async () => {
      const [a, b] = [await died(ledger, { queue: 'a' }), await died(ledger, { queue: 'b' })]
      const batch = [newJob(), newJob({ id: a.id })]
      const [first, refused, second, retryQueue] = await Promise.all([
        deleteDeadLetter(ledger, a.id, NOW),
        ledger.insertAll([...batch, ...batch], NOW),
        deleteDeadLetter(ledger, b.id, NOW),
        ledger.recordRetryQueue({ queue: 'a', delayMs: 5 }),
        ledger.insertAll([newJob({ id: 'twice' }), newJob({ id: 'twice' })], NOW),
      ])
      expect([first, refused.outcome, second, retryQueue]).toEqual([
        true,
        'duplicate',
        true,
        undefined,
      ])
      expect(staleQueues(ledger)).toEqual(['a', 'b'])
      expect(ledger.known.retryQueues()).toEqual([{ queue: 'a', delayMs: 5 }])
    })
  })
}
