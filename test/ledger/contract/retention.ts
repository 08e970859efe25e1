import { describe, expect, it } from 'vitest'
import type { Steering } from '../../../src/job/steer.ts'
import type { PruneCutoffs } from '../../../src/ledger/ledger.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  copyCame,
  died,
  FAILED,
  failAttempt,
  fenceOf,
  fetched,
  jobMessage,
  NOW,
  pushed,
  settleLazily,
  staleQueues,
  sweep,
  TERMS,
  type UnderTest,
} from '../harness.ts'

const LATER = NOW + 1_000_000

const RETRY: Steering = {
  ...{ action: 'retry', states: ['retryable'], deadLettersOnly: false },
  ...{ sparesRetried: false, scope: null },
}

const NEVER: PruneCutoffs = {
  completed: 0,
  cancelled: 0,
  discarded: 0,
  withdrawn: 0,
  deadLetters: 0,
}

/** Which rows are pruned, when, and what remains of them. */
export function retentionContract({ ledger, row }: UnderTest): void {
  const settled = async (id: string): Promise<string> => {
    ledger.messageReturned(id, 0)
    await settleLazily(ledger)
    return id
  }
  /** One job of each kind that ended at NOW and whose job message is back. */
  const ENDED = {
    completed: async () => {
      const { id } = await fetched(ledger, { queue: 'q' })
      await ledger.complete(id, {}, { now: NOW, result: null })
      return await settled(id)
    },
    cancelled: async () => {
      const { id } = await pushed(ledger, { queue: 'q' })
      await ledger.cancel(id, NOW)
      return await settled(id)
    },
    discarded: async () => (await died(ledger, { queue: 'q', isDeadLetter: false })).id,
    deadLetters: async () => (await died(ledger, { queue: 'q' })).id,
    withdrawn: async () => {
      const { id, outbox } = await pushed(ledger, { queue: 'q' })
      await ledger.withdraw(id, outbox)
      return await settled(id)
    },
  }
  const kinds = Object.keys(ENDED) as (keyof typeof ENDED)[]

  describe('prune', () => {
    it.each(kinds)(
      'applies the cutoff for %s rows to that kind only, to the millisecond',
      async (kind) => {
        const ids = new Map<string, string>()
        for (const each of kinds) ids.set(each, await ENDED[each]())
        const all = {
          completed: NOW,
          cancelled: NOW,
          discarded: NOW,
          withdrawn: NOW,
          deadLetters: NOW,
        }
        expect(await ledger.prune(all, LATER, 10)).toBe(0)
        expect(await ledger.prune({ ...NEVER, [kind]: NOW + 1 }, LATER, 10)).toBe(1)
        for (const each of kinds) {
          const left = await ledger.read.find(ids.get(each) ?? '')
          // The row of a dead letter stays as withdrawn, because its DLX copy has to be swept.
          const isGone = left === null || (left.state === 'withdrawn' && each !== 'withdrawn')
          expect(isGone, each).toBe(each === kind)
        }
      },
    )

    it.each(['completed', 'cancelled', 'withdrawn'] as const)(
      'deletes a job that is %s',
      async (kind) => {
        const id = await ENDED[kind]()
        expect(await ledger.prune({ ...NEVER, [kind]: LATER }, LATER, 10)).toBe(1)
        expect(await ledger.read.find(id)).toBeNull()
        expect(Object.values(ledger.known.counts('q')).every((count) => count === 0)).toBe(true)
        expect(staleQueues(ledger)).toEqual([])
        expect(await ledger.insert(newJob({ id }), NOW)).toMatchObject({ generation: 0 })
      },
    )

    it.each([
      ['discarded', false],
      ['deadLetters', true],
    ] as const)(
      'keeps the ids of %s rows as withdrawn while the DLX copy has to be swept',
      async (kind, isDeadLetter) => {
        const job = await died(ledger, { queue: 'q', isDeadLetter })
        if (!isDeadLetter) await sweep(ledger, 'q')
        expect(await ledger.prune({ ...NEVER, [kind]: LATER }, LATER, 10)).toBe(1)
        const gone = { state: 'withdrawn', isDeadLetter: false, envelope: '{}', errors: null }
        expect(await row(job.id)).toMatchObject({ ...gone, generation: 0, attempt: 1 })
        expect(staleQueues(ledger)).toEqual(['q'])
        expect([ledger.known.counts('q').discarded, ledger.known.deadLetterCount()]).toEqual([0, 0])
        // The retention of the withdrawn row begins anew.
        expect(await ledger.prune({ ...NEVER, withdrawn: LATER }, LATER, 10)).toBe(0)
        expect(await ledger.prune({ ...NEVER, withdrawn: LATER + 1 }, LATER, 10)).toBe(1)
        expect(await ledger.read.find(job.id)).toBeNull()
      },
    )

    it.each(['nack', 'publish'] as const)(
      'keeps the id of a dead letter whose copy may still arrive: %s',
      async (copy) => {
        const job = await fetched(ledger, { queue: 'q' })
        const change = { ...FAILED, to: 'discarded', isDeadLetter: true, copy } as const
        await failAttempt(ledger, job.id, fenceOf(job), change)
        ledger.messageReturned(job.id, 0)
        await settleLazily(ledger)
        expect(await ledger.prune({ ...NEVER, deadLetters: LATER }, LATER, 10)).toBe(1)
        expect([(await row(job.id)).state, staleQueues(ledger)]).toEqual(['withdrawn', []])
        expect([ledger.known.deadLetterCount('q'), await ledger.read.outboxPage(0, 10)]).toEqual([
          0,
          [],
        ])
        await copyCame(ledger, job.id, 0)
        expect([(await row(job.id)).state, staleQueues(ledger)]).toEqual(['withdrawn', ['q']])
      },
    )

    it('keeps ended jobs whose job message may come back, and jobs that have not ended', async () => {
      const cancelled = await pushed(ledger)
      await ledger.cancel(cancelled.id, NOW)
      const discarded = await fetched(ledger)
      const change = { ...FAILED, to: 'discarded', isDeadLetter: false, copy: 'nack' } as const
      await failAttempt(ledger, discarded.id, fenceOf(discarded), change)
      const live = [await pushed(ledger), await fetched(ledger)]
      const scheduled = newJob({ start: { state: 'scheduled', dueAt: NOW } })
      await ledger.insert(scheduled, NOW)
      const all = { completed: LATER, cancelled: LATER, discarded: LATER, withdrawn: LATER }
      expect(await ledger.prune({ ...all, deadLetters: LATER }, LATER, 10)).toBe(0)
      for (const { id } of [cancelled, discarded, ...live, scheduled]) {
        expect(await ledger.read.find(id)).not.toBeNull()
      }
      const [late] = await ledger.claim([jobMessage(cancelled.id)], TERMS)
      expect(late?.verdict).toBe('drop')
    })

    it('keeps the id of a job that was retried: the message of its life before may still come', async () => {
      const job = await fetched(ledger, { queue: 'q' })
      const parked = {
        ...FAILED,
        to: 'retryable',
        dueAt: NOW + 9,
        delayMs: 9,
        retryQueueMs: 9,
      } as const
      await failAttempt(ledger, job.id, fenceOf(job), { ...parked, isMessageBack: true })
      const [retried] = await ledger.bulk.act([job.id], RETRY, {
        ...TERMS,
        cause: {},
        maxMs: 1_000,
      })
      expect(retried?.did).toBe('retry')
      await ledger.claim([jobMessage(job.id, { generation: 1, attempt: 2 })], TERMS)
      await ledger.complete(job.id, {}, { now: NOW, result: null })
      ledger.messageReturned(job.id, 1)
      await settleLazily(ledger)
      expect(await ledger.prune({ ...NEVER, completed: LATER }, LATER, 10)).toBe(1)
      expect(ledger.known.counts('q').completed).toBe(0)
      expect(await row(job.id)).toMatchObject({ state: 'withdrawn', generation: 1, envelope: '{}' })
      const [late] = await ledger.claim([jobMessage(job.id, { attempt: 2 })], TERMS)
      expect(late?.verdict).toBe('drop')
      // The row, and what native workers were told of that message.
      expect(await ledger.prune({ ...NEVER, withdrawn: LATER + 1 }, LATER, 10)).toBe(2)
      expect(await ledger.read.find(job.id)).toBeNull()
    })

    it('removes the oldest rows first, up to its limit over all kinds', async () => {
      const ids: string[] = []
      for (const at of [3, 1, 2]) {
        const { id } = await pushed(ledger)
        await ledger.cancel(id, NOW + at)
        ids.push(await settled(id))
      }
      await ENDED.completed()
      await ENDED.discarded()
      const all = { completed: LATER, cancelled: LATER, discarded: LATER, withdrawn: NOW }
      const cutoffs = { ...all, deadLetters: LATER }
      expect(await ledger.prune(cutoffs, LATER, 2)).toBe(2)
      expect(
        await Promise.all(ids.map(async (id) => (await ledger.read.find(id)) === null)),
      ).toEqual([false, true, false])
      expect(await ledger.prune(cutoffs, LATER, 2)).toBe(2)
      expect(await ledger.prune(cutoffs, LATER, 2)).toBe(1)
      expect(await ledger.prune(cutoffs, LATER, 2)).toBe(0)
    })

    it.each(kinds)(
      'removes %s rows that were dated by a clock ahead, once boundEnds has corrected the date',
      async (kind) => {
        const id = await ENDED[kind]()
        const before = NOW - 1000
        const cutoffs = { ...NEVER, [kind]: before + 1 }
        expect(await ledger.prune(cutoffs, before, 10)).toBe(0)
        expect(await ledger.boundEnds(before, 10)).toBe(1)
        expect(await ledger.boundEnds(before, 10)).toBe(0)
        expect(await ledger.prune({ ...NEVER, [kind]: before }, before, 10)).toBe(0)
        expect(await ledger.prune(cutoffs, before, 10)).toBe(1)
        expect((await ledger.read.find(id))?.state ?? 'withdrawn').toBe('withdrawn')
      },
    )

    it('removes tombstones that were dated by a clock ahead, which boundEnds corrects a page at a time', async () => {
      for (const id of [1, 2, 3]) await ledger.cancelAny(newJob().id + id, 'q', NOW)
      expect(await ledger.boundEnds(NOW - 1000, 2)).toBe(2)
      expect(await ledger.boundEnds(NOW - 1000, 2)).toBe(1)
      expect(await ledger.prune({ ...NEVER, withdrawn: NOW - 999 }, NOW, 10)).toBe(3)
    })

    it('DLQ-004: prunes the oldest dead letters of a queue that has more than it may, and no others', async () => {
      const dead: string[] = []
      for (const age of [3, 5, 1, 4, 2]) {
        const { id } = await died(ledger, { queue: 'q', now: NOW - age })
        dead.push(id)
      }
      const other = (await died(ledger, { queue: 'other', now: NOW - 9 })).id
      const plain = (await died(ledger, { queue: 'q', now: NOW - 9, isDeadLetter: false })).id
      const live = (await pushed(ledger, { queue: 'q' })).id
      const left = async () => {
        const states = await Promise.all(dead.map(async (id) => (await row(id)).state))
        return dead.filter((_, i) => states[i] === 'discarded')
      }
      expect(await ledger.pruneDeadLetters('q', 5, NOW, 10)).toBe(0)
      expect(await ledger.pruneDeadLetters('q', 3, NOW, 1)).toBe(1)
      expect(await left()).toEqual(dead.filter((_, i) => i !== 1))
      expect(await ledger.pruneDeadLetters('q', 1, NOW, 10)).toBe(3)
      expect(await left()).toEqual([dead[2]])
      expect(ledger.known.deadLetterCount('q')).toBe(1)
      for (const id of [other, plain]) expect((await row(id)).state).toBe('discarded')
      expect((await row(live)).state).toBe('available')
    })

    it('removes a row once in two calls of one group commit', async () => {
      await ENDED.completed()
      const cutoffs = { ...NEVER, completed: LATER }
      const both = await Promise.all([1, 2].map(() => ledger.prune(cutoffs, LATER, 10)))
      expect(both).toEqual([1, 0])
    })
  })
}
