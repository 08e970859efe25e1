import { describe, expect, it } from 'vitest'
import { EXPIRED } from '../../../src/job/dead-letter.ts'
import type { JobRow, RowState } from '../../../src/job/job.ts'
import type { ReportedEvent, Said } from '../../../src/job/native/report.ts'
import { isStale } from '../../../src/job/stale.ts'
import type { ReportTerms } from '../../../src/ledger/native.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  failAttempt,
  fenceOf,
  fetched,
  giveBack,
  jobMessage,
  NOW,
  pushed,
  settleLazily,
  TERMS,
  takeOver,
  type UnderTest,
} from '../harness.ts'

export const REPORT: ReportTerms = { now: NOW + 50, defaultLeaseMs: 30_000, random: () => 0.5 }

const FAILURE = { code: 'e', type: 'e', message: 'it broke', retryable: true }
const STARTED: Said = { event: 'started' }
const COMPLETED: Said = { event: 'completed', result: '{"ok":true}' }

function failedWith(outcome: Extract<Said, { event: 'failed' }>['outcome'] = null): Said {
  return { event: 'failed', failure: FAILURE, outcome }
}

const VIA_RETRY_QUEUE = failedWith({ decision: 'retry', delay_ms: 700, rung_ms: 700 })
const HELD = failedWith({ decision: 'retry', delay_ms: 700 })
const DISCARD = failedWith({ decision: 'discard' })

export function eventOf(
  id: string,
  said: Said,
  over: Partial<Omit<ReportedEvent, 'id' | 'said'>> = {},
): ReportedEvent {
  return { id, generation: 0, attempt: 1, workerId: 'native-1', said, ...over }
}

