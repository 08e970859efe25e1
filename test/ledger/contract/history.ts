import { describe, expect, it } from 'vitest'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  FAILED,
  failAttempt,
  fenceOf,
  giveBack,
  jobMessage,
  NOW,
  revive,
  TERMS,
  type UnderTest,
} from '../harness.ts'

const CAUSE = { requestId: 'req_1', principal: 'shop "A"' }

/** What the writes record about the changes that they make. */
export function historyContract({ harness, ledger, row }: UnderTest): void {
  const changes = async (id: string) => (await ledger.read.history.find(id))?.changes ?? []
  const path = async (id: string) => (await changes(id)).map(({ to }) => to)

  async function claimed(attempt: number, given: Parameters<typeof newJob>[0] = {}) {
    const job = newJob({ maxAttempts: 1_000, ...given })
    await ledger.insert(job, NOW, { cause: CAUSE })
    await ledger.claim([jobMessage(job.id, { attempt })], { ...TERMS, now: NOW + 1 })
    return job.id
  }

  describe('history', () => {
    it('has each change with its time, attempt, worker and cause', async () => {
      const id = await claimed(1)
      const cause = { ...CAUSE, reason: 'lease_expired' }
      await failAttempt(ledger, id, fenceOf(await row(id)), {
        ...FAILED,
        now: NOW + 2,
        to: 'available',
        cause,
      })
      const terms = { ...TERMS, now: NOW + 3, cause: { requestId: 'req_3' } }
      await ledger.claim([jobMessage(id, { attempt: 2 })], terms)
      await ledger.complete(id, {}, { now: NOW + 4, result: null, cause: { requestId: 'req_4' } })
      const none = { workerId: null, requestId: null, principal: null, reason: null }
      expect(await changes(id)).toEqual([
        { ...none, at: NOW, from: null, to: 'available', attempt: 0, ...CAUSE },
        { ...none, at: NOW + 1, from: 'available', to: 'active', attempt: 1, workerId: 'worker-1' },
        { ...none, at: NOW + 2, from: 'active', to: 'available', attempt: 1, ...cause },
        {
          ...none,
          at: NOW + 3,
          from: 'available',
          to: 'active',
          attempt: 2,
          workerId: 'worker-1',
          requestId: 'req_3',
        },
        {
          ...none,
          at: NOW + 4,
          from: 'active',
          to: 'completed',
          attempt: 2,
          requestId: 'req_4',
        },
      ])
    })

    it('follows a job through pending, schedule, retry, dead letter and cancel', async () => {
      const job = newJob({ start: { state: 'pending', dueAt: NOW + 50 } })
      await ledger.insert(job, NOW)
      await ledger.activate(job.id, NOW, NOW, CAUSE)
      await ledger.promote(NOW + 60, NOW + 60, 10)
      await ledger.claim([jobMessage(job.id)], TERMS)
      await giveBack(ledger, job.id, fenceOf(await row(job.id)))
      await ledger.claim([jobMessage(job.id)], TERMS)
      const end = { ...FAILED, to: 'discarded', isDeadLetter: true, copy: 'publish' } as const
      await failAttempt(ledger, job.id, fenceOf(await row(job.id)), end)
      await revive(ledger, job.id, NOW + 300, CAUSE)
      await ledger.cancel(job.id, NOW + 400, { reason: 'bored' })
      expect(await path(job.id)).toEqual([
        ...['pending', 'scheduled', 'available', 'active', 'available', 'active'],
        ...['discarded', 'available', 'cancelled'],
      ])
      expect((await changes(job.id)).at(-1)).toMatchObject({ reason: 'bored', at: NOW + 400 })
      expect((await changes(job.id)).at(2)).toMatchObject({ reason: 'due' })
    })

    it('survives a restart', async () => {
      const id = await claimed(1)
      await harness.reopen()
      expect(await path(id)).toEqual(['available', 'active'])
    })

    it('records nothing for a write that changes nothing', async () => {
      const id = await claimed(1)
      await ledger.complete(id, { attempt: 7 }, { now: NOW, result: null })
      await ledger.claim([jobMessage(id)], TERMS)
      expect(await path(id)).toEqual(['available', 'active'])
    })

    it('keeps the newest changes of a job that has very many, and says that others are gone', async () => {
      const id = await claimed(1, { maxAttempts: 1_000 })
      const long = { requestId: 'r'.repeat(5_000), principal: '\n"\u{1f600}'.repeat(100) }
      for (let attempt = 1; attempt <= 120; attempt++) {
        const change = { ...FAILED, now: NOW + attempt, to: 'available', cause: long } as const
        await failAttempt(ledger, id, fenceOf(await row(id)), change)
        await ledger.claim([jobMessage(id, { attempt: attempt + 1 })], { ...TERMS, now: NOW + 500 })
      }
      const found = await ledger.read.history.find(id)
      const kept = found?.changes ?? []
      expect(found?.isFolded).toBe(true)
      expect(kept.length).toBeGreaterThan(15)
      expect(kept.length).toBeLessThan(150)
      expect(kept.at(-1)).toMatchObject({ from: 'available', to: 'active', attempt: 121 })
      expect(kept.every(({ from, to }) => from !== null && from !== to)).toBe(true)
    })

    it('is null for an unknown and an erased job, and begins anew when the id is used again', async () => {
      expect(await ledger.read.history.find(newJob().id)).toBeNull()
      const job = newJob()
      const inserted = await ledger.insert(job, NOW)
      await ledger.withdraw(job.id, ('outbox' in inserted && inserted.outbox) || 0)
      expect(await ledger.read.history.find(job.id)).toBeNull()
      await ledger.insert(job, NOW + 1)
      expect(await changes(job.id)).toMatchObject([{ from: null, to: 'available', at: NOW + 1 }])
    })

    it('can be forgotten, and goes on from there', async () => {
      const id = await claimed(1)
      expect((await ledger.history.clear(id))?.changes).toHaveLength(2)
      expect(await ledger.read.history.find(id)).toMatchObject({ changes: [], isFolded: true })
      await ledger.complete(id, {}, { now: NOW + 9, result: null })
      expect(await changes(id)).toMatchObject([{ from: 'active', to: 'completed' }])
      expect(await ledger.history.clear(newJob().id)).toBeNull()
    })
  })
}
