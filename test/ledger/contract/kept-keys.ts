import { describe, expect, it } from 'vitest'
import { JOB_STATES, type NewJob, type Unique } from '../../../src/job/job.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  deleteDeadLetter,
  died,
  fetched,
  insertedOf,
  NOW,
  revive,
  settleLazily,
  type UnderTest,
} from '../harness.ts'

const PERIOD_MS = 30 * 86_400_000
/** Retention is over, and the period is not. */
const PRUNED = NOW + 8 * 86_400_000

/** Unique keys whose period is longer than retention. */
export function keptKeyContract({ harness, ledger, plant }: UnderTest): void {
  const job = (over: Partial<Unique> = {}, createdAt = NOW, policy: object = {}): NewJob => {
    const unique = {
      ...{ key: 'k', states: JOB_STATES, periodMs: PERIOD_MS, onConflict: 'reject' as const },
      ...over,
    }
    const asked = { states: unique.states, ...policy }
    const period = unique.periodMs === null ? {} : { period: `PT${unique.periodMs / 1000}S` }
    const envelope = JSON.stringify({ args: [], unique: { ...period }, unique_extra: asked })
    return newJob({ createdAt, unique, envelope })
  }
  const at = (now: number, over: Partial<Unique> = {}) => ledger.insert(job(over, now), now)
  const prune = async (now = PRUNED) => {
    await settleLazily(ledger)
    const all = { completed: now, cancelled: now, discarded: now, deadLetters: now, withdrawn: now }
    return await ledger.prune(all, now, 100)
  }
  const ENDED = {
    async completed(given: NewJob) {
      const { id } = await fetched(ledger, given)
      await ledger.complete(id, {}, { now: NOW, result: null })
      ledger.messageReturned(id, 0)
      return id
    },
    async cancelled(given: NewJob) {
      insertedOf(await ledger.insert(given, NOW))
      await ledger.cancel(given.id, NOW)
      ledger.messageReturned(given.id, 0)
      return given.id
    },
    discarded: async (given: NewJob) => (await died(ledger, { ...given })).id,
  }

  describe('the unique key of a pruned job', () => {
    it.each(['completed', 'cancelled', 'discarded'] as const)(
      'conflicts as %s until its period is over, also after a restart',
      async (state) => {
        const id = await ENDED[state](job())
        expect(await prune()).toBe(1)
        const conflict = { outcome: 'conflict', existing: { id, state, isGone: true } }
        expect(await at(PRUNED)).toEqual(conflict)
        await harness.reopen()
        expect(await at(PRUNED, { onConflict: 'ignore' })).toEqual(conflict)
        const batch = await ledger.insertAll([newJob(), job({}, PRUNED)], PRUNED)
        expect(batch).toEqual({ ...conflict, index: 1 })
        expect(await at(NOW + PERIOD_MS - 1)).toEqual(conflict)
        // The policy of the new job counts, as with a job that still exists.
        const others: Partial<Unique>[] = [{ periodMs: 1_000 }, { states: ['pending'] }]
        for (const over of [...others, { key: 'other' }])
          expect(await at(PRUNED, over)).toMatchObject({ outcome: 'inserted' })
      },
    )

    it('is free once its period is over, and is forgotten then', async () => {
      await ENDED.completed(job())
      await prune()
      const over = NOW + PERIOD_MS
      expect(await prune(over - 1)).toBe(0)
      expect(await prune(over)).toBe(1)
      expect(await prune(over)).toBe(0)
      expect(await at(over)).toMatchObject({ outcome: 'inserted' })
    })

    it('is free before it is forgotten, also for a job without a period', async () => {
      await ENDED.completed(job())
      await prune()
      const endless = { periodMs: null }
      expect(await at(NOW + PERIOD_MS - 1, endless)).toMatchObject({ outcome: 'conflict' })
      expect(await at(NOW + PERIOD_MS, endless)).toMatchObject({ outcome: 'inserted' })
    })

    it.each<[string, Partial<Unique>]>([
      ['has no period', { periodMs: null }],
      ['has a period that is over', { periodMs: 1_000 }],
      ['does not name the state', { states: ['available', 'cancelled'] }],
    ])('is not kept when its own policy %s', async (_, over) => {
      await ENDED.completed(job(over))
      await prune()
      expect(await at(PRUNED)).toMatchObject({ outcome: 'inserted' })
    })

    it('is replaced by nothing, and hinders no job that replaces', async () => {
      await ENDED.completed(job())
      await prune()
      const inserted = insertedOf(await at(PRUNED, { onConflict: 'replace' }))
      expect(inserted).not.toHaveProperty('replacing')
    })

    it('gives way to a job that exists', async () => {
      await ENDED.completed(job())
      await prune()
      const next = job({ states: ['available'] }, PRUNED)
      insertedOf(await ledger.insert(next, PRUNED))
      expect(await at(PRUNED, { onConflict: 'ignore' })).toMatchObject({
        outcome: 'existing',
        job: { id: next.id },
      })
    })

    it.each([
      ['after the other', PERIOD_MS, PERIOD_MS / 2],
      ['after the other', PERIOD_MS / 2, PERIOD_MS],
      ['together with the other', PERIOD_MS, PERIOD_MS / 2],
      ['together with the other', PERIOD_MS / 2, PERIOD_MS],
    ])(
      'is that of the job whose period ends last, pruned %s: %s or %s ms',
      async (how, ...periods) => {
        const ids: string[] = []
        for (const periodMs of periods) {
          const terms = { states: ['available'], periodMs } as const
          ids.push(await ENDED.completed(job(terms, NOW, { states: JOB_STATES })))
          if (how === 'after the other') expect(await prune()).toBe(1)
        }
        expect(await prune()).toBe(how === 'after the other' ? 0 : 2)
        expect(await at(NOW + PERIOD_MS - 1)).toMatchObject({
          existing: { id: ids[periods.indexOf(PERIOD_MS)] },
        })
      },
    )

    it('is that of the later of two jobs, from whose creation a shorter period counts', async () => {
      const terms = { states: ['available'] } as const
      await ENDED.completed(job(terms, NOW, { states: JOB_STATES }))
      await prune()
      const later = NOW + 500
      const id = await ENDED.completed(job(terms, later, { states: JOB_STATES }))
      await prune()
      const short = { periodMs: PRUNED - later }
      expect(await at(PRUNED - 1, short)).toMatchObject({ outcome: 'conflict', existing: { id } })
      expect(await at(PRUNED, short)).toMatchObject({ outcome: 'inserted' })
    })

    it('is kept of a dead letter that goes because its queue has too many', async () => {
      const { id, queue } = await died(ledger, job())
      expect(await ledger.pruneDeadLetters(queue, 0, PRUNED, 10)).toBe(1)
      expect(await at(PRUNED)).toMatchObject({
        outcome: 'conflict',
        existing: { id, isGone: true },
      })
    })

    it('is dated back by boundWaits when the clock was ahead, so that its period begins then', async () => {
      await ENDED.completed(job())
      await prune()
      const before = NOW - 86_400_000
      await ledger.boundWaits(before)
      const next = { periodMs: null }
      expect(await at(before + PERIOD_MS - 1, next)).toMatchObject({ outcome: 'conflict' })
      expect(await at(before + PERIOD_MS, next)).toMatchObject({ outcome: 'inserted' })
    })

    it('is forgotten beyond the capacity, the one whose period ends first before others', async () => {
      const seconds = (n: number) => ({ key: `k${n}`, periodMs: PERIOD_MS + n * 1_000 })
      for (const n of [2, 1, 3]) await ENDED.completed(job(seconds(n)))
      expect(await prune()).toBe(3)
      expect(await harness.pruneKeptKeys(1, NOW, 1)).toBe(1)
      expect(await harness.pruneKeptKeys(2, NOW, 9)).toBe(0)
      const left = async () =>
        await Promise.all(
          [1, 2, 3].map(async (n) => {
            const asking = { ...seconds(n), onConflict: 'ignore', states: ['completed'] } as const
            // Nothing is stored, because the batch has an id twice.
            const rival = job(asking)
            return (await ledger.insertAll([rival, rival], NOW)).outcome
          }),
        )
      expect(await left()).toEqual(['duplicate', 'conflict', 'conflict'])
      // Those whose period is over count first.
      expect(await harness.pruneKeptKeys(1, NOW + PERIOD_MS + 2_000, 9)).toBe(1)
      expect(await left()).toEqual(['duplicate', 'duplicate', 'conflict'])
    })

    it('is not kept of a job whose policy cannot be read', async () => {
      const id = await ENDED.completed(job())
      await plant({ id, envelope: '{"unique":{"period":"for ever"}}' })
      await prune()
      expect(await at(PRUNED)).toMatchObject({ outcome: 'inserted' })
    })

    it('keeps a dead letter from being retried', async () => {
      const { id } = await died(ledger, job({ states: ['available', 'completed'] }))
      await ENDED.completed(job({ states: ['completed'] }))
      await settleLazily(ledger)
      const never = { cancelled: 0, discarded: 0, deadLetters: 0, withdrawn: 0 }
      expect(await ledger.prune({ ...never, completed: PRUNED }, PRUNED, 10)).toBe(1)
      expect(await revive(ledger, id, PRUNED)).toMatchObject({
        outcome: 'conflict',
        existing: { state: 'completed', isGone: true },
      })
      expect(await revive(ledger, id, NOW + PERIOD_MS)).toMatchObject({ state: 'available' })
    })

    it('is not kept when the dead letter is deleted by hand', async () => {
      const { id } = await died(ledger, job())
      await deleteDeadLetter(ledger, id, NOW)
      expect(await prune()).toBe(1)
      expect(await at(PRUNED)).toMatchObject({ outcome: 'inserted' })
    })
  })
}