/** Reports of native workers. */
export function reportContract({ ledger, row, plant }: UnderTest): void {
  const apply = async (...events: ReportedEvent[]) => {
    const results = await ledger.applyReports(events, REPORT)
    return results.map(({ outcome }) => outcome)
  }
  const running = async (given: Parameters<typeof pushed>[1] = {}): Promise<JobRow> => {
    const { id } = await pushed(ledger, given)
    await apply(eventOf(id, STARTED))
    return await row(id)
  }
  const codesOf = async (id: string): Promise<[number, string][]> => {
    const entries: { attempt: number; code: string }[] = JSON.parse((await row(id)).errors ?? '[]')
    return entries.map(({ attempt, code }) => [attempt, code])
  }

  describe('a report of a start', () => {
    it('leases the job to the native worker, and drops the owed job message', async () => {
      const { id } = await pushed(ledger, { queue: 'q', visibilityTimeoutMs: 5000 })
      const before = await row(id)
      const results = await ledger.applyReports([eventOf(id, STARTED)], REPORT)
      expect(await row(id)).toEqual({
        ...before,
        state: 'active',
        attempt: 1,
        holder: 'native',
        workerId: 'native-1',
        outbox: null,
        leaseMs: 5000,
        leaseExpiresAt: NOW + 5050,
        startedAt: NOW + 50,
      })
      expect(results).toEqual([{ outcome: 'started', job: await row(id), promoted: false }])
      expect(ledger.known.counts('q')).toMatchObject({ available: 0, active: 1 })
    })

    it.each<[string, object, boolean]>([
      ['due for a retry', { state: 'retryable', dueAt: NOW, retryQueueMs: 250, attempt: 1 }, true],
      [
        "not due for its retry by the ledger's clock",
        { state: 'retryable', dueAt: NOW + 99, attempt: 1 },
        true,
      ],
      ['scheduled', { state: 'scheduled', dueAt: NOW, attempt: 1 }, true],
      ['available', { state: 'available', attempt: 1 }, false],
    ])('starts a job that is %s', async (_, planted, promoted) => {
      const { id } = await pushed(ledger)
      await plant({ id, ...planted })
      const [result] = await ledger.applyReports([eventOf(id, STARTED, { attempt: 2 })], REPORT)
      expect(result).toMatchObject({ outcome: 'started', promoted })
      const enqueuedAt = promoted ? NOW + 50 : NOW
      const begun = { attempt: 2, dueAt: null, retryQueueMs: null, enqueuedAt, errors: null }
      expect(await row(id)).toMatchObject({ state: 'active', holder: 'native', ...begun })
    })

    it('starts the next attempt after the lease of the previous one had run out', async () => {
      const { id } = await running({ queue: 'q' })
      await plant({ id, state: 'available', leaseExpiresAt: null })
      expect(ledger.known.claimable('q')).toBe(0)
      expect(await apply(eventOf(id, STARTED, { attempt: 2 }))).toEqual(['started'])
      await pushed(ledger, { queue: 'q' })
      expect(ledger.known.claimable('q')).toBe(1)
    })

    it('records earlier attempts without a report as unreported', async () => {
      const { id } = await running({ maxAttempts: 9 })
      expect(await apply(eventOf(id, STARTED, { attempt: 4 }))).toEqual(['started'])
      expect(await row(id)).toMatchObject({ state: 'active', attempt: 4 })
      expect(await codesOf(id)).toEqual([
        [1, 'unreported'],
        [2, 'unreported'],
        [3, 'unreported'],
      ])
    })
  })

  describe('a report of an unknown job', () => {
    const shown = (id: string, job = newJob({ id, queue: 'q' })) => ({ adopt: () => job })

    it('adopts the job that it contains, and applies its outcome to the reported attempt', async () => {
      const { id } = newJob()
      const event = eventOf(id, HELD, { attempt: 2, generation: null, ...shown(id) })
      expect(await apply(event)).toEqual(['failed'])
      expect(await row(id)).toMatchObject({
        state: 'retryable',
        attempt: 2,
        retryQueueMs: null,
        queue: 'q',
      })
      expect(await codesOf(id)).toEqual([[2, 'e']])
      expect(ledger.known.counts('q')).toMatchObject({ available: 0, active: 0, retryable: 1 })
      expect(ledger.known.queues().map(({ name }) => name)).toContain('q')
    })

    it('adopts the job in the generation that its worker has run', async () => {
      const { id } = newJob()
      expect(await apply(eventOf(id, HELD, { generation: 3, ...shown(id) }))).toEqual(['failed'])
      expect(await row(id)).toMatchObject({ state: 'retryable', generation: 3, attempt: 1 })
    })

    it('adopts the job once', async () => {
      const { id } = newJob()
      const events = [STARTED, COMPLETED].map((said) => eventOf(id, said, shown(id)))
      expect(await apply(...events)).toEqual(['merged', 'completed'])
      expect(await apply(...events)).toEqual(['ignored', 'ignored'])
      expect(ledger.known.counts('q')).toMatchObject({ available: 0, completed: 1 })
    })

    it.each([
      ['completed', COMPLETED, { state: 'completed' }],
      ['failed', HELD, { state: 'retryable' }],
    ] as const)(
      'adopts the job that the start contains when the end comes in the same message: %s',
      async (what, end, now) => {
        const { id } = newJob()
        const start = eventOf(id, STARTED, shown(id, newJob({ id, queue: 'q', maxAttempts: 7 })))
        const late = eventOf(id, end, shown(id, newJob({ id, queue: 'q', maxAttempts: 3 })))
        expect(await apply(start, eventOf(id, end))).toEqual(['merged', what])
        expect(await row(id)).toMatchObject({ ...now, attempt: 1, maxAttempts: 7 })
        expect(await apply(start, late)).toEqual(['ignored', 'ignored'])
        const other = newJob().id
        const twice = [3, 5].map((maxAttempts) => shown(other, newJob({ id: other, maxAttempts })))
        await apply(eventOf(other, STARTED, twice[0]), eventOf(other, end, twice[1]))
        expect(await row(other)).toMatchObject({ ...now, maxAttempts: 3 })
      },
    )

    it('is ignored when it contains no job, the id was cancelled, or the job has another id', async () => {
      const { id } = newJob()
      const cancelled = newJob().id
      await ledger.cancelAny(cancelled, 'q', NOW)
      const other = shown(id, newJob())
      const outcomes = await apply(
        eventOf(id, HELD),
        eventOf(cancelled, HELD, shown(cancelled)),
        eventOf(id, HELD, other),
      )
      expect(outcomes).toEqual(['ignored', 'ignored', 'ignored'])
      expect([await ledger.read.find(id), await ledger.read.find(cancelled)]).toEqual([null, null])
    })
  })

  describe('a report of a success', () => {
    const done = { state: 'completed', completedAt: NOW + 50, result: '{"ok":true}', error: null }
    const over = { ...done, holder: null, leaseMs: null, leaseExpiresAt: null, timeoutAt: null }

    it('completes the running attempt, and clears messageOut because the worker is about to acknowledge', async () => {
      const job = await running({ queue: 'q' })
      const [result] = await ledger.applyReports([eventOf(job.id, COMPLETED)], REPORT)
      expect(await row(job.id)).toEqual({ ...job, ...over, messageOut: false })
      expect(result).toEqual({
        outcome: 'completed',
        job: await row(job.id),
        begun: null,
        promoted: false,
      })
      expect(ledger.known.counts('q')).toMatchObject({ active: 0, completed: 1 })
    })

    it('implies the start, and is one write with a start in the same message', async () => {
      const [a, b] = [await pushed(ledger, { queue: 'q' }), await pushed(ledger, { queue: 'q' })]
      expect(await apply(eventOf(a.id, COMPLETED))).toEqual(['completed'])
      expect(await apply(eventOf(b.id, STARTED), eventOf(b.id, COMPLETED))).toEqual([
        'merged',
        'completed',
      ])
      const begun = { attempt: 1, workerId: 'native-1', startedAt: NOW + 50, outbox: null }
      for (const { id } of [a, b]) {
        expect(await row(id)).toMatchObject({ ...over, ...begun, messageOut: false })
      }
      expect(ledger.known.counts('q')).toMatchObject({ available: 0, active: 0, completed: 2 })
    })

    it.each([
      ['that runs', () => running()],
      ['that waits', async () => await row((await pushed(ledger)).id)],
    ])('dates the start of a job %s no earlier than the job was stored', async (_, begin) => {
      const { id } = await begin()
      await apply(eventOf(id, { event: 'completed', result: null, elapsedMs: 99_000 }))
      expect(await row(id)).toMatchObject({ startedAt: NOW, completedAt: NOW + 50 })
    })

    it('keeps messageOut of a delivery that the gateway holds', async () => {
      const [held, handedOver] = [await fetched(ledger), await fetched(ledger)]
      await ledger.handOver([handedOver])
      for (const { id } of [held, handedOver]) await plant({ id, leaseExpiresAt: NOW })
      await apply(eventOf(held.id, COMPLETED), eventOf(handedOver.id, COMPLETED))
      expect([(await row(held.id)).messageOut, (await row(handedOver.id)).messageOut]).toEqual([
        true,
        false,
      ])
    })

    it('completes the attempt although its lease had run out', async () => {
      const job = await running()
      const expired = { now: NOW + 40_000, error: '1', errors: '[]' }
      await failAttempt(ledger, job.id, fenceOf(job), { ...expired, to: 'available' })
      const results = await ledger.applyReports([eventOf(job.id, COMPLETED)], REPORT)
      expect(results).toMatchObject([{ outcome: 'completed', begun: null }])
      expect(await row(job.id)).toMatchObject({ ...over, attempt: 1, messageOut: false })
    })
  })

  describe('a report of a failure', () => {
    const back = { state: 'retryable', attempt: 1, retryDelayMs: 700, dueAt: NOW + 750 }

    it('with the next job message in a retry queue records the retry queue and owes nothing', async () => {
      const job = await running({ queue: 'q' })
      expect(await apply(eventOf(job.id, VIA_RETRY_QUEUE))).toEqual(['failed'])
      const inRetryQueue = { outbox: null, retryQueueMs: 700, messageOut: true, holder: null }
      expect(await row(job.id)).toMatchObject({ ...back, ...inRetryQueue })
      expect(JSON.parse((await row(job.id)).error ?? '')).toEqual(FAILURE)
      expect(ledger.known.retryQueues()).toEqual([{ queue: 'q', delayMs: 700 }])
      expect(ledger.known.counts('q')).toMatchObject({ active: 0, retryable: 1 })
      expect(await ledger.rearmRetryQueue({ queue: 'q', delayMs: 700 }, NOW)).toBe(1)
    })

    it('with a retry queue beyond the limit of remembered retry queues is applied, without recording the retry queue', async () => {
      const known = Array.from({ length: 2_000 }, (_, i) => ({ queue: 'q', delayMs: 1_000 + i }))
      await Promise.all(known.map((retryQueue) => ledger.recordRetryQueue(retryQueue)))
      const job = await running({ queue: 'q' })
      expect(await apply(eventOf(job.id, VIA_RETRY_QUEUE))).toEqual(['failed'])
      expect(await row(job.id)).toMatchObject({ ...back, retryQueueMs: 700 })
      expect(ledger.known.retryQueues()).toEqual(known)
    })

    it('without a retry queue or a decision makes the ledger owe the job message at the due time', async () => {
      const [a, b] = [await running(), await running()]
      await apply(eventOf(a.id, HELD), eventOf(b.id, failedWith()))
      expect(await row(a.id)).toMatchObject({
        ...back,
        outbox: null,
        retryQueueMs: null,
        messageOut: false,
      })
      const { dueAt } = await row(b.id)
      expect(await row(b.id)).toMatchObject({
        state: 'retryable',
        retryQueueMs: null,
        messageOut: false,
      })
      expect(dueAt).toBeGreaterThan(NOW + 50)
      const promoted = await ledger.promote((dueAt ?? 0) + 1000, NOW, 9)
      expect(promoted.map(({ outbox }) => outbox !== null)).toEqual([true, true])
    })

    it("with a discard leaves the DLX copy to the worker's nack", async () => {
      const { id } = await running({ queue: 'q' })
      const [result] = await ledger.applyReports([eventOf(id, DISCARD)], REPORT)
      expect(result).toMatchObject({ outcome: 'failed', job: await row(id) })
      const over = { state: 'discarded', isDeadLetter: true, deadLetterCopied: false }
      expect(await row(id)).toMatchObject({ ...over, outbox: null, messageOut: false })
      expect(ledger.known.counts('q')).toMatchObject({ active: 0, discarded: 1 })
      expect(ledger.known.deadLetterCount('q')).toBe(1)
    })

    it.each([
      ['the worker has decided nothing', failedWith(), 3],
      ['the ledger alone held the lease', DISCARD, 1],
    ])('of the last attempt owes the DLX copy when %s', async (_, said, attempt) => {
      const job = await running()
      if (attempt === 1) await takeOver(ledger, job)
      await apply(eventOf(job.id, said, { attempt }))
      expect(await row(job.id)).toMatchObject({ state: 'discarded', attempt, messageOut: false })
      expect((await ledger.read.outboxPage(0, 9)).map(({ id }) => id)).toEqual([job.id])
      ledger.copyConfirmed(job.id, (await row(job.id)).outbox ?? 0)
      await settleLazily(ledger)
      expect(await row(job.id)).toMatchObject({ outbox: null, deadLetterCopied: true })
    })

    it('keeps messageOut of a delivery that the gateway holds', async () => {
      const { id } = await fetched(ledger)
      await plant({ id, leaseExpiresAt: NOW })
      expect(await apply(eventOf(id, DISCARD))).toEqual(['failed'])
      expect(await row(id)).toMatchObject({ state: 'discarded', messageOut: true })
    })

    it('that arrives late replaces the unreported error of its attempt, and nothing else', async () => {
      const [a, b] = [await running({ maxAttempts: 9 }), await running({ maxAttempts: 9 })]
      for (const { id } of [a, b]) await apply(eventOf(id, STARTED, { attempt: 2 }))
      await apply(eventOf(b.id, COMPLETED, { attempt: 2 }))
      const before = [await row(a.id), await row(b.id)]
      const late = [eventOf(a.id, VIA_RETRY_QUEUE), eventOf(b.id, failedWith())]
      expect(await apply(...late)).toEqual(['amended', 'amended'])
      const { errors, error } = await row(a.id)
      expect(await row(a.id)).toEqual({ ...before[0], errors, error })
      expect(JSON.parse(error ?? '')).toEqual(FAILURE)
      expect(await row(b.id)).toEqual({ ...before[1], errors: (await row(b.id)).errors })
      expect([await codesOf(a.id), await codesOf(b.id)]).toEqual([[[1, 'e']], [[1, 'e']]])
      expect(await apply(...late)).toEqual(['ignored', 'ignored'])
    })
  })

  describe('a report', () => {
    const all = [STARTED, COMPLETED, VIA_RETRY_QUEUE, HELD, DISCARD, failedWith()]

    it.each(all)('is ignored for another generation or an unknown job: %o', async (said) => {
      const [job, waiting] = [await running(), await row((await pushed(ledger)).id)]
      const stale = [1, 7].flatMap((generation) => [
        eventOf(job.id, said, { generation }),
        eventOf(waiting.id, said, { generation }),
      ])
      expect(await apply(...stale, eventOf('nobody', said))).toEqual(Array(5).fill('ignored'))
      expect([await row(job.id), await row(waiting.id)]).toEqual([job, waiting])
    })

    it('without a generation applies to the present generation', async () => {
      const { id } = await pushed(ledger)
      await plant({ id, generation: 4 })
      const event = { generation: null }
      expect(await apply(eventOf(id, STARTED, event))).toEqual(['started'])
      expect(await apply(eventOf(id, COMPLETED, event))).toEqual(['completed'])
    })

    const ended: RowState[] = ['completed', 'cancelled', 'discarded', 'withdrawn']
    it.each(ended.flatMap((state) => all.map((said) => ({ state, said }))))(
      'does not change a job that is $state: $said',
      async ({ state, said }) => {
        const { id } = await pushed(ledger)
        await plant({ id, state, outbox: null, messageOut: false })
        const before = await row(id)
        expect(await apply(eventOf(id, said))).toEqual(['ignored'])
        expect(await row(id)).toEqual(before)
      },
    )

    it.each([
      [COMPLETED, false],
      [HELD, false],
      [DISCARD, false],
      [STARTED, true],
      [VIA_RETRY_QUEUE, true],
    ])(
      'leaves messageOut of a cancelled job set only while its job message can still arrive: %o',
      async (said, messageOut) => {
        const { id } = await running()
        await ledger.cancel(id, NOW)
        await apply(eventOf(id, said))
        expect(await row(id)).toMatchObject({ state: 'cancelled', messageOut })
      },
    )

    it('of an earlier attempt keeps messageOut of a cancelled job', async () => {
      const { id } = await running()
      await plant({ id, attempt: 2 })
      await ledger.cancel(id, NOW)
      await apply(eventOf(id, DISCARD))
      expect(await row(id)).toMatchObject({ state: 'cancelled', messageOut: true })
    })

    it('of an earlier generation keeps messageOut of a cancelled job', async () => {
      const { id } = await running()
      await plant({ id, generation: 1 })
      await ledger.cancel(id, NOW)
      await apply(eventOf(id, DISCARD), eventOf(id, COMPLETED, { attempt: 2 }))
      expect(await row(id)).toMatchObject({ state: 'cancelled', messageOut: true })
    })

    it('of a dropped job message does not change a live job, and clears messageOut of an ended one once', async () => {
      const dropped: Said = { event: 'dropped' }
      const [queued, active, over] = [await pushed(ledger), await running(), await pushed(ledger)]
      const before = [await row(queued.id), await row(active.id)]
      await ledger.cancel(over.id, NOW)
      const events = [queued, active, over].map(({ id }) => eventOf(id, dropped))
      const stale = eventOf(over.id, dropped, { generation: 1 })
      expect(await apply(stale, ...events, ...events)).toEqual([
        ...['ignored', 'ignored', 'ignored', 'amended'],
        ...['ignored', 'ignored', 'ignored'],
      ])
      expect([await row(queued.id), await row(active.id)]).toEqual(before)
      expect(await row(over.id)).toMatchObject({ state: 'cancelled', messageOut: false })
    })

    it('of an expired job message ends an expired job without an attempt, once', async () => {
      const expired: Said = { event: 'expired' }
      const late = await pushed(ledger, { expiresAt: NOW - 1, queue: 'late' })
      const lasting = await pushed(ledger)
      const active = await fetched(ledger, { expiresAt: NOW + 7_200_000 + 60_000 })
      const before = await row(lasting.id)
      const events = [late, lasting, active].map(({ id }) => eventOf(id, expired))
      expect(await apply(...events)).toEqual(['expired', 'ignored', 'ignored'])
      expect(await apply(...events)).toEqual(['ignored', 'ignored', 'ignored'])
      expect([await row(lasting.id), await row(active.id)]).toEqual([
        before,
        { ...active, holder: 'ledger' },
      ])
      expect(await row(late.id)).toMatchObject({
        state: 'discarded',
        attempt: 0,
        startedAt: null,
        error: EXPIRED,
        outbox: null,
        messageOut: false,
        isDeadLetter: false,
      })
      expect(ledger.known.counts('late')).toMatchObject({ available: 0, discarded: 1 })
    })

    it('of an expired job message clears messageOut of a job that the ledger has expired', async () => {
      const { id } = await pushed(ledger, { expiresAt: NOW - 1 })
      await ledger.expire({ now: NOW, wall: NOW, limit: 9 })
      expect(await row(id)).toMatchObject({ state: 'discarded', messageOut: true })
      expect(await apply(eventOf(id, { event: 'expired' }))).toEqual(['amended'])
      expect((await row(id)).messageOut).toBe(false)
    })

    it('of a discard owes the DLX copy when the attempt was given back meanwhile', async () => {
      const { id } = await running()
      await takeOver(ledger, await row(id))
      const released = await giveBack(ledger, id, {
        ...fenceOf(await row(id)),
        messageAttempt: null,
      })
      expect(released).toMatchObject({ state: 'available', attempt: 0 })
      const said = { ...failedWith(), outcome: { decision: 'discard' as const } }
      expect(await apply(eventOf(id, said))).toEqual(['failed'])
      // The worker may be dead, without a delivery that it could reject.
      expect(await row(id)).toMatchObject({
        state: 'discarded',
        isDeadLetter: true,
        deadLetterCopied: false,
      })
      expect((await row(id)).outbox).not.toBeNull()
    })

    it.each([
      ['a success', COMPLETED, 1],
      ['a failure', VIA_RETRY_QUEUE, 1],
      ['the start of the next attempt', STARTED, 2],
      ['the success of the next attempt', COMPLETED, 2],
      ['the failure of the next attempt', VIA_RETRY_QUEUE, 2],
    ])(
      'by another worker does not end a lease over HTTP before it is over: %s',
      async (_, said, attempt) => {
        const http = await fetched(ledger)
        const event = eventOf(http.id, said, { workerId: 'native-2', attempt })
        const refused = { outcome: 'refused', reason: 'leased_elsewhere' }
        expect(await ledger.applyReports([event], REPORT)).toEqual([refused])
        const { holder, ...rest } = await row(http.id)
        expect({ ...rest, holder: http.holder }).toEqual(http)
        await plant({ id: http.id, leaseExpiresAt: NOW })
        expect(await apply(event)).not.toEqual(['refused'])
        expect(await row(http.id)).not.toMatchObject({ state: 'active', attempt: 1 })
      },
    )

    it('by another worker ends the lease of a native one', async () => {
      const native = await running()
      expect(await apply(eventOf(native.id, VIA_RETRY_QUEUE, { workerId: 'native-2' }))).toEqual([
        'failed',
      ])
    })

    it.each<[string, Said]>([
      ['a start', STARTED],
      ['a success', COMPLETED],
      ['a failure', VIA_RETRY_QUEUE],
      ['an expiry', { event: 'expired' }],
      ['a drop', { event: 'dropped' }],
      ['a release', { event: 'released', messageAttempt: 1 }],
    ])('about a job of another queue than its own has no effect: %s', async (_, said) => {
      const queue = 'victim'
      const all = [await pushed(ledger, { queue }), await running({ queue })]
      const waits = await Promise.all(all.map(({ id }) => row(id)))
      const events = all.map(({ id }) => eventOf(id, said, { ofQueue: 'evil' }))
      const refused = { outcome: 'refused', reason: 'other_queue' }
      expect(await ledger.applyReports(events, REPORT)).toEqual([refused, refused])
      expect(await Promise.all(all.map(({ id }) => row(id)))).toEqual(waits)
    })

    it('cannot use up attempts that nobody made', async () => {
      const { id } = await pushed(ledger, { maxAttempts: 3 })
      await apply(eventOf(id, STARTED, { attempt: 2 ** 31 - 1 }))
      expect(await row(id)).toMatchObject({ state: 'active', attempt: 3 })
      await apply(eventOf(id, COMPLETED, { attempt: 2 ** 31 - 1 }))
      expect(await row(id)).toMatchObject({ state: 'completed', attempt: 3 })
    })

    it('puts its job off for a day at most, or as long as the job itself allows', async () => {
      const ten = 10 * 365 * 86_400_000
      const said = failedWith({ decision: 'retry', delay_ms: ten })
      const [own, last] = [await running({ maxAttempts: 2 }), await running({ maxAttempts: 1 })]
      await apply(eventOf(own.id, said), eventOf(last.id, said))
      expect(await row(own.id)).toMatchObject({ state: 'retryable', retryDelayMs: 86_400_000 })
      // A worker cannot add an attempt either.
      expect(await row(last.id)).toMatchObject({ state: 'discarded', messageOut: false })
    })

    it.each<[string, Said]>([
      ['failed there without a decision', failedWith()],
      ['failed there with a long delay', HELD],
      ['expired there', { event: 'expired' }],
      ['was dropped there', { event: 'dropped' }],
    ])(
      'hands an HTTP lease to the ledger when the job message reached another worker and %s',
      async (_, said) => {
        const { id } = await fetched(ledger)
        await apply(eventOf(id, said, { workerId: 'native-2' }))
        expect(await row(id)).toMatchObject({ state: 'active', holder: 'ledger' })
        await ledger.complete(id, {}, { now: NOW, result: null })
        expect((await row(id)).messageOut).toBe(false)
      },
    )

    it.each<[string, Said, Partial<ReportedEvent>]>([
      ['of an earlier attempt', { event: 'dropped' }, { attempt: 0 }],
      ['of another generation', { event: 'dropped' }, { generation: 1 }],
      ['with a successor in a retry queue', VIA_RETRY_QUEUE, {}],
    ])(
      'leaves an HTTP lease unchanged for another job message than the one behind it, %s',
      async (_, said, over) => {
        const job = await fetched(ledger)
        await apply(eventOf(job.id, said, { workerId: 'native-2', ...over }))
        expect(await row(job.id)).toEqual(job)
      },
    )

    it.each(all)('is applied once when it comes twice in one group commit: %o', async (said) => {
      const { id } = await pushed(ledger)
      const [first, second] = await Promise.all([
        apply(eventOf(id, said)),
        apply(eventOf(id, said)),
      ])
      expect([first, second].map(([outcome]) => outcome === 'ignored')).toEqual([false, true])
    })

    it('excludes an ack or a claim of the same job in one group commit: the first call wins', async () => {
      const job = await fetched(ledger)
      const [acked, reported] = await Promise.all([
        ledger.complete(job.id, {}, { now: NOW, result: null }),
        apply(eventOf(job.id, COMPLETED)),
      ])
      expect([isStale(acked), reported]).toEqual([false, ['ignored']])
      const { id } = await pushed(ledger)
      const [claimed, started] = await Promise.all([
        ledger.claim([jobMessage(id)], TERMS),
        apply(eventOf(id, STARTED)),
      ])
      expect([claimed[0]?.verdict, started]).toEqual(['claimed', ['refused']])
    })

    it('applies the events of one job in their order', async () => {
      const { id } = await pushed(ledger)
      const events = [STARTED, VIA_RETRY_QUEUE].map((said) => eventOf(id, said))
      const again = [STARTED, COMPLETED].map((said) => eventOf(id, said, { attempt: 2 }))
      expect(await apply(...events, ...again)).toEqual(['merged', 'failed', 'merged', 'completed'])
      expect(await codesOf(id)).toEqual([[1, 'e']])
      expect(await row(id)).toMatchObject({ state: 'completed', attempt: 2, messageOut: false })
    })

    it('without events returns no results', async () => {
      expect(await ledger.applyReports([], REPORT)).toEqual([])
    })
  })
}
