import { describe, expect, it } from 'vitest'
import type { RowState } from '../../../src/job/job.ts'
import { isStale } from '../../../src/job/stale.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  copyCame,
  fetched,
  giveBack,
  jobMessage,
  NOW,
  pushed,
  settleLazily,
  staleAt,
  TERMS,
  type UnderTest,
} from '../harness.ts'

/** Ended rows, and reads of the ledger. */
export function endContract({ harness, ledger, row, plant }: UnderTest): void {
  describe('messageReturned', () => {
    it('clears messageOut of an ended row, but not of a live row or for another generation', async () => {
      const [ended, live, older] = [
        await pushed(ledger),
        await pushed(ledger),
        await pushed(ledger),
      ]
      await Promise.all([ledger.cancel(ended.id, NOW), ledger.cancel(older.id, NOW)])
      ledger.messageReturned(ended.id, 0)
      ledger.messageReturned(live.id, 0)
      ledger.messageReturned(older.id, 1)
      await settleLazily(ledger)
      expect(
        await Promise.all([ended, live, older].map(async ({ id }) => (await row(id)).messageOut)),
      ).toEqual([false, true, true])
    })

    it('clears messageOut of a retry that the ledger holds, but not when a job message is owed or in a retry queue', async () => {
      const [held, owed, inRetryQueue] = [
        await fetched(ledger),
        await fetched(ledger),
        await fetched(ledger),
      ]
      const waiting = {
        state: 'retryable',
        holder: null,
        outbox: null,
        retryQueueMs: null,
      } as const
      await plant(
        { id: held.id, ...waiting },
        { id: owed.id, ...waiting, outbox: 1_000_000 },
        { id: inRetryQueue.id, ...waiting, retryQueueMs: 1_000 },
      )
      for (const { id } of [held, owed, inRetryQueue]) ledger.messageReturned(id, 0)
      await settleLazily(ledger)
      expect(
        await Promise.all(
          [held, owed, inRetryQueue].map(async ({ id }) => (await row(id)).messageOut),
        ),
      ).toEqual([false, true, true])
    })

    it("keeps messageOut when only the previous attempt's job message returned and the next is in a retry queue", async () => {
      const [old, next, unknown, elsewhere] = [
        await fetched(ledger),
        await fetched(ledger),
        await fetched(ledger),
        await fetched(ledger),
      ]
      const ended = { state: 'cancelled', holder: null } as const
      const inRetryQueue = [old, next, unknown].map(({ id }) => ({
        id,
        ...ended,
        retryQueueMs: 1_000,
      }))
      await plant(...inRetryQueue, { id: elsewhere.id, ...ended })
      ledger.messageReturned(old.id, 0, 1)
      ledger.messageReturned(next.id, 0, 2)
      ledger.messageReturned(unknown.id, 0)
      ledger.messageReturned(elsewhere.id, 0, 1)
      await settleLazily(ledger)
      const rows = await Promise.all(
        [old, next, unknown, elsewhere].map(async ({ id }) => (await row(id)).messageOut),
      )
      expect(rows).toEqual([true, false, false, false])
    })
  })

  describe('the copy of a discarded job', () => {
    it('is recorded for a discarded row of that generation only', async () => {
      const [discarded, older, cancelled] = [
        await pushed(ledger),
        await pushed(ledger),
        await pushed(ledger),
      ]
      await plant({ id: discarded.id, state: 'discarded' }, { id: older.id, state: 'discarded' })
      await ledger.cancel(cancelled.id, NOW)
      await copyCame(ledger, discarded.id, 0)
      await copyCame(ledger, older.id, 1)
      await copyCame(ledger, cancelled.id, 0)
      await settleLazily(ledger)
      const copied = await Promise.all(
        [discarded, older, cancelled].map(async ({ id }) => (await row(id)).deadLetterCopied),
      )
      expect(copied).toEqual([true, false, false])
    })
  })

  describe('a terminal row', () => {
    const states: RowState[] = ['completed', 'cancelled', 'discarded', 'withdrawn']
    it.each(states)('does not change when it is %s', async (state) => {
      const { id, outbox } = await pushed(ledger, { queue: 'q' })
      await plant({ id, state, outbox: null, messageOut: false, deadLetterCopied: true })
      const before = await row(id)
      const fence = { id, generation: 0, attempt: 0 }
      ledger.confirmed(outbox)
      ledger.messageReturned(id, 0)
      const outcomes = await Promise.all([
        ledger.withdraw(id, outbox),
        ledger.claim([jobMessage(id)], TERMS).then(([result]) => result?.verdict),
        giveBack(ledger, id, { ...fence, messageAttempt: 0, now: NOW }),
        ledger.complete(id, {}, { now: NOW, result: '1' }),
        ledger.cancel(id, NOW),
        ledger.handOver([fence]),
        ledger.rearm('q', NOW),
        ledger.extendLeases(NOW),
      ])
      const stale = await staleAt(ledger, id)
      expect(outcomes).toEqual([false, 'drop', stale, stale, stale, 0, 0, 0])
      expect(await row(id)).toEqual(before)
    })
  })

  describe('cancel', () => {
    const isMessageOwed = async (id: string) => {
      const cancelled = await ledger.cancel(id, NOW)
      return !isStale(cancelled) && cancelled.isMessageOwed
    }

    it('says whether the job message still had to be published', async () => {
      const waiting = await pushed(ledger)
      await plant({ id: waiting.id, state: 'scheduled', outbox: null, messageOut: false })
      const [owing, confirmed] = [await pushed(ledger), await pushed(ledger)]
      ledger.confirmed(confirmed.outbox)
      await settleLazily(ledger)
      const ids = [owing.id, confirmed.id, waiting.id]
      expect(await Promise.all(ids.map(isMessageOwed))).toEqual([true, false, false])
    })

    it('counts a confirm that is not yet written to the row', async () => {
      const { id, outbox } = await pushed(ledger)
      // More writes than one group commit takes, so that the confirm is not in the row when cancel reads it.
      for (let i = 0; i < 5_000; i++) ledger.messageReturned('nobody', 0)
      ledger.confirmed(outbox)
      expect(await isMessageOwed(id)).toBe(false)
    })

    it('reports no owed job message for a row of an earlier process, which may have published it', async () => {
      const { id } = await pushed(ledger)
      await harness.reopen()
      expect(await isMessageOwed(id)).toBe(false)
    })
  })

  describe('reads of the ledger', () => {
    it('see committed rows only', async () => {
      const job = newJob()
      const inserting = ledger.insert(job, NOW)
      expect(await ledger.read.find(job.id)).toBeNull()
      expect(ledger.known.counts('default').available).toBe(0)
      expect(ledger.known.queues()).toEqual([])
      await inserting
      expect(await ledger.read.find(job.id)).not.toBeNull()
      expect(ledger.known.counts('default').available).toBe(1)
    })

    it('return null and zero counts for an unknown id or queue', async () => {
      expect(await ledger.read.find('nobody')).toBeNull()
      expect(Object.values(ledger.known.counts('nowhere'))).toEqual(Array(8).fill(0))
    })
  })

  describe('close', () => {
    it('commits waiting writes, refuses later ones, and may be called twice', async () => {
      const { id, outbox } = await pushed(ledger)
      const late = newJob()
      ledger.confirmed(outbox)
      const inserting = ledger.insert(late, NOW)
      await ledger.close()
      await ledger.close()
      expect(await inserting).toMatchObject({ outcome: 'inserted' })
      const refused = { code: 'backend_error', status: 503, details: { reason: 'ledger' } }
      await expect(ledger.insert(newJob(), NOW)).rejects.toMatchObject(refused)
      await expect(ledger.read.find(id)).rejects.toThrow('closed')
      ledger.confirmed(1)
      await harness.reopen()
      expect((await row(id)).outbox).toBeNull()
      expect((await row(late.id)).state).toBe('available')
    })
  })
}
