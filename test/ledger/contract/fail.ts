import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { JobRow, RowState } from '../../../src/job/job.ts'
import { isStale } from '../../../src/job/stale.ts'
import type { DecideFailure, FailureChange } from '../../../src/ledger/leases.ts'
import {
  expectCounts,
  extendedOf,
  FAILED,
  failAttempt,
  fenceOf,
  fetched,
  giveBack,
  jobMessage,
  NOW,
  overdueRows,
  owedBy,
  pushed,
  settleLazily,
  staleAt,
  TERMS,
  type UnderTest,
} from '../harness.ts'

const RETRY = {
  ...FAILED,
  to: 'retryable',
  dueAt: NOW + 900,
  delayMs: 800,
  isMessageBack: true,
} as const
const VIA_RETRY_QUEUE = { ...RETRY, retryQueueMs: 700 } as const
const HELD = { ...RETRY, retryQueueMs: null } as const
const AGAIN = { ...FAILED, to: 'available' } as const
const NACKED = { ...FAILED, to: 'discarded', isDeadLetter: true, copy: 'nack' } as const
const PUBLISHED = { ...NACKED, copy: 'publish' } as const

const CHANGES: [string, FailureChange][] = [
  ['retryable', VIA_RETRY_QUEUE],
  ['available', AGAIN],
  ['discarded', NACKED],
]

