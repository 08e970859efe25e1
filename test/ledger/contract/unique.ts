import { describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  freshRow,
  JOB_STATES,
  type JobState,
  type NewJob,
  type Unique,
} from '../../../src/job/job.ts'
import type { Admitted, InsertedAll } from '../../../src/ledger/enqueued.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  deleteDeadLetter,
  died,
  expectCounts,
  failAttempt,
  fenceOf,
  insertedOf,
  jobMessage,
  NOW,
  pushed,
  revive,
  settleLazily,
  TERMS,
  type UnderTest,
} from '../harness.ts'

const LIVE: readonly JobState[] = ['scheduled', 'available', 'pending', 'active', 'retryable']

/** Unique jobs. */
export function uniqueContract({ harness, ledger, row, plant }: UnderTest): void {
  const claim = (over: Partial<Unique> = {}): Unique => ({
    key: 'k',
    states: LIVE,
    periodMs: null,
    onConflict: 'reject',
    ...over,
  })
  const job = (over: Partial<Unique> = {}, given: Partial<NewJob> = {}) =>
    newJob({ createdAt: NOW, ...given, unique: claim(over) })
  const large = (mebibytes: number, over: Partial<Unique> = {}) =>
    job(over, { envelope: `{"args":["${'x'.repeat(mebibytes * 1024 * 1024)}"]}` })
  const stored = (inserted: InsertedAll): Admitted[] => {
    if (inserted.outcome !== 'inserted') throw new Error(inserted.outcome)
    return inserted.stored
  }

  /** The wall clock stands at `NOW`. */
  const stopClock = async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: NOW })
    onTestFinished(() => void vi.useRealTimers())
    await harness.reopen()
  }

  describe('a unique job', () => {
    it('is stored when no other job has its key', async () => {
      const first = job()
      const inserted = insertedOf(await ledger.insert(first, NOW))
      expect(inserted).not.toHaveProperty('replacing')
      expect(await row(first.id)).toEqual(freshRow(first, inserted))
      expect(await ledger.insert(job({ key: 'other' }), NOW)).toMatchObject({ outcome: 'inserted' })
      expect(await ledger.insert(newJob(), NOW)).toMatchObject({ outcome: 'inserted' })
      expect(await ledger.insert(job(), NOW)).toEqual({
        outcome: 'conflict',
        existing: await row(first.id),
      })
    })

    it('does not conflict with a job whose key differs in its last character only', async () => {
      const key = '0123456789abcdef'.repeat(4)
      const first = await pushed(ledger, job({ key }))
      const alike = { key: `${key.slice(0, -1)}0`, states: JOB_STATES }
      expect(await ledger.insert(job(alike), NOW)).toMatchObject({ outcome: 'inserted' })
      expect(await ledger.insert(job({ ...alike, onConflict: 'replace' }), NOW)).toMatchObject({
        replacing: { cancelled: [{}] },
      })
      expect(await row(first.id)).toMatchObject({ state: 'available' })
    })

    it.each(JOB_STATES)(
      'conflicts as %s when the policy of the new job names that state',
      async (state) => {
        const { id } = await pushed(ledger, job())
        await plant({ id, state })
        const others = JOB_STATES.filter((other) => other !== state)
        expect(await ledger.insert(job({ states: [state] }), NOW)).toMatchObject({
          outcome: 'conflict',
          existing: { id, state },
        })
        expect(await ledger.insert(job({ states: others }), NOW)).toMatchObject({
          outcome: 'inserted',
        })
      },
    )

    it('does not conflict once it is withdrawn', async () => {
      const { id, outbox } = await pushed(ledger, job())
      await ledger.withdraw(id, outbox)
      const again = job({ states: JOB_STATES }, { id })
      expect(await ledger.insert(again, NOW)).toMatchObject({ outcome: 'inserted', generation: 1 })
      expect(await ledger.insert(job(), NOW)).toMatchObject({ outcome: 'conflict' })
    })

    it('conflicts for its period, counted from its creation', async () => {
      const { id } = await pushed(ledger, job())
      const next = (now: number) => ledger.insert(job({ periodMs: 1_000 }, { createdAt: now }), now)
      expect(await next(NOW + 999)).toMatchObject({ outcome: 'conflict', existing: { id } })
      expect(await next(NOW + 1_000)).toMatchObject({ outcome: 'inserted' })
      // Now the second job conflicts.
      expect(await next(NOW + 1_001)).toMatchObject({ outcome: 'conflict' })
    })

    it('counts as discarded once it has expired, even before the ledger discards it', async () => {
      const past = await pushed(ledger, job({}, { expiresAt: Date.now() - 1 }))
      const discarded = { states: [...LIVE, 'discarded' as const] }
      expect(await ledger.insert(job(discarded), NOW)).toMatchObject({ outcome: 'conflict' })
      const next = job({ onConflict: 'ignore' }, { expiresAt: Date.now() + 60_000 })
      expect(await ledger.insert(next, NOW)).toMatchObject({ outcome: 'inserted' })
      expect(await row(past.id)).toMatchObject({ state: 'available' })
      expect(await ledger.insert(job(), NOW)).toMatchObject({ existing: { id: next.id } })
    })

    it('conflicts while it runs, although its expiry has passed', async () => {
      const running = await pushed(ledger, job({}, { expiresAt: NOW + 1 }))
      await ledger.claim([jobMessage(running.id)], { ...TERMS, wall: NOW })
      expect(await row(running.id)).toMatchObject({ state: 'active' })
      expect(await ledger.insert(job(), NOW)).toMatchObject({ outcome: 'conflict' })
    })

    it('conflicts as completed, although its expiry has passed', async () => {
      const { id } = await pushed(ledger, job({}, { expiresAt: NOW + 1 }))
      await ledger.claim([jobMessage(id)], { ...TERMS, wall: NOW })
      await ledger.complete(id, {}, { now: NOW, result: null })
      const next = job({ states: [...LIVE, 'completed'] })
      expect(await ledger.insert(next, NOW)).toMatchObject({
        outcome: 'conflict',
        existing: { id, state: 'completed' },
      })
    })

    it('counts as discarded from the moment of its expiry on', async () => {
      await stopClock()
      await ledger.insert(job({}, { expiresAt: NOW + 1 }), NOW)
      expect(await ledger.insert(job(), NOW)).toMatchObject({ outcome: 'conflict' })
      vi.setSystemTime(NOW + 1)
      expect(await ledger.insert(job(), NOW)).toMatchObject({ outcome: 'inserted' })
    })

    describe('together with another write of its group commit', () => {
      it('does not conflict with a job that this has stored and that has expired', async () => {
        await stopClock()
        const [past, next, last] = await Promise.all([
          ledger.insert(job({}, { expiresAt: NOW }), NOW),
          ledger.insert(job({}, { expiresAt: NOW + 1 }), NOW),
          ledger.insert(job(), NOW),
        ])
        expect([past, next, last].map(({ outcome }) => outcome)).toEqual([
          ...['inserted', 'inserted', 'conflict'],
        ])
      })

      it('does not conflict with a job that this has stored before its period', async () => {
        const [first, next, last] = await Promise.all([
          ledger.insert(job(), NOW),
          ledger.insert(job({ periodMs: 1_000 }, { createdAt: NOW + 1_000 }), NOW + 1_000),
          ledger.insert(job({ periodMs: 1_000 }), NOW + 1_999),
        ])
        expect([first, next, last].map(({ outcome }) => outcome)).toEqual([
          ...['inserted', 'inserted', 'conflict'],
        ])
      })

      it('conflicts with a job that this has started, although its expiry has passed', async () => {
        const { id } = await pushed(ledger, job({}, { expiresAt: NOW + 1 }))
        const [, inserted] = await Promise.all([
          ledger.claim([jobMessage(id)], { ...TERMS, wall: NOW }),
          ledger.insert(job(), NOW),
        ])
        expect(inserted).toMatchObject({ outcome: 'conflict', existing: { id, state: 'active' } })
      })

      it('conflicts with a job that this has completed by the state that it has then', async () => {
        const { id } = await pushed(ledger, job({}, { expiresAt: NOW + 1 }))
        await ledger.claim([jobMessage(id)], { ...TERMS, wall: NOW })
        const [, other, live] = await Promise.all([
          ledger.complete(id, {}, { now: NOW, result: null }),
          ledger.insert(job({ states: ['completed'] }), NOW),
          ledger.insert(job(), NOW),
        ])
        expect(other).toMatchObject({ outcome: 'conflict', existing: { id, state: 'completed' } })
        expect(live).toMatchObject({ outcome: 'inserted' })
      })

      it('conflicts with the next holder of the key when this has ended the first', async () => {
        const first = await pushed(ledger, job())
        const second = await pushed(ledger, job({ states: ['pending'] }, { createdAt: NOW + 1 }))
        const [, inserted] = await Promise.all([
          ledger.cancel(first.id, NOW),
          ledger.insert(job(), NOW),
        ])
        expect(inserted).toMatchObject({ outcome: 'conflict', existing: { id: second.id } })
      })
    })

    it('is stored once when 64 jobs with its key come in one group commit', async () => {
      const outcomes = await Promise.all(
        Array.from({ length: 64 }, (_, i) =>
          ledger.insert(job({ onConflict: i % 2 === 0 ? 'reject' : 'ignore' }), NOW),
        ),
      )
      const kinds = outcomes.map(({ outcome }) => outcome)
      expect(kinds.filter((kind) => kind === 'inserted')).toHaveLength(1)
      expect(kinds.filter((kind) => kind === 'conflict')).toHaveLength(31)
      expect(kinds.filter((kind) => kind === 'existing')).toHaveLength(32)
      expect(ledger.known.counts('default').available).toBe(1)
    })

    it('keeps its key over a restart, and through a retry although another job has the key', async () => {
      const first = job()
      await ledger.insert(first, NOW)
      await harness.reopen()
      await ledger.claim([jobMessage(first.id)], TERMS)
      const change = { now: NOW, error: '{}', errors: '[]', to: 'available' } as const
      // Another job could take the key, because its own policy names pending jobs only.
      await ledger.insert(job({ states: ['pending'] }), NOW)
      expect(
        await failAttempt(ledger, first.id, fenceOf(await row(first.id)), change),
      ).toMatchObject({
        state: 'available',
      })
      expect(await ledger.insert(job(), NOW)).toMatchObject({ outcome: 'conflict' })
    })

    it('makes a new job with its key wait while it may still be withdrawn', async () => {
      const { id } = await pushed(ledger, job())
      for (const onConflict of ['reject', 'ignore', 'replace'] as const) {
        const isUnsettled = (other: string) => other === id
        expect(await ledger.insert(job({ onConflict }), NOW, { isUnsettled })).toEqual({
          outcome: 'unsettled',
          id,
        })
        const batch = [newJob(), job({ onConflict })]
        expect(await ledger.insertAll(batch, NOW, { isUnsettled })).toMatchObject({
          outcome: 'unsettled',
          id,
        })
        expect(await ledger.read.find(batch[0]?.id ?? '')).toBeNull()
      }
      expect((await row(id)).state).toBe('available')
    })
  })

  it('boundWaits dates a unique job back that was created while the clock was ahead', async () => {
    const [ahead, periodMs] = [NOW + 86_400_000, 1000]
    const first = job({ periodMs }, { createdAt: ahead })
    await ledger.insert(first, ahead)
    const other = await pushed(ledger, { createdAt: ahead })
    await ledger.boundWaits(NOW)
    expect((await row(first.id)).createdAt).toBe(NOW)
    // Of other jobs it stays, which nothing asks for the beginning of a period.
    expect((await row(other.id)).createdAt).toBe(ahead)
    const next = (now: number) => ledger.insert(job({ periodMs }, { createdAt: now }), now)
    expect(await next(NOW + 999)).toMatchObject({ outcome: 'conflict' })
    expect(await next(NOW + 1000)).toMatchObject({ outcome: 'inserted' })
    await ledger.boundWaits(NOW + 1000)
    expect((await row(first.id)).createdAt).toBe(NOW)
  })

  it("boundWaits dates it back even when the newest row is a native job with its publisher's date", async () => {
    const ahead = NOW + 86_400_000
    const first = job({ periodMs: 1000 }, { createdAt: ahead })
    await ledger.insert(first, ahead)
    const native = newJob({ createdAt: NOW - 10 })
    await ledger.claim([jobMessage(native.id, { adopt: () => native })], TERMS)
    await ledger.boundWaits(NOW)
    expect((await row(first.id)).createdAt).toBe(NOW)
  })

  describe('a unique job with ignore', () => {
    it('stores nothing and returns the existing job', async () => {
      const { id } = await pushed(ledger, job())
      const other = job({ onConflict: 'ignore' })
      expect(await ledger.insert(other, NOW)).toEqual({ outcome: 'existing', job: await row(id) })
      expect(await ledger.read.find(other.id)).toBeNull()
    })
  })

  describe('a unique job with replace', () => {
    const replacing = (over: Partial<NewJob> = {}) => job({ onConflict: 'replace' }, over)

    it.each(LIVE)(
      'cancels a job that is %s, and stores the new one in the same commit',
      async (state) => {
        const { id } = await pushed(ledger, job())
        await plant({ id, state })
        const next = replacing()
        const inserted = insertedOf(await ledger.insert(next, NOW + 5))
        expect(inserted.replacing?.cancelled).toEqual([
          { job: await row(id), previousState: state, isMessageOwed: expect.any(Boolean) },
        ])
        // Its job message is out, so a broadcast to the workers is owed.
        expect(await row(id)).toMatchObject({
          state: 'cancelled',
          cancelledAt: NOW + 5,
          outbox: expect.any(Number),
        })
        expect((await row(next.id)).state).toBe('available')
      },
    )

    it('leaves ended jobs unchanged', async () => {
      const { id } = await pushed(ledger, job())
      await plant({ id, state: 'completed' })
      const next = job({ onConflict: 'replace', states: JOB_STATES })
      expect(insertedOf(await ledger.insert(next, NOW))).not.toHaveProperty('replacing')
      expect((await row(id)).state).toBe('completed')
    })

    it('cancels nothing when the new job is refused', async () => {
      const { id } = await pushed(ledger, job())
      const taken = await pushed(ledger)
      const before = await row(id)
      expect(await ledger.insert(replacing({ id: taken.id }), NOW)).toEqual({
        outcome: 'duplicate',
      })
      expect(await row(id)).toEqual(before)
      expect(ledger.known.counts('default')).toMatchObject({ available: 2, cancelled: 0 })
      // Another write of the same group commit is not rolled back with it.
      const [refused, beside] = await Promise.all([
        ledger.insert(replacing({ id: taken.id }), NOW),
        ledger.insert(newJob(), NOW),
      ])
      expect([refused.outcome, beside.outcome]).toEqual(['duplicate', 'inserted'])
    })

    it('cancels 100 jobs with its key, and conflicts with more', async () => {
      const push = (count: number) =>
        ledger.insertAll(
          Array.from({ length: count }, () => job({ states: ['pending'] })),
          NOW,
        )
      await push(100)
      const inserted = insertedOf(await ledger.insert(replacing(), NOW))
      expect(inserted.replacing?.cancelled).toHaveLength(100)
      await push(100)
      expect(await ledger.insert(replacing(), NOW)).toMatchObject({ outcome: 'conflict' })
      expect(ledger.known.counts('default')).toMatchObject({ available: 101, cancelled: 100 })
    })

    it('cancels several jobs only when they are small together, and a single job of any size', async () => {
      const [first, second] = [large(16), large(15, { states: ['pending'] })]
      await ledger.insertAll([first, second], NOW)
      await plant({ id: second.id, state: 'retryable', errors: 'x'.repeat(1.5 * 1024 * 1024) })
      expect(await ledger.insert(replacing(), NOW)).toMatchObject({ outcome: 'conflict' })
      await plant({ id: second.id, errors: '[]' })
      expect(await ledger.insert(replacing(), NOW)).toMatchObject({
        replacing: { cancelled: [{}, {}] },
      })
      const alone = await pushed(ledger, large(33, { key: 'alone' }))
      expect(await ledger.insert(job({ key: 'alone', onConflict: 'replace' }), NOW)).toMatchObject({
        replacing: { cancelled: [{ job: { id: alone.id } }] },
      })
    })

    it('cancels no job while one of them may still be withdrawn', async () => {
      const [first, second] = [job(), job({ states: ['pending'] })]
      for (const one of [first, second]) await ledger.insert(one, NOW)
      const isUnsettled = (id: string) => id === second.id
      const unsettled = { outcome: 'unsettled', id: second.id }
      expect(await ledger.insert(replacing(), NOW, { isUnsettled })).toEqual(unsettled)
      expect(ledger.known.counts('default')).toMatchObject({ available: 2, cancelled: 0 })
    })

    it('takes over the schedule of the old job with replace_except_schedule', async () => {
      const start = { state: 'scheduled', dueAt: NOW + 500 } as const
      const { id } = await pushed(ledger, job({}, { start, envelope: '{"scheduled_at":"then"}' }))
      const next = job({ onConflict: 'replace_except_schedule' }, { envelope: '{"args":[2]}' })
      const inserted = insertedOf(await ledger.insert(next, NOW))
      expect((await row(id)).state).toBe('cancelled')
      expect(await row(next.id)).toMatchObject({
        state: 'scheduled',
        dueAt: NOW + 500,
        envelope: '{"args":[2],"scheduled_at":"then"}',
      })
      expect(freshRow(inserted.replacing?.job ?? next, inserted)).toEqual(await row(next.id))
    })

    it('conflicts with replace_except_schedule if the new job expires before that time', async () => {
      const start = { state: 'scheduled', dueAt: NOW + 500 } as const
      const { id } = await pushed(ledger, job({}, { start }))
      const next = (expiresAt: number) =>
        ledger.insert(job({ onConflict: 'replace_except_schedule' }, { expiresAt }), NOW)
      expect(await next(NOW + 500)).toMatchObject({ outcome: 'conflict', existing: { id } })
      expect((await row(id)).state).toBe('scheduled')
      expect(await next(NOW + 501)).toMatchObject({ outcome: 'inserted' })
    })

    it('replaces several jobs oldest first, and takes over the schedule of the oldest', async () => {
      const at = (createdAt: number, states: readonly JobState[]) => {
        const start = { state: 'scheduled', dueAt: createdAt + 500 } as const
        return job({ states }, { createdAt, start })
      }
      // Stored in the other order.
      const [newer, older] = [at(NOW + 2, LIVE), at(NOW + 1, ['pending'])]
      for (const one of [newer, older]) await ledger.insert(one, NOW)
      const next = job({ onConflict: 'replace_except_schedule' })
      const { replacing } = insertedOf(await ledger.insert(next, NOW))
      expect(replacing?.cancelled.map((one) => one.job.id)).toEqual([older.id, newer.id])
      expect((await row(next.id)).dueAt).toBe(NOW + 501)
    })

    it('keeps its own time with plain replace', async () => {
      const start = { state: 'scheduled', dueAt: NOW + 500 } as const
      const { id } = await pushed(ledger, job({}, { start }))
      const next = job({ onConflict: 'replace' })
      await ledger.insert(next, NOW)
      expect((await row(id)).state).toBe('cancelled')
      expect(await row(next.id)).toMatchObject({ state: 'available', dueAt: null })
    })
  })

  describe('a batch of unique jobs', () => {
    it('is refused at the first job that conflicts, also with an earlier job of the batch', async () => {
      const { id } = await pushed(ledger, job())
      const batch = [newJob({ queue: 'new' }), job()]
      expect(await ledger.insertAll(batch, NOW)).toEqual({
        outcome: 'conflict',
        index: 1,
        existing: await row(id),
      })
      const own = [job({ key: 'own' }, { queue: 'new' }), job({ key: 'own' })]
      expect(await ledger.insertAll(own, NOW)).toMatchObject({
        outcome: 'conflict',
        index: 1,
        existing: { id: own[0]?.id },
      })
      expect(await Promise.all([...batch, ...own].map((one) => ledger.read.find(one.id)))).toEqual([
        null,
        null,
        null,
        null,
      ])
      expect(ledger.known.queues().map(({ name }) => name)).toEqual(['default'])
    })

    it('returns the existing job for ignore, also when that is an earlier job of the batch', async () => {
      const { id } = await pushed(ledger, job())
      const ignore = { onConflict: 'ignore' } as const
      const batch = [job(ignore), job({ ...ignore, key: 'own' }), job({ ...ignore, key: 'own' })]
      const [first, second, third] = stored(await ledger.insertAll(batch, NOW))
      expect(first).toEqual({ outcome: 'existing', job: await row(id) })
      expect(second?.outcome).toBe('inserted')
      expect(third).toEqual({ outcome: 'existing', job: await row(batch[1]?.id ?? '') })
    })

    it('replaces 1,000 jobs, and conflicts with more', async () => {
      const replaceAt = (key: string) => job({ key, onConflict: 'replace' })
      const keys = Array.from({ length: 11 }, (_, i) => `k${i}`)
      const others = keys.flatMap((key) =>
        Array.from({ length: key === 'k10' ? 1 : 100 }, () => job({ key, states: ['pending'] })),
      )
      await ledger.insertAll(others, NOW)
      expect(await ledger.insertAll(keys.map(replaceAt), NOW)).toMatchObject({
        outcome: 'conflict',
        index: 10,
      })
      expect(ledger.known.counts('default')).toMatchObject({ available: 1_001, cancelled: 0 })
      const batch = await ledger.insertAll(keys.slice(0, 10).map(replaceAt), NOW)
      expect(batch.outcome).toBe('inserted')
      expect(ledger.known.counts('default')).toMatchObject({ available: 11, cancelled: 1_000 })
    })

    it('replaces 64 MiB of jobs, and conflicts with more', async () => {
      const keys = ['a', 'b', 'c']
      await ledger.insertAll([...keys.map((key) => large(33, { key })), job({ key: 'd' })], NOW)
      const replaceAt = (key: string) => job({ key, onConflict: 'replace' })
      const insert = (...of: string[]) => ledger.insertAll(of.map(replaceAt), NOW)
      expect(await insert('a', 'b', 'd')).toMatchObject({ outcome: 'conflict', index: 1 })
      expect(ledger.known.counts('default')).toMatchObject({ available: 4, cancelled: 0 })
      expect(await insert('d', 'b')).toMatchObject({ outcome: 'inserted' })
    })

    it('replaces an earlier job of the batch, whose job message is never published', async () => {
      const replace = { onConflict: 'replace' } as const
      const outside = await pushed(ledger, job())
      const batch = [job(replace), job(replace)]
      const [first, second] = stored(await ledger.insertAll(batch, NOW)).map(insertedOf)
      const [id = '', last = ''] = batch.map((one) => one.id)
      expect(first?.replacing?.cancelled.map((one) => one.job.id)).toEqual([outside.id])
      expect(second?.replacing?.cancelled).toEqual([
        { job: await row(id), previousState: 'available', isMessageOwed: expect.any(Boolean) },
      ])
      expect(await row(outside.id)).toMatchObject({ state: 'cancelled', messageOut: true })
      // Because no job message of it is out, retention may prune it.
      expect(await row(id)).toMatchObject({ state: 'cancelled', messageOut: false })
      expect(await row(last)).toMatchObject({ state: 'available', messageOut: true })
    })
  })

  describe('a unique dead letter', () => {
    const withPolicy = (unique: object) => JSON.stringify({ args: [], unique })

    it('takes its key again when it is retried, if the key is free', async () => {
      const { id } = await died(ledger, job({}, { envelope: withPolicy({}) }))
      const rival = await pushed(ledger, job())
      expect(await revive(ledger, id, NOW)).toEqual({
        outcome: 'conflict',
        existing: await row(rival.id),
        uniqueKey: 'k',
      })
      expect(await row(id)).toMatchObject({ state: 'discarded', isDeadLetter: true })
      await ledger.cancel(rival.id, NOW)
      expect(await revive(ledger, id, NOW)).toMatchObject({ state: 'available', generation: 1 })
      expect(await ledger.insert(job(), NOW)).toMatchObject({ outcome: 'conflict' })
    })

    it('applies its own policy when it is retried, and does not conflict with itself', async () => {
      const envelope = withPolicy({ period: 'PT1S' })
      const states = { unique_extra: { states: ['discarded', 'available'] } }
      const self = JSON.stringify({ ...JSON.parse(withPolicy({})), ...states })
      const [first, second] = [
        await died(ledger, job({ key: 'a' }, { envelope })),
        await died(ledger, job({ key: 'b' }, { envelope: self })),
      ]
      await ledger.insert(job({ key: 'a' }), NOW)
      expect(await revive(ledger, first.id, NOW + 999)).toMatchObject({ outcome: 'conflict' })
      expect(await revive(ledger, first.id, NOW + 1_000)).toMatchObject({ state: 'available' })
      expect(await revive(ledger, second.id, NOW)).toMatchObject({ state: 'available' })
    })

    it('does not conflict with itself when its group commit has changed it', async () => {
      const states = { unique_extra: { states: ['discarded', 'available'] } }
      const envelope = JSON.stringify({ ...JSON.parse(withPolicy({})), ...states })
      const { id } = await died(ledger, job({}, { envelope }))
      const [, revived] = await Promise.all([
        ledger.insert(newJob(), NOW, { retryOf: id }),
        revive(ledger, id, NOW),
      ])
      expect(revived).toMatchObject({ id, state: 'available' })
    })

    it('gives up its key when it is deleted', async () => {
      const { id } = await died(ledger, job({}, { envelope: withPolicy({}) }))
      await deleteDeadLetter(ledger, id, NOW)
      const next = job({ states: JOB_STATES })
      expect(await ledger.insert(next, NOW)).toMatchObject({ outcome: 'inserted' })
    })
  })

  it('a job that waits for a retry and is retried by hand needs no free key: it has it', async () => {
    const { id } = await pushed(ledger, job())
    await plant({ id, state: 'retryable' })
    await ledger.insert(job({ states: ['pending'] }), NOW)
    const steering = { states: ['retryable'], deadLettersOnly: false, scope: null } as const
    const [acted] = await ledger.bulk.act(
      [id],
      { ...steering, action: 'retry', sparesRetried: false },
      { now: NOW, wall: NOW, cause: {}, maxMs: 1_000 },
    )
    expect(acted).toMatchObject({ did: 'retry', job: { state: 'available' } })
  })

  describe('a job that was published natively', () => {
    it('has its key, but is not checked for a conflict', async () => {
      await pushed(ledger, job())
      const native = job({}, { id: 'n' })
      const [result] = await ledger.claim([jobMessage('n', { adopt: () => native })], TERMS)
      expect(result).toMatchObject({ verdict: 'claimed' })
      const next = job({ states: ['active'] })
      expect(await ledger.insert(next, NOW)).toMatchObject({
        outcome: 'conflict',
        existing: { id: 'n' },
      })
    })
  })

  it('the counts stay right after replaced jobs and a refused batch', async () => {
    await ledger.insert(job(), NOW)
    await ledger.insertAll([job({ onConflict: 'replace' }), job({ onConflict: 'replace' })], NOW)
    await ledger.insertAll([job({ onConflict: 'replace' }), job()], NOW)
    await settleLazily(ledger)
    await expectCounts(harness)
    expect(ledger.known.counts('default')).toMatchObject({ available: 1, cancelled: 2 })
  })
}
