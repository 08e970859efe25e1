import { afterEach, beforeEach, describe, expect, it, type MockInstance, vi } from 'vitest'
import { EXPIRED } from '../../../src/job/dead-letter.ts'
import type { JobRow, NewJob } from '../../../src/job/job.ts'
import { isStale } from '../../../src/job/stale.ts'
import type { DueTerms } from '../../../src/ledger/ledger.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  FAILED,
  failAttempt,
  fenceOf,
  fetched,
  jobMessage,
  NOW,
  owedBy,
  pushed,
  settleLazily,
  staleAt,
  staleQueues,
  TERMS,
  type UnderTest,
} from '../harness.ts'

/** The two clocks differ, so that a test fails when the ledger reads the wrong one. */
const WALL = NOW + 7_200_000

/** Jobs that become claimable, or expire, when their time has come. */
export function scheduleContract({ ledger, row, plant }: UnderTest): void {
  const stored = async (start: NewJob['start'], given: Partial<NewJob> = {}): Promise<JobRow> => {
    const job = newJob({ ...given, start })
    await ledger.insert(job, NOW)
    return await row(job.id)
  }
  const scheduled = (dueAt: number) => stored({ state: 'scheduled', dueAt })
  const retrying = async (dueAt: number, retryQueueMs: number | null): Promise<JobRow> => {
    const job = await fetched(ledger)
    const to = { to: 'retryable', dueAt, delayMs: 250, retryQueueMs, isMessageBack: true } as const
    await failAttempt(ledger, job.id, fenceOf(job), { ...FAILED, ...to })
    return await row(job.id)
  }

  describe('adoptSchedule', () => {
    const start = { state: 'scheduled', dueAt: WALL + 5 } as const

    it('stores a scheduled job like a PUSH, and a repetition changes nothing', async () => {
      const job = newJob({ start, queue: 'adopted' })
      expect(await ledger.adoptSchedule(job, NOW)).toMatchObject({
        outcome: 'inserted',
        generation: 0,
        outbox: null,
      })
      const stored = await row(job.id)
      expect(stored).toMatchObject({ state: 'scheduled', dueAt: WALL + 5, attempt: 0 })
      expect(ledger.known.queues().map(({ name }) => name)).toContain('adopted')
      const again = { ...job, start: { state: 'available' } } as const
      expect(await ledger.adoptSchedule(again, NOW)).toEqual({ outcome: 'duplicate' })
      expect(await row(job.id)).toEqual(stored)
    })

    it('leaves an ended job unchanged', async () => {
      const { id } = await stored(start)
      await ledger.cancel(id, NOW)
      const before = await row(id)
      expect(await ledger.adoptSchedule(newJob({ id, start }), NOW)).toEqual({
        outcome: 'duplicate',
      })
      expect(await row(id)).toEqual(before)
    })

    it('drops a job that was cancelled before it arrived, however often it arrives', async () => {
      const job = newJob({ start })
      // Both are in one group commit, and the cancellation was asked for first.
      const [, first] = await Promise.all([
        ledger.cancelAny(job.id, job.queue, NOW),
        ledger.adoptSchedule(job, NOW),
      ])
      expect(first).toEqual({ outcome: 'tombstoned' })
      expect(await ledger.adoptSchedule(job, NOW)).toEqual({ outcome: 'tombstoned' })
      expect(await ledger.read.find(job.id)).toBeNull()
      expect(await ledger.read.isTombstoned(job.id)).toBe(true)
    })
  })

  describe('activate', () => {
    it('makes a pending job available, with a job message to be published', async () => {
      const job = await stored({ state: 'pending', dueAt: null }, { queue: 'q' })
      const activated = await ledger.activate(job.id, NOW + 5, WALL)
      expect(activated).toEqual(await row(job.id))
      const { outbox } = await row(job.id)
      expect(await row(job.id)).toEqual({
        ...job,
        state: 'available',
        outbox,
        messageOut: true,
        activatedAt: NOW + 5,
        enqueuedAt: NOW + 5,
      })
      expect(await ledger.read.outboxPage(0, 10)).toEqual([owedBy(await row(job.id))])
      expect(ledger.known.counts('q')).toMatchObject({ pending: 0, available: 1 })
    })

    it('schedules a pending job whose time is later by the wall clock', async () => {
      const job = await stored({ state: 'pending', dueAt: WALL + 1 }, { queue: 'q' })
      const activated = await ledger.activate(job.id, NOW + 5, WALL)
      expect(activated).toEqual({ ...job, state: 'scheduled', activatedAt: NOW + 5 })
      expect(ledger.known.counts('q')).toMatchObject({ pending: 0, scheduled: 1 })
      expect(await ledger.promote(NOW + 9, WALL, 10)).toEqual([])
      expect(await ledger.promote(NOW, WALL + 1, 10)).toMatchObject([{ id: job.id }])
    })

    it('makes a job available at once when its time has come', async () => {
      const job = await stored({ state: 'pending', dueAt: WALL })
      expect(await ledger.activate(job.id, NOW, WALL)).toMatchObject({
        state: 'available',
        dueAt: null,
        messageOut: true,
      })
    })

    it('is stale for a job that is not pending, and for the second of two calls', async () => {
      const { id } = await stored({ state: 'pending', dueAt: null })
      const twice = await Promise.all([1, 2].map(() => ledger.activate(id, NOW, WALL)))
      expect(twice.map((result) => isStale(result))).toEqual([false, true])
      const ended = await stored({ state: 'pending', dueAt: null })
      await ledger.cancel(ended.id, NOW)
      const waiting = [await scheduled(WALL - 1), await retrying(NOW, null)]
      const others = [ended, ...waiting, await fetched(ledger)].map((job) => job.id)
      for (const other of [id, ...others, 'nobody']) {
        const before = await ledger.read.find(other)
        expect(await ledger.activate(other, NOW, WALL)).toEqual(await staleAt(ledger, other))
        expect(await ledger.read.find(other)).toEqual(before)
      }
    })
  })

  describe('sendAhead', () => {
    it('owes the plugin the job message of each job that is due by the given time, once', async () => {
      const [later, soon] = [await scheduled(WALL + 2_000), await scheduled(WALL + 1_000)]
      await pushed(ledger)
      const before = await row(later.id)
      expect(await ledger.sendAhead(WALL + 1_000, 9)).toBe(1)
      expect(await ledger.sendAhead(WALL + 1_000, 9)).toBe(0)
      expect(await row(soon.id)).toMatchObject({
        state: 'scheduled',
        retryQueueMs: 0,
        messageOut: true,
      })
      expect(await ledger.read.outboxPage(0, 9)).toContainEqual(owedBy(await row(soon.id)))
      expect(await row(later.id)).toEqual(before)
    })

    it('leaves no job message owed at the due time when the exchange has confirmed it', async () => {
      const [there, lost] = [await scheduled(WALL), await scheduled(WALL)]
      await ledger.sendAhead(WALL, 9)
      ledger.confirmed((await row(there.id)).outbox ?? 0)
      await settleLazily(ledger)
      await ledger.promote(NOW, WALL, 9)
      expect(await row(there.id)).toMatchObject({
        state: 'available',
        outbox: null,
        messageOut: true,
      })
      expect((await row(lost.id)).outbox).not.toBeNull()
    })

    it('drops the owed job message when the exchange confirms it after the promotion', async () => {
      const { id } = await scheduled(WALL)
      await ledger.sendAhead(WALL, 9)
      const { outbox } = await row(id)
      await ledger.promote(NOW, WALL, 9)
      ledger.confirmed(outbox ?? 0)
      await settleLazily(ledger)
      expect(await row(id)).toMatchObject({ state: 'available', outbox: null, retryQueueMs: 0 })
    })

    it('is repeated after the queue was lost, because the exchange then routes the job message nowhere', async () => {
      const { id } = await scheduled(WALL)
      await ledger.sendAhead(WALL, 9)
      ledger.confirmed((await row(id)).outbox ?? 0)
      await settleLazily(ledger)
      await ledger.rearm((await row(id)).queue, NOW)
      expect(await row(id)).toMatchObject({ state: 'scheduled', retryQueueMs: null, outbox: null })
      expect(await ledger.sendAhead(WALL, 9)).toBe(1)
    })

    it('leaves a broadcast to be published when the job is cancelled afterwards', async () => {
      const { id } = await scheduled(WALL)
      await ledger.sendAhead(WALL, 9)
      await ledger.cancel(id, NOW)
      expect(await row(id)).toMatchObject({ state: 'cancelled', messageOut: true })
      expect(await ledger.read.outboxPage(0, 9)).toEqual([owedBy(await row(id))])
    })
  })

  describe('promote', () => {
    it("makes scheduled jobs due by the wall clock, and retries due by the ledger's clock", async () => {
      const [due, ahead] = [await scheduled(WALL), await scheduled(WALL + 1)]
      const [retry, later] = [await retrying(NOW + 7, null), await retrying(NOW + 8, null)]
      const promoted = await ledger.promote(NOW + 7, WALL, 10)
      expect(new Set(promoted.map(({ id }) => id))).toEqual(new Set([due.id, retry.id]))
      for (const { id } of promoted) {
        const before = id === due.id ? due : retry
        expect(await row(id)).toEqual({
          ...before,
          state: 'available',
          outbox: (await row(id)).outbox,
          messageOut: true,
          dueAt: null,
          enqueuedAt: NOW + 7,
        })
        expect(promoted).toContainEqual(await row(id))
      }
      expect([ahead, later]).toEqual([await row(ahead.id), await row(later.id)])
      expect(await ledger.read.outboxPage(0, 10)).toHaveLength(2)
      expect(await ledger.promote(NOW + 7, WALL, 10)).toEqual([])
    })

    it('promotes the most overdue jobs first, across both kinds, up to its limit', async () => {
      const late = [300, 400, 100, 200]
      const jobs = await Promise.all(
        late.map((ms, i) => (i % 2 ? scheduled(WALL - ms) : retrying(NOW - ms, null))),
      )
      const ids = [1, 0, 3, 2].map((i) => jobs[i]?.id)
      const first = await ledger.promote(NOW, WALL, 3)
      const rest = await ledger.promote(NOW, WALL, 3)
      expect([first.length, rest.length]).toEqual([3, 1])
      expect([...first, ...rest].map(({ id }) => id)).toEqual(ids)
    })

    it('owes no second job message when the retry queue has confirmed the one it holds', async () => {
      const { id, outbox } = await retrying(NOW, 250)
      ledger.confirmed(outbox ?? 0)
      const [promoted] = await ledger.promote(NOW, WALL, 10)
      expect(promoted).toMatchObject({ id, outbox: null, retryQueueMs: 250, messageOut: true })
      const [claimed] = await ledger.claim([jobMessage(id, { attempt: 2 })], TERMS)
      expect(claimed).toMatchObject({ verdict: 'claimed', job: { retryDelayMs: 250 } })
    })

    it('owes the queue a job message when the retry queue has not confirmed its own', async () => {
      const owing = await retrying(NOW, 250)
      const [promoted] = await ledger.promote(NOW, WALL, 10)
      expect(promoted).toMatchObject({ id: owing.id, retryQueueMs: null, state: 'available' })
      expect(promoted?.outbox).toBeGreaterThan(owing.outbox ?? 0)
      expect(await ledger.read.outboxPage(0, 9)).toEqual([owedBy(await row(owing.id))])
    })

    it('promotes and sends ahead jobs of the same time in the order in which they came', async () => {
      const jobs = ['c', 'a', 'b'].map((name) =>
        newJob({ id: `${name}-${newJob().id}`, start: { state: 'scheduled', dueAt: WALL } }),
      )
      for (const job of jobs) await ledger.insert(job, NOW)
      const [first, ...others] = jobs.map(({ id }) => id)
      // Its row is not where it was stored any more.
      await ledger.prioritize(first ?? '', 1, { now: NOW, cause: {}, mayReplace: true })
      const owed = async () => (await ledger.read.outboxPage(0, 9)).map(({ id }) => id)
      await ledger.sendAhead(WALL, 9)
      expect(await owed()).toEqual([first, ...others])
      const ids = async () => (await ledger.promote(NOW, WALL, 9)).map(({ id }) => id)
      expect(await ids()).toEqual([first, ...others])
    })

    it('promotes nothing before its time, each kind by its own clock', async () => {
      const [timed, retry] = [await scheduled(WALL + 7), await retrying(NOW + 2, null)]
      await stored({ state: 'pending', dueAt: WALL })
      expect(await ledger.promote(NOW + 1, WALL + 6, 10)).toEqual([])
      expect(await ledger.promote(NOW + 2, WALL + 6, 10)).toMatchObject([{ id: retry.id }])
      expect(await ledger.promote(NOW + 2, WALL + 7, 10)).toMatchObject([{ id: timed.id }])
    })

    it('promotes a job once when called twice at once, and never an ended job', async () => {
      const [mine, ended] = [await scheduled(WALL), await scheduled(WALL)]
      await ledger.cancel(ended.id, NOW)
      const both = await Promise.all([1, 2].map(() => ledger.promote(NOW, WALL, 10)))
      expect(both.map((jobs) => jobs.map(({ id }) => id))).toEqual([[mine.id], []])
      expect((await row(ended.id)).state).toBe('cancelled')
    })
  })

  describe('expire', () => {
    // A constant clock, so that expire does not stop early for the time that it takes.
    let clock: MockInstance<typeof performance.now>
    beforeEach(() => {
      clock = vi.spyOn(performance, 'now').mockReturnValue(0)
    })
    afterEach(() => clock.mockRestore())

    const terms: DueTerms = { now: NOW, wall: WALL, limit: 10 }
    const expiring = (start: NewJob['start'], expiresAt = WALL, given: Partial<NewJob> = {}) =>
      stored(start, { queue: 'q', expiresAt, ...given })

    it('discards jobs whose expiry has passed by the wall clock', async () => {
      const jobs = [
        await expiring({ state: 'available' }),
        await expiring({ state: 'scheduled', dueAt: WALL + 9 }),
        await expiring({ state: 'pending', dueAt: null }),
      ]
      const left = await expiring({ state: 'available' }, WALL + 2)
      await expiring({ state: 'available' }, WALL + 1, { queue: 'other' })
      const { queues, count } = await ledger.read.expiring(WALL + 1, 10)
      expect([new Set(queues), count]).toEqual([new Set(['q', 'other']), 4])
      expect(await ledger.read.expiring(WALL + 1, 3)).toEqual({ queues: ['q'], count: 3 })
      expect(await ledger.read.expiring(WALL - 1, 10)).toEqual({ queues: [], count: 0 })
      const expired = await ledger.expire({ ...terms, wall: WALL + 1, limit: 3 })
      expect(expired.map(({ job }) => job.id)).toEqual(jobs.map(({ id }) => id))
      for (const [i, before] of jobs.entries()) {
        expect(expired[i]?.job).toEqual(await row(before.id))
        expect(expired[i]?.job).toEqual({
          ...before,
          state: 'discarded',
          error: EXPIRED,
          outbox: null,
          discardedAt: NOW,
          deadLetterCopied: true,
        })
      }
      expect(await row(left.id)).toEqual(left)
      expect(ledger.known.counts('q')).toMatchObject({ available: 1, discarded: 3, scheduled: 0 })
      expect(staleQueues(ledger)).toEqual([])
      const [late] = await ledger.claim([jobMessage(jobs[0]?.id ?? '')], TERMS)
      expect(late?.verdict).toBe('drop')
    })

    it('keeps messageOut for a job message in a retry queue, and not for a retry that the ledger holds', async () => {
      const inRetryQueue = await retrying(NOW + 9, 250)
      const held = await retrying(NOW + 9, null)
      await plant(
        { id: inRetryQueue.id, expiresAt: WALL, outbox: null },
        { id: held.id, expiresAt: WALL },
      )
      const expired = await ledger.expire(terms)
      const out = new Map(expired.map(({ job }) => [job.id, job.messageOut]))
      expect([out.get(inRetryQueue.id), out.get(held.id)]).toEqual([true, false])
    })

    it("clears messageOut of a held retry, even if the previous attempt's job message was still out", async () => {
      const [held, owing] = [await retrying(NOW + 9, null), await retrying(NOW + 9, null)]
      const queued = await pushed(ledger, { expiresAt: WALL })
      const before = { expiresAt: WALL, messageOut: true }
      await plant(
        { id: held.id, ...before },
        { id: owing.id, ...before, outbox: 7 },
        { id: queued.id, outbox: null },
      )
      await ledger.expire(terms)
      const ids = [held.id, owing.id, queued.id]
      expect(await Promise.all(ids.map(async (id) => (await row(id)).messageOut))).toEqual([
        false,
        true,
        true,
      ])
    })

    it('clears the holder of a job that a native worker had', async () => {
      const { id } = await expiring({ state: 'available' })
      await plant({ id, holder: 'native' })
      await ledger.expire(terms)
      expect(await row(id)).toMatchObject({ state: 'discarded', holder: null })
    })

    it('says for each job whether its job message still had to be published', async () => {
      const waiting = await expiring({ state: 'scheduled', dueAt: WALL + 9 })
      const owing = await expiring({ state: 'available' })
      const confirmed = await pushed(ledger, { expiresAt: WALL })
      ledger.confirmed(confirmed.outbox)
      const expired = await ledger.expire(terms)
      const owed = new Map(expired.map(({ job, isMessageOwed }) => [job.id, isMessageOwed]))
      const ids = [waiting.id, owing.id, confirmed.id]
      expect(ids.map((id) => owed.get(id))).toEqual([false, true, false])
    })

    it.each([
      ['{"args":[],"retry":{"on_exhaustion":"dead_letter"}}', true],
      ['{"args":[],"retry":{"on_exhaustion":"discard"}}', false],
      ['{"args":[],"retry":{}}', false],
      // A damaged row gets the default, and must not stop the expiry of the others.
      ['{"args":', false],
    ])(
      'makes an expired job a dead letter only if its own policy says so: %s',
      async (envelope, isListed) => {
        const [one, other] = [
          await expiring({ state: 'available' }, WALL, { envelope }),
          await expiring({ state: 'available' }),
        ]
        const expired = await ledger.expire(terms)
        expect(expired.map(({ job }) => job.isDeadLetter)).toEqual([isListed, false])
        expect(await row(one.id)).toMatchObject({ state: 'discarded', isDeadLetter: isListed })
        expect(ledger.known.deadLetterCount('q')).toBe(isListed ? 1 : 0)
        expect(await row(other.id)).toMatchObject({ state: 'discarded', isDeadLetter: false })
      },
    )

    it('leaves active and ended jobs alone, and respects its limit, most overdue first', async () => {
      const active = await fetched(ledger, { expiresAt: WALL })
      const ended = await expiring({ state: 'available' })
      await ledger.cancel(ended.id, NOW)
      for (const at of [3, 1, 2]) await expiring({ state: 'available' }, WALL - at)
      const first = await ledger.expire({ ...terms, limit: 2 })
      expect(first.map(({ job }) => WALL - (job.expiresAt ?? 0))).toEqual([3, 2])
      expect(await ledger.expire(terms)).toHaveLength(1)
      expect(await row(active.id)).toEqual(active)
      expect((await row(ended.id)).state).toBe('cancelled')
    })

    it('expires a job once when called twice at once, and a claim behind it drops it', async () => {
      const { id } = await pushed(ledger, { expiresAt: WALL })
      const [first, second] = await Promise.all([ledger.expire(terms), ledger.expire(terms)])
      const [late] = await ledger.claim([jobMessage(id)], TERMS)
      expect([first.length, second.length, late?.verdict]).toEqual([1, 0, 'drop'])
    })
  })
}