/** Failed attempts, and leases that are extended or run out. */
export function failContract({ harness, ledger, row, plant }: UnderTest): void {
  /** The row after a failed attempt, but for what depends on the new state. */
  const over = (job: JobRow) => ({
    ...job,
    error: FAILED.error,
    errors: FAILED.errors,
    holder: null,
    leaseMs: null,
    leaseExpiresAt: null,
    timeoutAt: null,
  })
  const back = (job: JobRow) => ({ ...over(job), workerId: null, startedAt: null })

  describe('fail', () => {
    it('to a retry queue makes the job retryable and owes the job message of the next attempt', async () => {
      const job = await fetched(ledger, { queue: 'q' })
      const failed = await failAttempt(
        ledger,
        job.id,
        { ...fenceOf(job), workerId: 'worker-1' },
        VIA_RETRY_QUEUE,
      )
      expect(failed).toEqual(await row(job.id))
      expect(failed).toEqual({
        ...back(job),
        state: 'retryable',
        dueAt: NOW + 900,
        retryDelayMs: 800,
        retryQueueMs: 700,
        outbox: (await row(job.id)).outbox,
        messageOut: true,
      })
      expect(await ledger.read.outboxPage(0, 10)).toEqual([owedBy(await row(job.id))])
      expect(ledger.known.counts('q')).toMatchObject({ active: 0, retryable: 1 })
    })

    it.each([
      ['held by the gateway, job message back', 'gateway', true, false],
      ['held by the gateway, delivery lost', 'gateway', false, true],
      ['handed over, so without a job message', 'ledger', false, false],
      ['held natively', 'native', false, true],
    ] as const)(
      'without a retry queue keeps the retry in the ledger: %s',
      async (_, holder, isMessageBack, messageOut) => {
        const job = await fetched(ledger)
        await plant({ id: job.id, holder })
        const failed = await failAttempt(ledger, job.id, fenceOf(job), { ...HELD, isMessageBack })
        const expected = { state: 'retryable', retryQueueMs: null, outbox: null, dueAt: NOW + 900 }
        expect(failed).toMatchObject({ ...expected, messageOut, holder: null })
      },
    )

    it('to available owes a job message when the ledger alone held the lease', async () => {
      const job = await fetched(ledger, { queue: 'q' })
      await ledger.handOver([job])
      const failed = await failAttempt(ledger, job.id, fenceOf(job), AGAIN)
      const { outbox } = await row(job.id)
      expect(failed).toEqual({ ...back(job), state: 'available', outbox, messageOut: true })
      expect(outbox).not.toBeNull()
      expect(ledger.known.counts('q')).toMatchObject({ active: 0, available: 1 })
    })

    it('to available owes no job message while the native worker still has the delivery', async () => {
      const job = await fetched(ledger)
      await plant({ id: job.id, holder: 'native' })
      const failed = await failAttempt(ledger, job.id, fenceOf(job), AGAIN)
      expect(failed).toEqual({ ...back(job), state: 'available', holder: 'native' })
      const [claimed] = await ledger.claim([jobMessage(job.id)], TERMS)
      expect(claimed).toMatchObject({ verdict: 'claimed', job: { attempt: 2, holder: 'gateway' } })
    })

    it.each([true, false])(
      'to discarded by a nack leaves the DLX copy to the nack; dead letter: %s',
      async (isDeadLetter) => {
        const job = await fetched(ledger, { queue: 'q' })
        const failed = await failAttempt(ledger, job.id, fenceOf(job), { ...NACKED, isDeadLetter })
        const now = FAILED.now
        const ended = { discardedAt: now, completedAt: now, isDeadLetter, deadLetterCopied: false }
        expect(failed).toEqual({ ...over(job), ...ended, state: 'discarded', outbox: null })
        expect(failed).toEqual(await row(job.id))
        expect(ledger.known.counts('q')).toMatchObject({ active: 0, discarded: 1 })
        expect(ledger.known.deadLetterCount('q')).toBe(isDeadLetter ? 1 : 0)
      },
    )

    it('to available owes a job message when the native job message reached the gateway in the same group commit', async () => {
      const job = await fetched(ledger)
      await plant({ id: job.id, holder: 'native' })
      const [[arrived], failed] = await Promise.all([
        ledger.claim([jobMessage(job.id)], TERMS),
        failAttempt(ledger, job.id, fenceOf(job), AGAIN),
      ])
      expect(arrived?.verdict).toBe('hand-over')
      expect(failed).toMatchObject({ state: 'available', holder: null, messageOut: true })
      expect(await ledger.read.outboxPage(0, 10)).toEqual([owedBy(await row(job.id))])
    })

    it.each([
      ['by a nack', NACKED],
      ['by a publish', PUBLISHED],
    ])(
      'to discarded %s owes the copy and clears messageOut when the ledger alone held the lease',
      async (_, how) => {
        const job = await fetched(ledger)
        const [, failed] = await Promise.all([
          ledger.handOver([job]),
          failAttempt(ledger, job.id, fenceOf(job), how),
        ])
        expect(failed).toMatchObject({
          state: 'discarded',
          messageOut: false,
          deadLetterCopied: false,
        })
        expect(await ledger.read.outboxPage(0, 10)).toEqual([owedBy(await row(job.id))])
      },
    )

    it('to a retry queue keeps the retry delay, and the next claim clears the retry queue', async () => {
      const job = await fetched(ledger)
      await failAttempt(ledger, job.id, fenceOf(job), VIA_RETRY_QUEUE)
      const terms = { ...TERMS, now: NOW + 900 }
      const [again] = await ledger.claim([jobMessage(job.id, { attempt: 2 })], terms)
      const kept = { attempt: 2, retryQueueMs: null, retryDelayMs: 800, dueAt: null }
      expect(again).toMatchObject({ verdict: 'claimed', job: kept })
    })

    const fences = [{ attempt: 2 }, { attempt: 0 }, { generation: 1 }, { workerId: 'other' }]
    it.each(CHANGES.flatMap(([to, change]) => fences.map((fence) => ({ to, change, fence }))))(
      'to $to is stale with $fence',
      async ({ change, fence }) => {
        const job = await fetched(ledger)
        expect(await failAttempt(ledger, job.id, { ...fenceOf(job), ...fence }, change)).toEqual(
          await staleAt(ledger, job.id),
        )
        expect(await row(job.id)).toEqual(job)
      },
    )

    it.each(CHANGES)(
      'to %s is open to any worker when the lease names none, and to its owner',
      async (to, change) => {
        const job = await fetched(ledger)
        const fence = { ...fenceOf(job), workerId: 'worker-1' }
        await giveBack(ledger, job.id, fenceOf(job))
        await ledger.claim([jobMessage(job.id)], { ...TERMS, workerId: null })
        const unowned = await row(job.id)
        expect(unowned).toMatchObject({ state: 'active', attempt: job.attempt, workerId: null })
        expect(await failAttempt(ledger, job.id, fence, change)).toMatchObject({ state: to })
        const own = await fetched(ledger)
        expect(await failAttempt(ledger, own.id, fence, change)).toMatchObject({ state: to })
      },
    )

    it('decides by the row as it is in the write, after the writes before it', async () => {
      const job = await fetched(ledger)
      const seen: JobRow[] = []
      const decide = (now: JobRow) => {
        seen.push(now)
        return AGAIN
      }
      const [, , failed] = await Promise.all([
        ledger.handOver([job]),
        ledger.extend([job.id], { now: NOW + 50, workerId: 'worker-1', leaseMs: 9000 }),
        ledger.fail(job.id, {}, decide),
      ])
      const before = { ...job, holder: 'ledger', leaseExpiresAt: NOW + 9050 }
      expect(seen).toEqual([before])
      expect(failed).toEqual({ outcome: 'ended', job: await row(job.id), before, change: AGAIN })
    })

    it('changes nothing while it is undecided, and asks nothing about a row that has no such lease', async () => {
      const job = await fetched(ledger)
      expect(await ledger.fail(job.id, {}, () => null)).toEqual({ outcome: 'undecided', row: job })
      expect(await row(job.id)).toEqual(job)
      const never = () => {
        throw new Error('asked')
      }
      const stale = await staleAt(ledger, job.id)
      expect(await ledger.fail(job.id, { attempt: 2 }, never)).toEqual(stale)
      expect(await ledger.fail('nobody', {}, never)).toEqual({ outcome: 'stale', row: null })
      await expectCounts(harness)
    })

    const states: RowState[] = ['available', 'retryable', 'completed', 'cancelled', 'discarded']
    it.each(CHANGES.flatMap(([to, change]) => states.map((state) => ({ to, change, state }))))(
      'to $to is stale for a job that is $state',
      async ({ change, state }) => {
        const job = await fetched(ledger)
        await plant({ id: job.id, state })
        const before = await row(job.id)
        expect(await failAttempt(ledger, job.id, fenceOf(job), change)).toEqual(
          await staleAt(ledger, job.id),
        )
        expect(await failAttempt(ledger, 'nobody', fenceOf(job), change)).toEqual(
          await staleAt(ledger, 'nobody'),
        )
        expect(await row(job.id)).toEqual(before)
      },
    )

    it.each(CHANGES)(
      'to %s succeeds for the first of two calls in one group commit, and not after an ack',
      async (_, change) => {
        const job = await fetched(ledger)
        const fail = (id: string) => failAttempt(ledger, id, fenceOf(job), change)
        const twice = await Promise.all([fail(job.id), fail(job.id)])
        expect(twice.map((result) => isStale(result))).toEqual([false, true])
        const other = await fetched(ledger)
        const ack = ledger.complete(other.id, {}, { now: NOW, result: null })
        const [acked, failed] = await Promise.all([ack, fail(other.id)])
        expect([isStale(acked), failed]).toEqual([false, await staleAt(ledger, other.id)])
      },
    )

    it('to a retry queue owes nothing once the retry queue has confirmed the job message', async () => {
      const job = await fetched(ledger)
      await failAttempt(ledger, job.id, fenceOf(job), VIA_RETRY_QUEUE)
      ledger.confirmed((await row(job.id)).outbox ?? 0)
      await settleLazily(ledger)
      expect(await row(job.id)).toMatchObject({
        state: 'retryable',
        outbox: null,
        messageOut: true,
      })
    })
  })

  describe('extend', () => {
    const beat = { now: NOW + 500, workerId: 'worker-1', leaseMs: null }

    it('renews each lease by its own length, in the order of the ids', async () => {
      const [a, b] = [await fetched(ledger), await fetched(ledger, { visibilityTimeoutMs: 1000 })]
      const extended = await ledger.extend([b.id, 'nobody', a.id], beat)
      const { id, generation, attempt, queue, type, holder, startedAt } = b
      const same = { id, generation, attempt, queue, type, holder, startedAt }
      const lease = { ...same, leaseExpiresAt: NOW + 1500 }
      expect(extended.slice(0, 2)).toEqual([
        { outcome: 'extended', id, lease },
        { outcome: 'stale', id: 'nobody', row: null },
      ])
      expect(extendedOf(extended)).toEqual([b.id, a.id])
      expect(await row(a.id)).toEqual({ ...a, leaseExpiresAt: NOW + 30_500 })
    })

    it('sets the given length, even a shorter one, which stays until another is given', async () => {
      const job = await fetched(ledger)
      await ledger.extend([job.id], { ...beat, leaseMs: 10 })
      expect(await row(job.id)).toEqual({ ...job, leaseExpiresAt: NOW + 510 })
      await ledger.extend([job.id], { ...beat, now: NOW + 505 })
      expect(await row(job.id)).toEqual({ ...job, leaseExpiresAt: NOW + 515 })
      await ledger.extend([job.id], { ...beat, leaseMs: 90_000 })
      const byWorker = { workerId: 'worker-1', ofQueue: null, waitingToo: false }
      await ledger.checkpoints.save(job.id, byWorker, { now: NOW + 600, state: '{}' })
      expect((await row(job.id)).leaseExpiresAt).toBe(NOW + 90_600)
    })

    it('works only for the owner when the claim recorded one', async () => {
      const { id } = await pushed(ledger)
      await ledger.claim([jobMessage(id)], { ...TERMS, workerId: null })
      const owned = await fetched(ledger)
      const extended = await ledger.extend([id, owned.id], { ...beat, workerId: 'other' })
      expect(extendedOf(extended)).toEqual([id])
      expect(extended[1]).toEqual({ ...(await staleAt(ledger, owned.id)), id: owned.id })
      expect(await row(owned.id)).toEqual(owned)
    })

    it('works only for the given attempt', async () => {
      const job = await fetched(ledger)
      const stale = { ...(await staleAt(ledger, job.id)), id: job.id }
      expect(await ledger.extend([job.id], { ...beat, attempt: 2 })).toEqual([stale])
      const extended = await ledger.extend([job.id], { ...beat, attempt: 1 })
      expect(extendedOf(extended)).toEqual([job.id])
    })

    it('works only for the given generation', async () => {
      const job = await fetched(ledger)
      await plant({ id: job.id, generation: 1 })
      const extended = (generation: number | null) =>
        ledger.extend([job.id], { ...beat, attempt: 1, generation })
      const stale = { outcome: 'stale', row: { id: job.id, generation: 1 } }
      expect([await extended(0), await extended(2)]).toMatchObject([[stale], [stale]])
      expect([await extended(1), await extended(null)]).toMatchObject([
        [{ outcome: 'extended', lease: { id: job.id, generation: 1 } }],
        [{ outcome: 'extended', lease: { id: job.id, generation: 1 } }],
      ])
    })

    it.each<RowState>(['available', 'retryable', 'completed', 'discarded', 'withdrawn'])(
      'does nothing to a job that is %s, and says what it is',
      async (state) => {
        const job = await fetched(ledger)
        await plant({ id: job.id, state })
        const before = await row(job.id)
        const stale = { ...(await staleAt(ledger, job.id)), id: job.id }
        expect(await ledger.extend([job.id], beat)).toEqual([stale])
        expect(await row(job.id)).toEqual(before)
      },
    )

    it.each([
      ['its worker had it', 'worker-1', 'cancelled'],
      ['nobody had it', null, 'cancelled'],
      ['another worker had it', 'other', 'stale'],
    ])('tells of a job that was cancelled while %s', async (_, workerId, outcome) => {
      const job = await fetched(ledger)
      await plant({ id: job.id, workerId })
      await ledger.cancel(job.id, NOW)
      const before = await row(job.id)
      expect(await ledger.extend([job.id], beat)).toMatchObject([{ outcome, id: job.id }])
      expect(await row(job.id)).toEqual(before)
    })

    it('tells of a cancel in the same group commit', async () => {
      const job = await fetched(ledger)
      const [, fates] = await Promise.all([
        ledger.cancel(job.id, NOW),
        ledger.extend([job.id], beat),
      ])
      expect(fates).toEqual([{ outcome: 'cancelled', id: job.id }])
    })

    it('in one group commit with an ack works before the ack and not after it', async () => {
      const job = await fetched(ledger)
      const ack = () => ledger.complete(job.id, {}, { now: NOW, result: null })
      const [first, acked, second] = await Promise.all([
        ledger.extend([job.id], beat),
        ack(),
        ledger.extend([job.id], beat),
      ])
      expect([extendedOf(first), isStale(acked), second]).toEqual([
        [job.id],
        false,
        [{ ...(await staleAt(ledger, job.id)), id: job.id }],
      ])
    })
  })

  describe('endOverdue', () => {
    // A constant clock, so that it does not stop early for the time that it takes.
    beforeEach(() => {
      vi.spyOn(performance, 'now').mockReturnValue(1)
    })
    afterEach(() => vi.restoreAllMocks())

    const terms = { visibilityTimeoutMs: 1000, timeoutMs: 0 }
    const beat = { now: NOW + 999, workerId: 'worker-1', leaseMs: null }

    const end = (now: number, decide: DecideFailure, limit = 10) =>
      ledger.endOverdue({ now, limit, which: 'all' }, decide)

    it.each(CHANGES)(
      'to %s leaves a lease that was extended in the same group commit',
      async (to, change) => {
        const job = await fetched(ledger, terms)
        const [extended, none] = await Promise.all([
          ledger.extend([job.id], beat),
          end(NOW + 1000, () => change),
        ])
        expect([extendedOf(extended), none]).toEqual([[job.id], []])
        const [done] = await end(NOW + 1999, () => change)
        expect(done).toMatchObject({ outcome: 'ended', job: { id: job.id, state: to }, change })
        expect(done).toMatchObject({ job: await row(job.id), before: { state: 'active' } })
        expect(await end(NOW + 1e9, () => change)).toEqual([])
        await expectCounts(harness)
      },
    )

    it('ends an attempt whose execution time is over, although its lease was extended', async () => {
      const job = await fetched(ledger, { ...terms, timeoutMs: 900 })
      await ledger.extend([job.id], beat)
      expect(await end(NOW + 899, () => AGAIN)).toEqual([])
      expect(await end(NOW + 900, () => AGAIN)).toMatchObject([{ job: { state: 'available' } }])
    })

    it('asks about each row as it is, and leaves those that are not decided', async () => {
      const [one, other, third] = [
        await fetched(ledger, terms),
        await fetched(ledger, terms),
        await fetched(ledger, terms),
      ]
      const asked: JobRow[] = []
      const ended = await end(
        NOW + 1000,
        (seen) => {
          asked.push(seen)
          return seen.id === one.id ? null : AGAIN
        },
        2,
      )
      expect(asked).toEqual([one, other])
      expect(ended).toMatchObject([
        { outcome: 'undecided', row: one },
        { outcome: 'ended', before: other, job: { state: 'available' } },
      ])
      expect(await row(one.id)).toEqual(one)
      expect(await row(third.id)).toEqual(third)
    })

    it('ends the others when a decision about one fails each time', async () => {
      const [bad, good] = [await fetched(ledger, terms), await fetched(ledger, terms)]
      const ended = await end(NOW + 1000, ({ id }) => {
        if (id === bad.id) throw new TypeError('a bug')
        return AGAIN
      })
      expect(ended).toMatchObject([{ outcome: 'ended', before: good }])
      expect((await row(bad.id)).state).toBe('active')
      await expectCounts(harness)
    })
  })

  describe('overdue', () => {
    it('returns the jobs whose lease or execution time has passed, oldest first', async () => {
      const terms = { visibilityTimeoutMs: 1000, timeoutMs: 0 }
      const lease = await fetched(ledger, terms)
      const timeout = await fetched(ledger, { visibilityTimeoutMs: 5000, timeoutMs: 900 })
      const running = await fetched(ledger, {
        ...terms,
        timeoutMs: 9000,
        visibilityTimeoutMs: 1001,
      })
      const early = await fetched(ledger, { ...terms, visibilityTimeoutMs: 800 })
      expect(await overdueRows(ledger, NOW + 799, 10)).toEqual([])
      expect(await overdueRows(ledger, NOW + 1000, 10)).toEqual([early, timeout, lease])
      expect(await overdueRows(ledger, NOW + 1000, 2)).toEqual([early, timeout])
      expect(await overdueRows(ledger, NOW + 1001, 10)).toContainEqual(running)
    })

    it('ignores the execution time of native workers', async () => {
      const job = await fetched(ledger, { visibilityTimeoutMs: 1000, timeoutMs: 10 })
      await plant({ id: job.id, holder: 'native' })
      expect(await overdueRows(ledger, NOW + 999, 10)).toEqual([])
      expect((await overdueRows(ledger, NOW + 1000, 10)).map(({ id }) => id)).toEqual([job.id])
    })

    it('omits jobs that have ended, went back or were extended', async () => {
      const [acked, failed, kept] = [
        await fetched(ledger, { timeoutMs: 0 }),
        await fetched(ledger),
        await fetched(ledger, { timeoutMs: 0 }),
      ]
      await ledger.complete(acked.id, {}, { now: NOW, result: null })
      await failAttempt(ledger, failed.id, fenceOf(failed), AGAIN)
      const later = NOW + 30_000
      await ledger.extend([kept.id], { now: later, workerId: 'worker-1', leaseMs: null })
      expect(await overdueRows(ledger, later, 10)).toEqual([])
      expect((await overdueRows(ledger, later + 30_000, 10)).map(({ id }) => id)).toEqual([kept.id])
    })
  })

  describe('extendLeases, after a time in which workers could not acknowledge', () => {
    it('extends the execution time as well, where there is one', async () => {
      const given = { visibilityTimeoutMs: 1000 }
      const [timed, free] = [
        await fetched(ledger, { ...given, timeoutMs: 500 }),
        await fetched(ledger, { ...given, timeoutMs: 0 }),
      ]
      expect(await ledger.extendLeases(NOW + 400)).toBe(2)
      expect(await row(timed.id)).toMatchObject({
        leaseExpiresAt: NOW + 1400,
        timeoutAt: NOW + 1400,
      })
      expect(await row(free.id)).toMatchObject({ leaseExpiresAt: NOW + 1400, timeoutAt: null })
      expect(await overdueRows(ledger, NOW + 1399, 10)).toEqual([])
      expect(await ledger.extendLeases(NOW + 300)).toBe(0)
    })

    it('extends a lease by the length that a heartbeat has given it', async () => {
      const job = await fetched(ledger, { visibilityTimeoutMs: 1000, timeoutMs: 0 })
      await ledger.extend([job.id], { now: NOW, workerId: 'worker-1', leaseMs: 9000 })
      expect(await ledger.extendLeases(NOW + 400)).toBe(1)
      expect((await row(job.id)).leaseExpiresAt).toBe(NOW + 9400)
    })

    it('extends a short execution time although the lease is long enough', async () => {
      const job = await fetched(ledger, { visibilityTimeoutMs: 1000, timeoutMs: 500 })
      await ledger.extend([job.id], { now: NOW + 400, workerId: 'worker-1', leaseMs: 9000 })
      expect(await ledger.extendLeases(NOW + 400)).toBe(1)
      expect(await row(job.id)).toMatchObject({ leaseExpiresAt: NOW + 9400, timeoutAt: NOW + 1400 })
    })
  })
  describe('boundWaits, after the clock was set back', () => {
    const HOUR = 3_600_000

    it('shortens the wait of a retry to its own delay', async () => {
      const [inRetryQueue, held] = [await fetched(ledger), await fetched(ledger)]
      const terms = { dueAt: NOW + 800, delayMs: 800 }
      await failAttempt(ledger, inRetryQueue.id, fenceOf(inRetryQueue), {
        ...VIA_RETRY_QUEUE,
        ...terms,
      })
      await failAttempt(ledger, held.id, fenceOf(held), { ...HELD, ...terms })
      expect(await ledger.boundWaits(NOW)).toBe(0)
      expect(await ledger.boundWaits(NOW - HOUR)).toBe(2)
      expect([(await row(inRetryQueue.id)).dueAt, (await row(held.id)).dueAt]).toEqual(
        Array(2).fill(NOW - HOUR + 800),
      )
      expect(await ledger.boundWaits(NOW)).toBe(0)
    })

    it('shortens a lease that begins in the future to its length', async () => {
      const given = { visibilityTimeoutMs: 1000 }
      const [timed, free] = [
        await fetched(ledger, { ...given, timeoutMs: 5000 }),
        await fetched(ledger, { ...given, timeoutMs: 0 }),
      ]
      expect(await ledger.boundWaits(NOW)).toBe(0)
      expect(await ledger.boundWaits(NOW - HOUR)).toBe(2)
      const leaseExpiresAt = NOW - HOUR + 1000
      expect(await row(timed.id)).toMatchObject({ leaseExpiresAt, timeoutAt: NOW - HOUR + 5000 })
      expect(await row(free.id)).toMatchObject({ leaseExpiresAt, timeoutAt: null })
    })

    it('shortens an execution time that was extended while the clock was ahead', async () => {
      const job = await fetched(ledger, { visibilityTimeoutMs: 1000, timeoutMs: 5000 })
      await ledger.extendLeases(NOW + HOUR)
      expect(await ledger.boundWaits(NOW + 10)).toBe(1)
      const [leaseExpiresAt, timeoutAt] = [NOW + 1010, NOW + 5010]
      expect(await row(job.id)).toMatchObject({ leaseExpiresAt, timeoutAt })
    })

    it('keeps the execution time at least as long as the lease', async () => {
      const job = await fetched(ledger, { visibilityTimeoutMs: 9000, timeoutMs: 5000 })
      await ledger.extendLeases(NOW + HOUR)
      expect(await ledger.boundWaits(NOW)).toBe(1)
      const [leaseExpiresAt, timeoutAt] = Array(2).fill(NOW + 9000)
      expect(await row(job.id)).toMatchObject({ leaseExpiresAt, timeoutAt })
    })

    it.each<[string, number | null, number]>([
      ['its own length', null, 1000],
      ['the length that was asked for', 9000, 9000],
    ])(
      'shortens a lease that was extended while the clock was ahead to %s',
      async (_, leaseMs, length) => {
        const given = { visibilityTimeoutMs: 1000, timeoutMs: 0 }
        const [beaten, native] = [await fetched(ledger, given), await pushed(ledger, given)]
        const later = { now: NOW + HOUR, wall: NOW + HOUR, workerId: 'worker-1', leaseMs }
        await ledger.extend([beaten.id], later)
        const said = { now: NOW, wall: NOW, defaultLeaseMs: 1, workerId: 'worker-1', leaseMs: null }
        await ledger.beatNative([native.id], said)
        await ledger.beatNative([native.id], { ...said, ...later })
        expect(await ledger.boundWaits(NOW + HOUR)).toBe(0)
        expect(await ledger.boundWaits(NOW + 10)).toBe(2)
        const ends = await Promise.all(
          [beaten.id, native.id].map(async (id) => (await row(id)).leaseExpiresAt),
        )
        expect(ends).toEqual(Array(2).fill(NOW + 10 + length))
        expect(await ledger.boundWaits(NOW + 10)).toBe(0)
      },
    )

    it('shortens a lease that extendLeases extended while the clock was ahead', async () => {
      const job = await fetched(ledger, { visibilityTimeoutMs: 1000, timeoutMs: 0 })
      await ledger.extendLeases(NOW + HOUR)
      expect(await ledger.boundWaits(NOW + 10)).toBe(1)
      expect((await row(job.id)).leaseExpiresAt).toBe(NOW + 1010)
    })

    it('ignores the length that a heartbeat of an earlier attempt asked for', async () => {
      const job = await fetched(ledger, { visibilityTimeoutMs: 1000, timeoutMs: 0 })
      await ledger.extend([job.id], { now: NOW, workerId: 'worker-1', leaseMs: 2 * HOUR })
      await giveBack(ledger, job.id, { ...fenceOf(job), messageAttempt: 1 })
      await ledger.claim([jobMessage(job.id)], TERMS)
      await ledger.extendLeases(NOW + HOUR)
      expect(await ledger.boundWaits(NOW + 10)).toBe(1)
      expect((await row(job.id)).leaseExpiresAt).toBe(NOW + 1010)
    })

    it('keeps a lease that a heartbeat made longer', async () => {
      const job = await fetched(ledger, { visibilityTimeoutMs: 1000 })
      await ledger.extend([job.id], { now: NOW, workerId: 'worker-1', leaseMs: HOUR })
      expect(await ledger.boundWaits(NOW)).toBe(0)
      expect((await row(job.id)).leaseExpiresAt).toBe(NOW + HOUR)
    })
  })
}
