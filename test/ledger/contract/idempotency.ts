import { describe, expect, it } from 'vitest'
import type { NewJob, Unique } from '../../../src/job/job.ts'
import { IDEMPOTENCY_MS } from '../../../src/ledger/idempotency.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { insertedOf, jobMessage, NOW, pushed, TERMS, type UnderTest } from '../harness.ts'

/** Requests with an `Idempotency-Key`, which are answered once. */
export function idempotencyContract({ harness, ledger, row }: UnderTest): void {
  const unique: Unique = { key: 'k', states: ['available'], periodMs: null, onConflict: 'reject' }
  const job = (over: Partial<Unique> = {}): NewJob =>
    newJob({ createdAt: NOW, unique: { ...unique, ...over } })

  describe('a request with an idempotency key', () => {
    const request = { key: 'jobs a', fingerprint: 'f' }

    it('is remembered with its job for a day, also after a restart', async () => {
      const { id } = newJob()
      await ledger.insert(newJob({ id }), NOW, { request })
      await harness.reopen()
      const remembered = { fingerprint: 'f', ids: [id], existing: [] }
      expect(await ledger.read.idempotency.find(request.key, NOW)).toEqual(remembered)
      expect(await ledger.read.idempotency.find(request.key, NOW + IDEMPOTENCY_MS - 1)).toEqual(
        remembered,
      )
      expect(await ledger.read.idempotency.find(request.key, NOW + IDEMPOTENCY_MS)).toBeNull()
      expect(await ledger.read.idempotency.find('jobs b', NOW)).toBeNull()
    })

    it('stores nothing while it is remembered, and counts as new a day later', async () => {
      const first = newJob()
      await ledger.insert(first, NOW, { request })
      const again = newJob()
      const remembered = { fingerprint: 'f', ids: [first.id], existing: [] }
      const answered = { outcome: 'remembered', remembered }
      const other = { request: { ...request, fingerprint: 'g' } }
      expect(await ledger.insert(again, NOW + 1, other)).toEqual(answered)
      expect(await ledger.insertAll([again], NOW + 1, other)).toEqual(answered)
      expect(await ledger.read.find(again.id)).toBeNull()
      await ledger.insert(again, NOW + IDEMPOTENCY_MS, other)
      expect(await ledger.read.idempotency.find(request.key, NOW + IDEMPOTENCY_MS)).toEqual({
        fingerprint: 'g',
        ids: [again.id],
        existing: [],
      })
    })

    it('is answered once, also when it is sent twice at the same time', async () => {
      const [one, other] = [newJob(), newJob()]
      const outcomes = await Promise.all([
        ledger.insert(one, NOW, { request }),
        ledger.insert(other, NOW, { request }),
        ledger.insertAll([newJob()], NOW, { request }),
      ])
      const remembered = { fingerprint: 'f', ids: [one.id], existing: [] }
      expect(outcomes.slice(1)).toEqual([1, 2].map(() => ({ outcome: 'remembered', remembered })))
      expect(await ledger.read.find(other.id)).toBeNull()
    })

    it('is remembered with all jobs of a batch, in their order', async () => {
      const jobs = [newJob(), newJob(), newJob()]
      await ledger.insertAll(jobs, NOW, { request })
      expect(await ledger.read.idempotency.find(request.key, NOW)).toEqual({
        ...{ fingerprint: 'f', ids: jobs.map(({ id }) => id), existing: [] },
      })
    })

    it('is remembered with the existing jobs that were returned', async () => {
      const { id } = await pushed(ledger, job())
      const batch = [newJob(), job({ onConflict: 'ignore' })]
      await ledger.insertAll(batch, NOW, { request })
      expect(await ledger.read.idempotency.find(request.key, NOW)).toEqual({
        fingerprint: 'f',
        ids: [batch[0]?.id, id],
        existing: [1],
      })
    })

    it('is not remembered when nothing was stored', async () => {
      const { id } = await pushed(ledger, job())
      await ledger.insert(newJob({ id }), NOW, { request })
      await ledger.insert(job(), NOW, { request })
      await ledger.insertAll([newJob(), job()], NOW, { request })
      expect(await ledger.read.idempotency.find(request.key, NOW)).toBeNull()
    })

    it('is not remembered when its id is taken', async () => {
      const { id } = newJob()
      await ledger.insert(newJob({ id }), NOW)
      await ledger.insert(newJob({ id }), NOW, { request })
      await ledger.insertAll([newJob(), newJob({ id })], NOW, { request })
      expect(await ledger.read.idempotency.find(request.key, NOW)).toBeNull()
    })

    it('is forgotten when its job is withdrawn, but not when a worker has the job', async () => {
      const withdrawn = newJob()
      const { outbox } = insertedOf(await ledger.insert(withdrawn, NOW, { request }))
      expect(await ledger.withdraw(withdrawn.id, outbox ?? 0, request.key)).toBe(true)
      expect(await ledger.read.idempotency.find(request.key, NOW)).toBeNull()
      const started = newJob()
      const nonce = insertedOf(await ledger.insert(started, NOW, { request })).outbox ?? 0
      await ledger.claim([jobMessage(started.id)], TERMS)
      expect(await ledger.withdraw(started.id, nonce, request.key)).toBe(false)
      expect(await ledger.read.idempotency.find(request.key, NOW)).not.toBeNull()
      const batch = { key: 'jobs/batch a', fingerprint: 'f' }
      await ledger.insertAll([newJob({ id: 'b' })], NOW, { request: batch })
      await ledger.withdrawAll([await row('b')], batch.key)
      expect(await ledger.read.idempotency.find(batch.key, NOW)).toBeNull()
    })

    it('is pruned after a day, oldest first, up to the limit', async () => {
      for (let i = 0; i < 5; i++) {
        await ledger.insert(newJob(), NOW + i, { request: { key: `${i}`, fingerprint: 'f' } })
      }
      // The key is used again, which makes it the newest.
      const again = { request: { key: '0', fingerprint: 'f' } }
      await ledger.insert(newJob(), NOW + IDEMPOTENCY_MS, again)
      const left = async () => {
        const kept: number[] = []
        for (const i of [0, 1, 2, 3, 4]) {
          if ((await ledger.read.idempotency.find(`${i}`, NOW + 5)) !== null) kept.push(i)
        }
        return kept
      }
      const day = NOW + IDEMPOTENCY_MS
      expect(await ledger.idempotency.prune(day, 10)).toBe(0)
      expect(await ledger.idempotency.prune(day + 3, 2)).toBe(2)
      expect(await left()).toEqual([0, 3, 4])
      expect(await ledger.idempotency.prune(day + 3, 10)).toBe(1)
      expect(await left()).toEqual([0, 4])
    })

    it('counts from the present time on after the clock was set back', async () => {
      const remember = (key: string, at: number) =>
        ledger.insert(newJob(), at, { request: { key, fingerprint: 'f' } })
      await remember('before', NOW - IDEMPOTENCY_MS)
      await remember('ahead', NOW + 1)
      await remember('far ahead', NOW + 365 * IDEMPOTENCY_MS)
      await ledger.boundWaits(NOW)
      expect(await keptOf(['before', 'ahead', 'far ahead'], NOW)).toEqual(['ahead', 'far ahead'])
      expect(await keptOf(['before', 'ahead', 'far ahead'], NOW + IDEMPOTENCY_MS)).toEqual([])
      expect(await ledger.idempotency.prune(NOW + IDEMPOTENCY_MS, 9)).toBe(3)
    })

    it('is forgotten when too many newer ones are kept, the oldest first', async () => {
      const keys = ['a', 'b', 'c', 'd']
      for (const key of keys)
        await ledger.insert(newJob(), NOW, { request: { key, fingerprint: 'f' } })
      expect(await harness.pruneKeys(2, NOW, 1)).toBe(1)
      expect(await harness.pruneKeys(2, NOW, 9)).toBe(1)
      expect(await keptOf(keys, NOW)).toEqual(['c', 'd'])
    })
  })

  /** Those of the keys that are remembered. */
  async function keptOf(keys: readonly string[], at: number): Promise<string[]> {
    const found = await Promise.all(keys.map((key) => ledger.read.idempotency.find(key, at)))
    return keys.filter((_, i) => found[i] !== null)
  }
}
