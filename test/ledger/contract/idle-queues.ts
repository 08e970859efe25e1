import { describe, expect, it } from 'vitest'
import { ANY_JOB, type JobFilter } from '../../../src/job/search/filter.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  fenceOf,
  fetched,
  insertedOf,
  NOW,
  prunedRows,
  pushed,
  type UnderTest,
} from '../harness.ts'

const IDLE_MS = 1_000
const nobody = () => false

/** Queues that nobody uses any more. */
export function idleContract({ harness, ledger }: UnderTest): void {
  function names(): string[] {
    return ledger.known.queues().map(({ name }) => name)
  }

  describe('an idle queue', () => {
    it('is due when it was idle at every look for long enough, also across a restart', async () => {
      await ledger.recordQueue('q', NOW)
      expect(await ledger.idle.look(NOW, IDLE_MS, nobody)).toEqual([])
      expect(await ledger.idle.look(NOW + 999, IDLE_MS, nobody)).toEqual([])
      await harness.reopen()
      expect(await ledger.idle.look(NOW + 1_000, IDLE_MS, nobody)).toEqual(['q'])
      // Somebody uses it in between.
      expect(await ledger.idle.look(NOW + 1_001, IDLE_MS, () => true)).toEqual([])
      expect(await ledger.idle.look(NOW + 2_000, IDLE_MS, nobody)).toEqual([])
      expect(await ledger.idle.look(NOW + 3_000, IDLE_MS, nobody)).toEqual(['q'])
      // A clock that was set back makes it idle from then on.
      expect(await ledger.idle.look(NOW - 5_000, IDLE_MS, nobody)).toEqual([])
      expect(await ledger.idle.look(NOW - 4_000, IDLE_MS, nobody)).toEqual(['q'])
    })

    it('work between two looks counts, though the queue is empty at both', async () => {
      await ledger.recordQueue('email', NOW)
      await ledger.idle.look(NOW, IDLE_MS, nobody)
      const later = NOW + 600_000
      const row = await fetched(ledger, { queue: 'email' })
      await ledger.complete(row.id, fenceOf(row), { now: later, result: null })
      expect(await ledger.idle.look(later + 60_000, 120_000, nobody)).toEqual([])
      expect(await ledger.idle.look(later + 180_000, 120_000, nobody)).toEqual(['email'])
    })

    it('is forgotten with its retry queues and empty counts, unless a job was stored meanwhile', async () => {
      const row = await pushed(ledger, { queue: 'q' })
      await ledger.recordRetryQueue({ queue: 'q', delayMs: 1_000 })
      await ledger.recordRetryQueue({ queue: 'other', delayMs: 1_000 })
      expect(await ledger.idle.forget('q')).toBe(false)
      await ledger.withdraw(row.id, row.outbox)
      expect(await ledger.idle.forget('q')).toBe(true)
      expect(await ledger.idle.forget('q')).toBe(false)
      expect(names()).toEqual([])
      expect(ledger.known.retryQueues()).toEqual([{ queue: 'other', delayMs: 1_000 }])
      expect(await harness.countedQueues()).toEqual([])
      await harness.reopen()
      expect(names()).toEqual([])
    })

    it('is not forgotten while it is lost, though it was lost before it was recorded', async () => {
      await ledger.lost.mark('q', NOW)
      await ledger.recordQueue('q', NOW)
      expect(await ledger.idle.forget('q')).toBe(false)
      await ledger.rearm('q', NOW)
      expect(await ledger.idle.forget('q')).toBe(true)
    })

    it('leaves its ended jobs, which are found as before, also after a restart', async () => {
      const { id, ...row } = await fetched(ledger, { queue: 'q', type: 'mail' })
      await ledger.complete(id, fenceOf({ id, ...row }), { now: NOW + 5, result: null })
      expect(await ledger.idle.forget('q')).toBe(true)
      const filters: Partial<JobFilter>[] = [
        {},
        { states: ['completed'] },
        { queues: ['q'] },
        { types: [{ text: 'ma', isPrefix: true }] },
        { ended: { from: NOW, until: NOW + 10 } },
      ]
      for (const given of [...filters, ...filters]) {
        const filter = { ...ANY_JOB, ...given }
        const { found } = await ledger.read.search.ids(filter, null, 10)
        expect(found, JSON.stringify(given)).toMatchObject([{ id }])
        expect(await ledger.read.search.count(filter, 10)).toEqual({ count: 1, isBound: false })
        if (given === filters.at(-1)) await harness.reopen()
      }
    })

    it('is not forgotten while a cron entry makes jobs of it', async () => {
      for (const queue of ['a', 'b', 'default', 'd']) await ledger.recordQueue(queue, NOW)
      const entry = (name: string, template: object) =>
        ledger.cron.register(
          {
            ...{ name, expression: '* * * * *', timezone: 'UTC', overlap: 'skip' as const },
            ...{ isEnabled: false, description: null },
            template: { type: 't', args: [], ...template },
          },
          { nextRunAt: null, createdAt: NOW, limit: 9 },
        )
      await entry('one', { options: { queue: 'a' } })
      await entry('two', { queue: 'b' })
      await entry('three', {})
      expect(await ledger.idle.forget('a')).toBe(false)
      expect(await ledger.idle.delete('b')).toBe(false)
      expect(await ledger.idle.forget('default')).toBe(false)
      expect(await ledger.idle.forget('d')).toBe(true)
      await ledger.cron.remove('one', 0)
      expect(await ledger.idle.forget('a')).toBe(true)
    })

    it('a job of the same commit records the queue again', async () => {
      await ledger.recordQueue('q', NOW)
      const [isForgotten, inserted] = await Promise.all([
        ledger.idle.forget('q'),
        ledger.insert(newJob({ queue: 'q' }), NOW),
      ])
      expect(isForgotten).toBe(true)
      insertedOf(inserted)
      expect(names()).toEqual(['q'])
      expect(ledger.known.traffic.lastHour('q', NOW).enqueued).toBe(1)
      await harness.reopen()
      expect(names()).toEqual(['q'])
    })

    it('is forgotten as the writes before in its commit have left it', async () => {
      const [, , , isForgotten, again] = await Promise.all([
        ledger.recordQueue('other', NOW),
        ledger.recordQueue('q', NOW),
        ledger.recordRetryQueue({ queue: 'q', delayMs: 1_000 }),
        ledger.idle.forget('q'),
        ledger.idle.forget('q'),
      ])
      expect([isForgotten, again]).toEqual([true, false])
      expect([names(), ledger.known.retryQueues()]).toEqual([['other'], []])
    })

    it('counts that become empty after the queue was forgotten go at a later look', async () => {
      const row = await pushed(ledger, { queue: 'q' })
      await ledger.cancel(row.id, NOW)
      expect(await ledger.idle.forget('q')).toBe(true)
      expect(ledger.known.counts('q').cancelled).toBe(1)
      ledger.messageReturned(row.id, 0)
      expect(await prunedRows(harness)).toBe(1)
      expect(ledger.known.counts('q').cancelled).toBe(0)
      await ledger.idle.look(NOW, IDLE_MS, nobody)
      expect(await harness.countedQueues()).toEqual([])
      expect(names()).toEqual([])
    })
  })
}
