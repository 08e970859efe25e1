import { describe, expect, it } from 'vitest'
import type { CronDefinition, CronEntry } from '../../../src/job/cron/entry.ts'
import type { NewJob, Unique } from '../../../src/job/job.ts'
import type { CronTick, Fired, TickChange } from '../../../src/ledger/cron.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  died,
  failAttempt,
  fenceOf,
  jobMessage,
  NOW,
  owedBy,
  revive,
  settleLazily,
  TERMS,
  type UnderTest,
} from '../harness.ts'

/** Cron entries run on the wall clock, jobs on the ledger's clock. */
const WALL = NOW + 7_200_000
const MINUTE_MS = 60_000

function definition(given: Partial<CronDefinition> = {}): CronDefinition {
  return {
    name: 'nightly',
    expression: '* * * * *',
    timezone: 'UTC',
    overlap: 'skip',
    isEnabled: true,
    description: null,
    template: { type: 'report.make', args: ['ü', { deep: [1] }], options: { queue: 'q' } },
    ...given,
  }
}

/** Cron entries, and what one tick of them does. */
export function cronContract({ harness, ledger, row }: UnderTest): void {
  const register = async (
    given: Partial<CronDefinition> = {},
    nextRunAt: number | null = WALL,
  ): Promise<CronEntry> => {
    const first = { nextRunAt, createdAt: WALL - 5, limit: 100 }
    const registered = await ledger.cron.register(definition(given), first)
    if (registered.outcome !== 'registered') throw new Error(registered.outcome)
    return registered.entry
  }
  const entry = async (name = 'nightly'): Promise<CronEntry> => {
    const found = await ledger.read.cron.find(name)
    if (!found) throw new Error(`no entry ${name}`)
    return found
  }
  const tickOf = ({ name, seq }: CronEntry, at = WALL): CronTick => ({ name, seq, at })
  const change = (given: Partial<TickChange> = {}): TickChange => ({
    job: newJob({ queue: 'q' }),
    nextRunAt: WALL + MINUTE_MS,
    now: NOW,
    maxQueued: 2,
    isUnsettled: () => false,
    ...given,
  })
  /** Fires the tick at the entry's nextRunAt. */
  const fireNext = async (name = 'nightly', given: Partial<TickChange> = {}): Promise<Fired> => {
    const at = (await entry(name)).nextRunAt ?? 0
    return ledger.cron.fire(
      tickOf(await entry(name), at),
      change({ nextRunAt: at + MINUTE_MS, ...given }),
    )
  }
  const firedJob = (fired: Fired): string => {
    if (fired.outcome !== 'fired') throw new Error(fired.outcome)
    return fired.job.id
  }
  /** Claims and completes the job. */
  const complete = async (id: string): Promise<void> => {
    await ledger.claim([jobMessage(id)], TERMS)
    await ledger.complete(id, {}, { now: NOW, result: null })
  }

  describe('cron entries', () => {
    it('are stored as registered, also after a restart', async () => {
      const given = definition({ description: 'each night', overlap: 'enqueue' })
      const first = { nextRunAt: WALL, createdAt: WALL - 5, limit: 1 }
      const registered = await ledger.cron.register(given, first)
      const kept = {
        ...given,
        seq: expect.any(Number),
        nextRunAt: WALL,
        lastRunAt: null,
        lastJobId: null,
        runCount: 0,
        queued: [],
        createdAt: WALL - 5,
      }
      expect(registered).toEqual({ outcome: 'registered', entry: kept })
      expect(await entry()).toEqual(kept)
      await harness.reopen()
      expect(await entry()).toEqual(kept)
      expect(await ledger.read.cron.find('other')).toBeNull()
    })

    it('keep what they have counted when they are changed and switched off after a due time was made', async () => {
      await register({ overlap: 'allow' })
      for (const [round, given] of [{ description: 'new' }, { isEnabled: false }].entries()) {
        const basis = await entry()
        const terms = { createdAt: WALL + round * MINUTE_MS, limit: 0, isReplacing: true }
        const next = { nextRunAt: WALL + (round + 1) * MINUTE_MS, basis, isKeepingQueued: true }
        const wanted = { ...basis, ...given }
        const replace = () => ledger.cron.register(wanted, { ...terms, ...next })
        expect((await replace()).outcome).toBe('due')
        firedJob(await fireNext())
        expect((await replace()).outcome).toBe('replaced')
        expect((await entry()).runCount).toBe(round + 1)
      }
    })

    it('are remembered with the idempotency key of their request, and stored once', async () => {
      const keyed = { request: { key: 'c', fingerprint: 'f' }, now: NOW }
      const terms = { nextRunAt: null, createdAt: NOW, limit: 9, keyed }
      const store = () => ledger.cron.register(definition({ isEnabled: false }), terms)
      expect((await store()).outcome).toBe('registered')
      const { name, seq } = await entry()
      expect(await ledger.read.idempotency.find('c', NOW)).toMatchObject({
        ids: [name, String(seq)],
        existing: [],
      })
      expect((await store()).outcome).toBe('remembered')
    })

    it('are refused when the name is taken or the limit is reached', async () => {
      const first = { nextRunAt: WALL, createdAt: WALL, limit: 2 }
      const outcomes = await Promise.all(
        ['a', 'a', 'b', 'c', 'b'].map(async (name) => {
          return (await ledger.cron.register(definition({ name }), first)).outcome
        }),
      )
      expect(outcomes).toEqual(['registered', 'duplicate', 'registered', 'full', 'duplicate'])
    })

    it('are listed in pages, in the order of their registration', async () => {
      for (const name of ['c', 'a', 'b']) await register({ name })
      const names = async (limit: number, offset: number) => {
        const { entries, total } = await ledger.read.cron.list({ limit, offset })
        return [total, ...entries.map(({ name }) => name)]
      }
      expect(await names(10, 0)).toEqual([3, 'c', 'a', 'b'])
      expect(await names(2, 1)).toEqual([3, 'a', 'b'])
      expect(await names(2, 3)).toEqual([3])
    })

    it('are listed up to four megabytes a page', async () => {
      const template = { type: 't', args: ['x'.repeat(1_500_000)] }
      for (const name of ['a', 'b', 'c', 'd']) await register({ name, template })
      const sizes = await Promise.all(
        [0, 2, 3].map((offset) => ledger.read.cron.list({ limit: 10, offset })),
      )
      expect(sizes.map(({ entries, total }) => [entries.length, total])).toEqual([
        [2, 4],
        [2, 4],
        [1, 4],
      ])
      const larger = { type: 't', args: ['x'.repeat(5_000_000)] }
      const replacing = { nextRunAt: WALL, createdAt: WALL - 5, limit: 9, isReplacing: true }
      await ledger.cron.register(definition({ name: 'a', template: larger }), replacing)
      const { entries } = await ledger.read.cron.list({ limit: 10, offset: 0 })
      expect(entries.map(({ name }) => name)).toEqual(['a'])
    })

    it('are due by their nextRunAt, the most overdue first, and never when disabled', async () => {
      await register({ name: 'later' }, WALL + 1)
      await register({ name: 'second' }, WALL)
      await register({ name: 'first' }, WALL - 1)
      await register({ name: 'disabled', isEnabled: false }, null)
      const due = async (wall: number, limit = 10) =>
        (await ledger.read.cron.due(wall, limit)).map(({ name }) => name)
      expect(await due(WALL)).toEqual(['first', 'second'])
      expect(await due(WALL, 1)).toEqual(['first'])
      expect(await due(WALL - 2)).toEqual([])
      expect(await due(WALL + 1)).toEqual(['first', 'second', 'later'])
    })

    it('can be removed once, which leaves their jobs', async () => {
      await register()
      const id = firedJob(await fireNext())
      const removed = { outcome: 'removed', entry: await entry() }
      expect(await ledger.cron.remove('nightly', WALL - 1)).toEqual(removed)
      expect(await ledger.cron.remove('nightly', WALL - 1)).toEqual({ outcome: 'missing' })
      expect(await ledger.read.cron.find('nightly')).toBeNull()
      expect(await ledger.read.cron.list({ limit: 10, offset: 0 })).toEqual({
        entries: [],
        total: 0,
      })
      expect((await row(id)).state).toBe('available')
    })

    it('are neither removed nor replaced while a time has come', async () => {
      const first = { nextRunAt: WALL + MINUTE_MS, createdAt: WALL, limit: 1, isReplacing: true }
      const registered = await register()
      const due = { outcome: 'due', entry: registered }
      expect(await ledger.cron.remove('nightly', WALL)).toEqual(due)
      expect(await ledger.cron.register(definition(), first)).toEqual(due)
      expect(await entry()).toEqual(registered)
      firedJob(await fireNext())
      const replaced = await ledger.cron.register(definition({ description: 'new' }), first)
      expect(replaced.outcome).toBe('replaced')
      expect((await ledger.cron.remove('nightly', WALL)).outcome).toBe('removed')
    })

    it('keep their jobs, counts and times when they are replaced', async () => {
      const old = await register({ overlap: 'enqueue' })
      const id = firedJob(await fireNext())
      expect((await fireNext()).outcome).toBe('queued')
      const before = await entry()
      const next = definition({
        expression: '0 * * * *',
        timezone: 'Europe/Berlin',
        overlap: 'enqueue',
        description: 'hourly',
        template: { type: 'other', args: [] },
      })
      const first = { nextRunAt: WALL + 9_000_000, createdAt: WALL, limit: 1, isReplacing: true }
      const replaced = await ledger.cron.register(next, first)
      const kept = { ...before, ...next, nextRunAt: WALL + 9_000_000 }
      expect(replaced).toEqual({ outcome: 'replaced', entry: kept, before })
      await harness.reopen()
      expect(await entry()).toEqual(kept)
      expect(kept).toMatchObject({
        seq: old.seq,
        runCount: 1,
        lastJobId: id,
        queued: [expect.any(Number)],
      })
      // The job of the old definition still counts for the overlap policy, and its end releases the other.
      expect(await ledger.read.cron.releasable('', 10)).toEqual([])
      await complete(id)
      expect((await ledger.read.cron.releasable('', 10)).map(({ name }) => name)).toEqual([
        'nightly',
      ])
    })

    it('keep their next time when the schedule stays, and lose what waits when they are disabled', async () => {
      await register({ overlap: 'enqueue' })
      await fireNext()
      await fireNext()
      const { nextRunAt } = await entry()
      // By a clock that was set back, the first time of the schedule has its job already.
      const first = {
        nextRunAt: WALL - 900_000,
        createdAt: WALL - 960_000,
        limit: 1,
        isReplacing: true,
      }
      const given = { overlap: 'enqueue', description: 'again' } as const
      await ledger.cron.register(definition(given), first)
      expect(await entry()).toMatchObject({
        nextRunAt,
        description: 'again',
        queued: [WALL + MINUTE_MS],
      })
      const disabled = definition({ ...given, isEnabled: false })
      await ledger.cron.register(disabled, { ...first, nextRunAt: null })
      expect(await entry()).toMatchObject({ nextRunAt: null, isEnabled: false, queued: [] })
      await ledger.cron.register(definition(given), first)
      expect(await entry()).toMatchObject({ nextRunAt: WALL - 900_000, isEnabled: true })
    })
  })

  describe('a tick', () => {
    it('stores its job with a job message to be published, and advances the entry to the next tick', async () => {
      const registered = await register()
      const other = await register({ name: 'other' })
      const job = newJob({ queue: 'q' })
      const fired = await ledger.cron.fire(tickOf(registered), change({ job }))
      expect(fired).toEqual({ outcome: 'fired', job: await row(job.id), cancelled: [] })
      expect(await row(job.id)).toMatchObject({ state: 'available', attempt: 0, enqueuedAt: NOW })
      expect(await ledger.read.outboxPage(0, 10)).toEqual([owedBy(await row(job.id))])
      expect(ledger.known.counts('q').available).toBe(1)
      expect(ledger.known.queues().map(({ name }) => name)).toContain('q')
      expect(await entry()).toEqual({
        ...registered,
        nextRunAt: WALL + MINUTE_MS,
        lastRunAt: WALL,
        lastJobId: job.id,
        runCount: 1,
      })
      expect(await entry('other')).toEqual(other)
    })

    it('fires once, however often it is repeated', async () => {
      const registered = await register({ overlap: 'allow' })
      const tick = tickOf(registered)
      const outcomes = await Promise.all([1, 2, 3].map(() => ledger.cron.fire(tick, change())))
      expect(outcomes.map(({ outcome }) => outcome)).toEqual(['fired', 'stale', 'stale'])
      await harness.reopen()
      expect(await ledger.cron.fire(tick, change())).toEqual({ outcome: 'stale' })
      expect(ledger.known.counts('q').available).toBe(1)
      expect((await entry()).runCount).toBe(1)
    })

    it('is stale at another time, for a removed entry, and for a new entry of the same name', async () => {
      const old = await register()
      for (const at of [WALL - 1, WALL + 1, WALL + MINUTE_MS]) {
        expect(await ledger.cron.fire(tickOf(old, at), change())).toEqual({ outcome: 'stale' })
      }
      await ledger.cron.remove('nightly', WALL - 1)
      expect(await ledger.cron.fire(tickOf(old), change())).toEqual({ outcome: 'stale' })
      const next = await register()
      expect(await ledger.cron.fire(tickOf(old), change())).toEqual({ outcome: 'stale' })
      expect(await entry()).toEqual(next)
      expect(ledger.known.counts('q').available).toBe(0)
    })

    it('can be the last one, and can be skipped without a job', async () => {
      const registered = await register()
      const none = { job: null, nextRunAt: null }
      const skipped = await ledger.cron.fire(tickOf(registered), change(none))
      expect(skipped).toEqual({ outcome: 'skipped' })
      expect(await entry()).toEqual({ ...registered, nextRunAt: null })
      expect(await ledger.read.cron.due(WALL + 1e9, 10)).toEqual([])
    })

    it('stores a job that is scheduled for later without a job message', async () => {
      await register()
      const job = newJob({ queue: 'q', start: { state: 'scheduled', dueAt: WALL + 9 } })
      expect(await fireNext('nightly', { job })).toMatchObject({ job: { outbox: null } })
      expect(await row(job.id)).toMatchObject({ state: 'scheduled', messageOut: false })
    })
  })

  describe('entries whose next run lies ahead after the clock was set back', () => {
    it('are the enabled ones beyond the given time', async () => {
      await register({ name: 'there' }, WALL)
      await register({ name: 'beyond' }, WALL + 1)
      await register({ name: 'disabled', isEnabled: false }, null)
      const ahead = await ledger.read.cron.ahead(WALL, 0, 10)
      expect(ahead.map(({ name }) => name)).toEqual(['beyond'])
      expect(await entry('beyond')).toMatchObject(ahead[0] ?? {})
    })

    it('are returned in pages', async () => {
      for (const name of ['a', 'b', 'c']) await register({ name }, WALL + 1)
      const first = await ledger.read.cron.ahead(WALL, 0, 2)
      const rest = await ledger.read.cron.ahead(WALL, first.at(-1)?.seq ?? 0, 2)
      expect([...first, ...rest].map(({ name }) => name)).toEqual(['a', 'b', 'c'])
      expect(rest).toHaveLength(1)
    })

    it('are moved to the new time, unless they have moved meanwhile', async () => {
      const registered = await register()
      await fireNext()
      await ledger.cron.reset(tickOf(registered), WALL - MINUTE_MS)
      expect((await entry()).nextRunAt).toBe(WALL + MINUTE_MS)
      await ledger.cron.reset(tickOf(registered, WALL + MINUTE_MS), WALL - MINUTE_MS)
      expect(await entry()).toMatchObject({ nextRunAt: WALL - MINUTE_MS, lastRunAt: WALL })
    })

    it('keep the times that wait when they are moved', async () => {
      const registered = await register({ overlap: 'enqueue' })
      await fireNext()
      await fireNext()
      await ledger.cron.reset(tickOf(registered, WALL + 2 * MINUTE_MS), WALL)
      expect(await entry()).toMatchObject({ nextRunAt: WALL, queued: [WALL + MINUTE_MS] })
    })
  })

  describe('a tick while the job of an earlier tick has not ended', () => {
    it('skip: is skipped in whatever state that job is', async () => {
      await register()
      const id = firedJob(await fireNext())
      const overlapped = { outcome: 'overlapped', runningId: id }
      expect(await fireNext()).toEqual(overlapped)
      expect(await entry()).toMatchObject({ nextRunAt: WALL + 2 * MINUTE_MS, runCount: 1 })
      await ledger.claim([jobMessage(id)], TERMS)
      expect(await fireNext()).toEqual(overlapped)
      const to = {
        to: 'retryable',
        dueAt: NOW,
        delayMs: 1,
        retryQueueMs: null,
        isMessageBack: true,
      } as const
      await failAttempt(ledger, id, fenceOf(await row(id)), {
        now: NOW,
        error: null,
        errors: null,
        ...to,
      })
      expect(await fireNext()).toEqual(overlapped)
      await ledger.cancel(id, NOW)
      expect((await fireNext()).outcome).toBe('fired')
      expect((await entry()).runCount).toBe(2)
    })

    it('skip: fires after that job was completed, and is skipped again when a discarded one is revived', async () => {
      await register()
      await complete(firedJob(await fireNext()))
      const id = firedJob(await fireNext())
      await ledger.claim([jobMessage(id)], TERMS)
      const discarded = { to: 'discarded', isDeadLetter: true, copy: 'nack' } as const
      const failure = { now: NOW, error: null, errors: null, ...discarded }
      await failAttempt(ledger, id, fenceOf(await row(id)), failure)
      await revive(ledger, id, NOW)
      expect(await fireNext()).toEqual({ outcome: 'overlapped', runningId: id })
    })

    it('skip: ignores jobs of other entries and of an earlier entry of the same name', async () => {
      const earlier = await register()
      firedJob(await fireNext())
      await ledger.cron.remove('nightly', WALL - 1)
      await ledger.insert(newJob({ queue: 'q' }), NOW)
      const later = await register()
      expect(later.seq).not.toBe(earlier.seq)
      await register({ name: 'other' })
      firedJob(await fireNext('other'))
      expect((await fireNext()).outcome).toBe('fired')
    })

    it('skip: fires when the id of that job now belongs to a job of somebody else', async () => {
      await register()
      const id = firedJob(await fireNext())
      await ledger.withdraw(id, (await row(id)).outbox ?? 0)
      await ledger.insert(newJob({ id, queue: 'q' }), NOW)
      expect((await row(id)).state).toBe('available')
      expect((await fireNext()).outcome).toBe('fired')
    })

    it('skip: fires in the group commit in which that job ends, or its id goes to another job', async () => {
      await register()
      const first = firedJob(await fireNext())
      await ledger.claim([jobMessage(first)], TERMS)
      const tick = tickOf(await entry(), WALL + MINUTE_MS)
      const next = change({ nextRunAt: WALL + 2 * MINUTE_MS })
      const [, fired] = await Promise.all([
        ledger.complete(first, {}, { now: NOW, result: null }),
        ledger.cron.fire(tick, next),
      ])
      const id = firedJob(fired)
      const outbox = (await row(id)).outbox ?? 0
      const [, , again] = await Promise.all([
        ledger.withdraw(id, outbox),
        ledger.insert(newJob({ id, queue: 'q' }), NOW),
        ledger.cron.fire({ ...tick, at: WALL + 2 * MINUTE_MS }, change({ nextRunAt: null })),
      ])
      expect(again.outcome).toBe('fired')
    })

    it('skip: is skipped in the group commit in which somebody asks for a run', async () => {
      const registered = await register()
      const making = { job: newJob({ queue: 'q' }), now: NOW, isUnsettled: () => false }
      const [asked, ticked] = await Promise.all([
        ledger.cron.trigger('nightly', WALL - 1, making),
        ledger.cron.fire(tickOf(registered), change()),
      ])
      if (asked.outcome !== 'fired') throw new Error(asked.outcome)
      expect(ticked).toEqual({ outcome: 'overlapped', runningId: asked.job.id })
      expect(await entry()).toMatchObject({ runCount: 1, lastRunAt: WALL - 1 })
    })

    it('skip: names the oldest of the jobs that run', async () => {
      await register({ overlap: 'allow' })
      const [first, second] = [firedJob(await fireNext()), firedJob(await fireNext())]
      const replacing = { nextRunAt: null, createdAt: WALL - 1, limit: 1, isReplacing: true }
      await ledger.cron.register(definition(), replacing)
      expect(await fireNext()).toEqual({ outcome: 'overlapped', runningId: first })
      await ledger.cron.register(definition({ overlap: 'cancel_previous' }), replacing)
      expect(await fireNext()).toEqual({ outcome: 'blocked', runningIds: [first, second] })
    })

    it('allow: stores its job', async () => {
      await register({ overlap: 'allow' })
      const ids = [await fireNext(), await fireNext(), await fireNext()].map(firedJob)
      expect(new Set(ids).size).toBe(3)
      expect(await entry()).toMatchObject({ runCount: 3, lastJobId: ids[2] })
    })

    it('cancel_previous: is blocked and changes nothing until the running jobs have ended', async () => {
      await register({ overlap: 'cancel_previous' })
      const first = firedJob(await fireNext())
      const before = await entry()
      const blocked = { outcome: 'blocked', runningIds: [first] }
      expect(await fireNext()).toEqual(blocked)
      expect(await fireNext()).toEqual(blocked)
      expect(await entry()).toEqual(before)
      await ledger.cancel(first, NOW)
      expect((await fireNext()).outcome).toBe('fired')
    })

    it('enqueue: waits, and is released in order, one at a time', async () => {
      const { seq } = await register({ overlap: 'enqueue' })
      const first = firedJob(await fireNext())
      expect(await fireNext()).toEqual({ outcome: 'queued' })
      expect(await fireNext()).toEqual({ outcome: 'queued' })
      expect(await fireNext()).toEqual({ outcome: 'queue-full', runningId: first })
      const [second, third] = [WALL + MINUTE_MS, WALL + 2 * MINUTE_MS]
      expect(await entry()).toMatchObject({ queued: [second, third], runCount: 1 })
      expect(await ledger.read.cron.releasable('', 10)).toEqual([])
      const release = (at: number) =>
        ledger.cron.release(
          { name: 'nightly', seq, at },
          { ...change(), job: newJob({ queue: 'q' }) },
        )
      expect(await release(second)).toEqual({ outcome: 'stale' })

      await complete(first)
      await harness.reopen()
      expect(await ledger.read.cron.releasable('', 10)).toEqual([await entry()])
      // A tick that comes now may not overtake those that wait.
      await ledger.cron.drop({ name: 'nightly', seq, at: third }, 'invalid_job')
      expect((await entry()).queued).toEqual([second, third])
      expect(await release(third)).toEqual({ outcome: 'stale' })
      const [released, again] = await Promise.all([release(second), release(second)])
      expect(again).toEqual({ outcome: 'stale' })
      const id = firedJob(released)
      expect(released).toEqual({ outcome: 'fired', job: await row(id), cancelled: [] })
      expect((await ledger.read.outboxPage(0, 10)).map((owed) => owed.id)).toContain(id)
      expect(await entry()).toMatchObject({
        queued: [third],
        runCount: 2,
        lastRunAt: second,
        lastJobId: id,
      })
      expect(await ledger.read.cron.releasable('', 10)).toEqual([])
      await complete(id)
      expect(await ledger.cron.drop({ name: 'nightly', seq, at: third }, 'invalid_job')).toBe(true)
      expect(await entry()).toMatchObject({ queued: [], runCount: 2 })
      expect((await fireNext()).outcome).toBe('fired')
    })

    it('enqueue: is not released in the group commit in which one of two jobs ends', async () => {
      await register({ overlap: 'enqueue' })
      const first = firedJob(await fireNext())
      const making = { job: newJob({ queue: 'q' }), now: NOW, isUnsettled: () => false }
      await ledger.cron.trigger('nightly', WALL, making)
      expect((await fireNext()).outcome).toBe('queued')
      await ledger.claim([jobMessage(first)], TERMS)
      const [, released] = await Promise.all([
        ledger.complete(first, {}, { now: NOW, result: null }),
        ledger.cron.release(tickOf(await entry(), WALL + MINUTE_MS), { ...change(), ...making }),
      ])
      expect(released).toEqual({ outcome: 'stale' })
    })

    it('enqueue: stays behind waiting ticks, although no job runs', async () => {
      await register({ overlap: 'enqueue' })
      const first = firedJob(await fireNext())
      await fireNext()
      await complete(first)
      expect(await fireNext()).toEqual({ outcome: 'queued' })
      expect((await entry()).queued).toEqual([WALL + MINUTE_MS, WALL + 2 * MINUTE_MS])
      expect(await fireNext()).toEqual({ outcome: 'queue-full', runningId: first })
      expect(await ledger.read.cron.releasable('nightly', 10)).toEqual([])
      expect(await ledger.read.cron.releasable('', 10)).toHaveLength(1)
    })
  })

  describe('a tick whose job is unique', () => {
    const unique = (over: Partial<Unique> = {}): NewJob =>
      newJob({
        queue: 'q',
        createdAt: NOW,
        unique: { key: 'k', states: ['available'], periodMs: null, onConflict: 'reject', ...over },
      })
    /** Pushes another job with the same unique key. */
    const rival = async (): Promise<string> => {
      const job = unique()
      await ledger.insert(job, NOW)
      return job.id
    }

    it.each(['reject', 'ignore'] as const)(
      '%s: stores no job while another one holds the key',
      async (onConflict) => {
        const { seq } = await register({ overlap: 'enqueue' })
        const existingId = await rival()
        const job = unique({ onConflict })
        expect(await fireNext('nightly', { job })).toEqual({ outcome: 'unneeded', existingId })
        expect(await ledger.read.find(job.id)).toBeNull()
        expect(await entry()).toMatchObject({ runCount: 0, nextRunAt: WALL + MINUTE_MS })
        // The same holds for a tick that waited in the queue.
        const own = firedJob(await fireNext())
        await fireNext()
        await complete(own)
        const tick = { name: 'nightly', seq, at: WALL + 2 * MINUTE_MS }
        const released = await ledger.cron.release(tick, { ...change(), job })
        expect(released).toEqual({ outcome: 'unneeded', existingId })
        expect(await entry()).toMatchObject({ runCount: 1, queued: [] })
      },
    )

    it('replace: cancels the job that holds the key', async () => {
      await register()
      const other = await rival()
      const job = unique({ onConflict: 'replace' })
      const fired = await fireNext('nightly', { job })
      const cancelled = [
        { job: await row(other), previousState: 'available', isMessageOwed: expect.any(Boolean) },
      ]
      expect(fired).toEqual({ outcome: 'fired', job: await row(job.id), cancelled })
      expect((await row(other)).state).toBe('cancelled')
      expect(await entry()).toMatchObject({ runCount: 1, lastJobId: job.id })
    })

    it('waits while the other job may still be withdrawn', async () => {
      const { seq } = await register({ overlap: 'enqueue' })
      const before = await entry()
      const id = await rival()
      const given = { job: unique(), isUnsettled: (asked: string) => asked === id }
      expect(await fireNext('nightly', given)).toEqual({ outcome: 'unsettled' })
      expect(await entry()).toEqual(before)
      const own = firedJob(await fireNext())
      await fireNext()
      await complete(own)
      const tick = { name: 'nightly', seq, at: WALL + MINUTE_MS }
      const release = () => ledger.cron.release(tick, { ...change(), ...given })
      expect(await release()).toEqual({ outcome: 'unsettled' })
      expect((await entry()).queued).toEqual([tick.at])
      await ledger.withdraw(id, (await row(id)).outbox ?? 0)
      expect((await release()).outcome).toBe('fired')
    })

    it('checks the overlap before the unique key', async () => {
      await register()
      const runningId = firedJob(await fireNext())
      const other = await rival()
      const job = unique({ onConflict: 'replace' })
      const fired = await fireNext('nightly', { job })
      expect(fired).toEqual({ outcome: 'overlapped', runningId })
      expect((await row(other)).state).toBe('available')
    })
  })

  it('a cron entry keeps the id of a pruned job, and does not change when the commit of its tick fails', async () => {
    await register()
    const id = firedJob(await fireNext())
    await expect(fireNext('nightly', { job: newJob({ id }) })).resolves.toMatchObject({
      outcome: 'overlapped',
    })
    await complete(id)
    ledger.messageReturned(id, 0)
    await settleLazily(ledger)
    const all = { completed: NOW + 1, cancelled: 0, discarded: 0, withdrawn: 0, deadLetters: 0 }
    expect(await ledger.prune(all, NOW, 10)).toBe(1)
    expect(await entry()).toMatchObject({ lastJobId: id, runCount: 1 })
    const taken = await died(ledger, { queue: 'q' })
    const before = await entry()
    await expect(fireNext('nightly', { job: newJob({ id: taken.id }) })).rejects.toThrow()
    expect(await entry()).toEqual(before)
  })

  describe('runs of cron entries', () => {
    const runs = (page = { limit: 200, offset: 0 }) => ledger.read.cron.runs('nightly', page)
    const reasons = async () =>
      (await runs()).runs.map(({ jobId, reason }) => (jobId === null ? reason : 'made'))

    it('tell what became of each time, newest first, also after a restart', async () => {
      await register()
      const id = firedJob(await fireNext())
      await fireNext()
      await fireNext('nightly', { job: null, reason: 'queue_paused' })
      const skipped = { isManual: false, jobId: null, state: null, startedAt: null, endedAt: null }
      const all = {
        total: 3,
        runs: [
          { ...skipped, scheduledAt: WALL + 2 * MINUTE_MS, reason: 'queue_paused' },
          { ...skipped, scheduledAt: WALL + MINUTE_MS, reason: 'overlap' },
          { ...skipped, scheduledAt: WALL, reason: null, jobId: id, state: 'available' },
        ],
      }
      expect(await runs()).toEqual(all)
      await harness.reopen()
      expect(await runs()).toEqual(all)
      expect(await runs({ limit: 1, offset: 1 })).toEqual({ total: 3, runs: [all.runs[1]] })
      await complete(id)
      expect((await runs()).runs[2]).toMatchObject({
        state: 'completed',
        startedAt: NOW,
        endedAt: NOW,
      })
    })

    it('keep how a job ended after its row is gone', async () => {
      await register()
      const id = firedJob(await fireNext())
      await complete(id)
      ledger.messageReturned(id, 0)
      await settleLazily(ledger)
      const far = NOW + 1_000
      const cutoffs = {
        completed: far,
        cancelled: far,
        discarded: far,
        withdrawn: far,
        deadLetters: far,
      }
      expect(await ledger.prune(cutoffs, far, 10)).toBe(1)
      expect(await ledger.read.find(id)).toBeNull()
      expect((await runs()).runs).toMatchObject([
        { jobId: id, state: 'completed', startedAt: NOW, endedAt: NOW },
      ])
    })

    it('keep how a dead letter ended after it is pruned, and after its row is gone, too', async () => {
      await register()
      const id = firedJob(await fireNext())
      await ledger.claim([jobMessage(id)], TERMS)
      const to = { to: 'discarded', isDeadLetter: true, copy: 'nack' } as const
      const failure = { now: NOW + 3, error: null, errors: null, ...to }
      await failAttempt(ledger, id, fenceOf(await row(id)), failure)
      ledger.messageReturned(id, 0)
      const ended = { jobId: id, state: 'discarded', startedAt: NOW, endedAt: NOW + 3 }
      expect((await runs()).runs).toMatchObject([ended])
      // First its content goes, then the row that is left.
      await settleLazily(ledger)
      for (const at of [NOW + 1_000, NOW + 2_000]) {
        const kinds = { completed: at, cancelled: at, discarded: at, withdrawn: at }
        expect(await ledger.prune({ ...kinds, deadLetters: at }, at, 10)).toBe(1)
        expect((await runs()).runs).toMatchObject([ended])
      }
    })

    it('of a job that was retried are as that ends, whatever it was before', async () => {
      await register()
      const id = firedJob(await fireNext())
      await complete(id)
      const steering = { states: ['completed'], deadLettersOnly: false, scope: null } as const
      await ledger.bulk.act(
        [id],
        { ...steering, action: 'retry', sparesRetried: false },
        { now: NOW + 1, wall: NOW, cause: {}, maxMs: 1_000 },
      )
      expect((await runs()).runs).toMatchObject([{ jobId: id, state: 'available', endedAt: null }])
    })

    it('are the newest hundred, and gone with their entry', async () => {
      await register()
      await register({ name: 'other' })
      await fireNext('other', { job: null, reason: 'first' })
      for (let i = 0; i < 103; i++) await fireNext('nightly', { job: null, reason: `r${i}` })
      const kept = await reasons()
      expect([kept.length, kept[0], kept.at(-1)]).toEqual([100, 'r102', 'r3'])
      await fireNext('other', { job: null, reason: 'last' })
      await fireNext('nightly', { job: null, reason: 'r103' })
      expect([(await reasons()).length, (await runs()).total]).toEqual([100, 100])
      const others = await ledger.read.cron.runs('other', { limit: 9, offset: 0 })
      expect(others.runs.map(({ reason }) => reason)).toEqual(['last', 'first'])
      expect(others.total).toBe(2)
      await ledger.cron.remove('nightly', 0)
      await register()
      expect(await runs()).toEqual({ total: 0, runs: [] })
    })
  })

  describe('a run that somebody asks for', () => {
    const asked = { now: NOW, isUnsettled: () => false }
    const trigger = (key?: string) =>
      ledger.cron.trigger(
        'nightly',
        WALL - 100,
        { job: newJob({ queue: 'q' }), ...asked },
        { request: key === undefined ? undefined : { key, fingerprint: 'f' }, now: NOW },
      )

    it('makes a job beside a running one, counts it, and leaves the next time', async () => {
      await register()
      await fireNext()
      const before = await entry()
      const made = await trigger()
      expect(made.outcome).toBe('fired')
      if (made.outcome !== 'fired') return
      expect(await entry()).toEqual({
        ...before,
        runCount: 2,
        lastRunAt: WALL - 100,
        lastJobId: made.job.id,
      })
      const { runs } = await ledger.read.cron.runs('nightly', { limit: 1, offset: 0 })
      expect(runs).toMatchObject([{ jobId: made.job.id, isManual: true, scheduledAt: WALL - 100 }])
      // The entry's next time finds that this job is not over.
      expect((await fireNext()).outcome).toBe('overlapped')
    })

    it('is remembered with its key, and missing without its entry', async () => {
      expect(await trigger()).toEqual({ outcome: 'missing' })
      await register()
      const made = await trigger('k')
      const again = await trigger('k')
      expect([made.outcome, again.outcome]).toEqual(['fired', 'remembered'])
      expect((await entry()).runCount).toBe(1)
    })
  })

  describe('a change of an entry', () => {
    const replace = (given: Partial<CronDefinition>, basis: CronDefinition) =>
      ledger.cron.register(definition(given), {
        ...{ nextRunAt: null, createdAt: WALL - 1, limit: 0, isReplacing: true },
        ...{ basis, isKeepingQueued: true },
      })

    it('is refused if the entry is not as it was when the change was made', async () => {
      const before = await register()
      expect((await replace({}, { ...before, timezone: 'X' })).outcome).toBe('changed')
      expect((await replace({ description: 'a' }, before)).outcome).toBe('replaced')
      expect((await replace({ description: 'b' }, before)).outcome).toBe('changed')
      expect((await entry()).description).toBe('a')
    })

    it('keeps the times that wait, which make no job while the entry is disabled', async () => {
      await register({ overlap: 'enqueue' })
      const id = firedJob(await fireNext())
      await fireNext()
      const { queued } = await entry()
      expect(queued).toEqual([WALL + MINUTE_MS])
      const paused = await ledger.cron.register(
        definition({ overlap: 'enqueue', isEnabled: false }),
        {
          ...{ nextRunAt: null, createdAt: WALL, limit: 0, isReplacing: true },
          ...{ basis: await entry(), isKeepingQueued: true },
        },
      )
      expect(paused).toMatchObject({ outcome: 'replaced', entry: { queued, nextRunAt: null } })
      await complete(id)
      expect(await ledger.read.cron.releasable('', 10)).toEqual([])
      const tick = tickOf(await entry(), WALL + MINUTE_MS)
      const making = { job: newJob({ queue: 'q' }), ...{ now: NOW, isUnsettled: () => false } }
      expect(await ledger.cron.release(tick, making)).toEqual({ outcome: 'stale' })
      await replace({ overlap: 'enqueue' }, await entry())
      expect(await ledger.read.cron.releasable('', 10)).toHaveLength(1)
      expect((await ledger.cron.release(tick, making)).outcome).toBe('fired')
    })
  })
}
