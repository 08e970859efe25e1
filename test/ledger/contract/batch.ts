import { describe, expect, it } from 'vitest'
import { freshRow, type NewJob } from '../../../src/job/job.ts'
import type { InsertedAll } from '../../../src/ledger/enqueued.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  insertedOf,
  jobMessage,
  NOW,
  pushed,
  settleLazily,
  TERMS,
  type UnderTest,
} from '../harness.ts'

/** Batches, and jobs that are stored for later. */
export function batchContract({ ledger, row }: UnderTest): void {
  const storedOf = (inserted: InsertedAll) => {
    if (inserted.outcome !== 'inserted') throw new Error('an id was taken')
    return inserted.stored.map(insertedOf)
  }

  const scheduled = { state: 'scheduled', dueAt: NOW + 500 } as const
  const pending = { state: 'pending', dueAt: null } as const

  describe('insert of a scheduled or pending job', () => {
    it.each([scheduled, pending, { state: 'pending', dueAt: NOW + 9 } as const])(
      'stores it as %o without a job message',
      async (start) => {
        const job = newJob({ start, queue: 'q' })
        const inserted = insertedOf(await ledger.insert(job, NOW))
        expect(inserted).toMatchObject({ generation: 0, outbox: null, enqueuedAt: NOW })
        expect(await row(job.id)).toEqual(freshRow(job, inserted))
        expect(await row(job.id)).toMatchObject({
          state: start.state,
          dueAt: start.dueAt,
          messageOut: false,
        })
        expect(ledger.known.counts('q')).toMatchObject({ available: 0, [start.state]: 1 })
        expect(await ledger.read.outboxPage(0, 10)).toEqual([])
      },
    )

    it('stores a withdrawn id again with nothing of the withdrawn job', async () => {
      const { id, outbox } = await pushed(ledger)
      await ledger.withdraw(id, outbox)
      const again = newJob({ id, start: scheduled })
      const inserted = insertedOf(await ledger.insert(again, NOW + 5))
      expect(await row(id)).toEqual(freshRow(again, inserted))
      expect(inserted).toMatchObject({ generation: 1, outbox: null })
    })
  })

  describe('insertAll', () => {
    it('stores all jobs in order, each in its state', async () => {
      const jobs = [newJob(), newJob({ start: scheduled, queue: 'b' }), newJob({ start: pending })]
      const stored = storedOf(await ledger.insertAll(jobs, NOW))
      const rows = jobs.map((job, i) => freshRow(job, stored[i] ?? fewerStoredThanGiven()))
      expect(await Promise.all(jobs.map(({ id }) => row(id)))).toEqual(rows)
      expect(stored.map(({ outbox }) => outbox !== null)).toEqual([true, false, false])
      expect(ledger.known.counts('default')).toMatchObject({ available: 1, pending: 1 })
      expect(ledger.known.counts('b').scheduled).toBe(1)
      expect(ledger.known.queues().map(({ name }) => name)).toEqual(['default', 'b'])
    })

    it.each<[string, (jobs: NewJob[], taken: string) => NewJob[]]>([
      ['by a stored job', ([a, b], id) => [a ?? newJob(), b ?? newJob(), newJob({ id })]],
      [
        'by an earlier job of the batch',
        ([a, b]) => [a ?? newJob(), b ?? newJob(), newJob({ id: b?.id ?? '' })],
      ],
    ])('stores nothing when one id is taken %s', async (_, batch) => {
      const taken = await pushed(ledger)
      const before = await row(taken.id)
      const jobs = batch([newJob({ queue: 'new' }), newJob({ queue: 'new' })], taken.id)
      const beside = newJob()
      const [all, one] = await Promise.all([
        ledger.insertAll(jobs, NOW),
        ledger.insert(beside, NOW),
      ])
      expect(all).toEqual({ outcome: 'duplicate', index: 2 })
      expect(one.outcome).toBe('inserted')
      expect(await Promise.all(jobs.slice(0, 2).map(({ id }) => ledger.read.find(id)))).toEqual([
        null,
        null,
      ])
      expect(await row(taken.id)).toEqual(before)
      expect(ledger.known.queues().map(({ name }) => name)).toEqual(['default'])
      expect(ledger.known.counts('default').available).toBe(2)
    })

    it('stores only the first of two batches that share an id', async () => {
      const id = newJob().id
      const batches = [1, 2].map(() => [newJob(), newJob({ id }), newJob()])
      const results = await Promise.all(batches.map((batch) => ledger.insertAll(batch, NOW)))
      expect(results.map(({ outcome }) => outcome)).toEqual(['inserted', 'duplicate'])
      expect(ledger.known.counts('default').available).toBe(3)
    })

    it('accepts a withdrawn id, in the next generation', async () => {
      const { id, outbox } = await pushed(ledger)
      await ledger.withdraw(id, outbox)
      const [, stored] = storedOf(await ledger.insertAll([newJob(), newJob({ id })], NOW))
      expect(stored?.generation).toBe(1)
    })
  })

  describe('withdrawAll', () => {
    it('withdraws every job that no worker has started', async () => {
      const jobs = [newJob(), newJob(), newJob({ start: scheduled }), newJob({ start: pending })]
      const stored = storedOf(await ledger.insertAll(jobs, NOW))
      // As when RabbitMQ confirmed the job message of one job before it refused that of another.
      ledger.confirmed(stored[0]?.outbox ?? 0)
      expect(await ledger.withdrawAll(await Promise.all(jobs.map(({ id }) => row(id))))).toEqual([])
      const withdrawn = { state: 'withdrawn', outbox: null, envelope: '{}' }
      for (const { id } of jobs) expect(await row(id)).toMatchObject(withdrawn)
      expect((await row(jobs[2]?.id ?? '')).messageOut).toBe(false)
      expect(Object.values(ledger.known.counts('default')).every((count) => count === 0)).toBe(true)
    })

    it('withdraws a scheduled job that was promoted meanwhile', async () => {
      const job = newJob({ start: scheduled })
      await ledger.insert(job, NOW)
      await ledger.promote(NOW, NOW + 500, 10)
      expect(await ledger.withdrawAll([{ id: job.id, generation: 0 }])).toEqual([])
      expect(await row(job.id)).toMatchObject({ state: 'withdrawn', outbox: null })
    })

    it('returns the ids of jobs that were started, have ended, or are of another generation', async () => {
      const [started, over, other, mine] = await Promise.all(
        Array.from({ length: 4 }, () => pushed(ledger)),
      )
      await ledger.claim([jobMessage(started?.id ?? '')], TERMS)
      await ledger.cancel(over?.id ?? '', NOW)
      const fences = [started, over, other, mine].map((job) => ({
        id: job?.id ?? '',
        generation: 0,
      }))
      const before = await Promise.all(fences.slice(0, 3).map(({ id }) => row(id)))
      const wrong = fences.map((fence) =>
        fence.id === other?.id ? { ...fence, generation: 1 } : fence,
      )
      const left = await ledger.withdrawAll([...wrong, { id: 'nobody', generation: 0 }])
      expect(left).toEqual([started?.id, over?.id, other?.id, 'nobody'])
      expect(before).toEqual(await Promise.all(fences.slice(0, 3).map(({ id }) => row(id))))
      expect((await row(mine?.id ?? '')).state).toBe('withdrawn')
    })

    it('excludes a claim of the same job in one group commit: the first call wins', async () => {
      const [a, b] = [await pushed(ledger), await pushed(ledger)]
      const [left, [late]] = await Promise.all([
        ledger.withdrawAll([{ id: a.id, generation: 0 }]),
        ledger.claim([jobMessage(a.id)], TERMS),
      ])
      expect([left, late?.verdict]).toEqual([[], 'drop'])
      const [[early], refused] = await Promise.all([
        ledger.claim([jobMessage(b.id)], TERMS),
        ledger.withdrawAll([{ id: b.id, generation: 0 }]),
      ])
      expect([early?.verdict, refused]).toEqual(['claimed', [b.id]])
    })
  })

  describe('a withdrawn job', () => {
    it('is not changed by a late confirm', async () => {
      const { id, outbox } = await pushed(ledger)
      await ledger.withdrawAll([{ id, generation: 0 }])
      const before = await row(id)
      ledger.confirmed(outbox)
      await settleLazily(ledger)
      expect(await row(id)).toEqual(before)
    })
  })
}

function fewerStoredThanGiven(): never {
  throw new Error('fewer were stored than given')
}
