import { describe, expect, it } from 'vitest'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  FAILED,
  failAttempt,
  fenceOf,
  giveBack,
  jobMessage,
  NOW,
  pushed,
  settleLazily,
  TERMS,
  type UnderTest,
} from '../harness.ts'
import { eventOf, REPORT } from './reports.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** Pausing queues, and the statistics that the ledger keeps of each queue's last hour. */
export function queueContract({ harness, ledger, row, plant }: UnderTest): void {
  describe('purge', () => {
    const terms = { now: NOW + 5, states: ['available', 'completed', 'cancelled'] as const }

    it('erases jobs of its states, and cancels those that wait before', async () => {
      const waiting = await pushed(ledger, { queue: 'q' })
      const done = await pushed(ledger, { queue: 'q' })
      await ledger.claim([jobMessage(done.id)], TERMS)
      await ledger.complete(done.id, {}, { now: NOW, result: null })
      const running = await pushed(ledger, { queue: 'q' })
      await ledger.claim([jobMessage(running.id)], TERMS)
      const purged = await ledger.purge([waiting.id, done.id, running.id, 'nobody'], terms)
      expect(
        purged.map(({ job, cancelled, isKept }) => [job.id, cancelled?.previousState, isKept]),
      ).toEqual([
        [waiting.id, 'available', false],
        [done.id, undefined, false],
      ])
      const rows = await Promise.all([waiting, done, running].map(({ id }) => row(id)))
      const states = rows.map(({ state }) => state)
      expect(states).toEqual(['withdrawn', 'withdrawn', 'active'])
      expect(ledger.known.counts('q')).toMatchObject({
        available: 0,
        completed: 0,
        cancelled: 0,
        active: 1,
      })
      // Their messages are dropped when they arrive, and nothing is erased twice.
      const [verdict] = await ledger.claim([jobMessage(waiting.id)], TERMS)
      expect(verdict).toMatchObject({ verdict: 'drop' })
      expect(await ledger.purge([waiting.id, done.id], terms)).toEqual([])
    })
  })

  describe('pauses', () => {
    const state = (queue: string) => [
      ledger.known.pauses.since(queue),
      ledger.known.pauses.owed().has(queue),
    ]

    it('last from the first pause until the queue is resumed', async () => {
      await pushed(ledger, { queue: 'q' })
      expect(state('q')).toEqual([null, false])
      expect(await ledger.pauses.pause('q', NOW)).toEqual({ pausedAt: NOW, isNew: true })
      expect(await ledger.pauses.pause('q', NOW + 5)).toEqual({ pausedAt: NOW, isNew: false })
      expect(state('q')).toEqual([NOW, true])
      expect(await ledger.pauses.resume('q', NOW + 6)).toEqual({ isNew: true })
      expect(await ledger.pauses.resume('q', NOW + 7)).toEqual({ isNew: false })
      expect(state('q')).toEqual([null, true])
      expect(await ledger.pauses.pause('q', NOW + 8)).toEqual({ pausedAt: NOW + 8, isNew: true })
    })

    it('create the row of a queue that no job has used', async () => {
      expect([ledger.known.hasQueue('a'), ledger.known.hasQueue('b')]).toEqual([false, false])
      await Promise.all([ledger.pauses.pause('a', NOW), ledger.pauses.resume('b', NOW)])
      expect([ledger.known.hasQueue('a'), ledger.known.hasQueue('b')]).toEqual([true, true])
      expect(ledger.known.queues()).toMatchObject([{ name: 'a' }, { name: 'b' }])
      expect([ledger.known.pauses.since('a'), ledger.known.pauses.since('b')]).toEqual([NOW, null])
    })

    it('apply in order with resumes of the same group commit', async () => {
      const results = await Promise.all([
        ledger.pauses.pause('q', NOW),
        ledger.pauses.resume('q', NOW),
        ledger.pauses.pause('q', NOW + 1),
        ledger.pauses.pause('q', NOW + 2),
      ])
      expect(results).toEqual([
        { pausedAt: NOW, isNew: true },
        { isNew: true },
        { pausedAt: NOW + 1, isNew: true },
        { pausedAt: NOW + 1, isNew: false },
      ])
      expect(state('q')).toEqual([NOW + 1, true])
    })

    it('refuse every claim from their commit on, also in the same group commit', async () => {
      const { id } = await pushed(ledger, { queue: 'q' })
      const other = await pushed(ledger, { queue: 'other' })
      const claim = () =>
        ledger.claim(
          [jobMessage(id, { queue: 'q' }), jobMessage(other.id, { queue: 'other' })],
          TERMS,
        )
      const [, [first, free]] = await Promise.all([ledger.pauses.pause('q', NOW), claim()] as const)
      expect([first?.verdict, free?.verdict]).toEqual(['paused', 'claimed'])
      expect(await row(id)).toMatchObject({ state: 'available', attempt: 0 })
      expect((await claim())[0]).toEqual({ verdict: 'paused' })
      const [, [last]] = await Promise.all([ledger.pauses.resume('q', NOW), claim()] as const)
      expect(last?.verdict).toBe('claimed')
    })

    it('are owed to the workers until a broadcast confirms exactly the present state', async () => {
      await ledger.pauses.pause('q', NOW)
      ledger.pauses.told('q', null)
      ledger.pauses.told('q', NOW - 1)
      await settleLazily(ledger)
      expect(state('q')[1]).toBe(true)
      ledger.pauses.told('q', NOW)
      await settleLazily(ledger)
      expect(state('q')).toEqual([NOW, false])
      await ledger.pauses.resume('q', NOW + 1)
      ledger.pauses.told('q', NOW)
      await settleLazily(ledger)
      expect(state('q')[1]).toBe(true)
      ledger.pauses.told('q', null)
      await settleLazily(ledger)
      expect(state('q')[1]).toBe(false)
    })

    it('survive a restart, as do owed broadcasts; a standing pause is owed again', async () => {
      for (const queue of ['told', 'untold', 'resumed', 'heard']) {
        await ledger.pauses.pause(queue, NOW)
        if (queue !== 'untold') ledger.pauses.told(queue, NOW)
      }
      await settleLazily(ledger)
      await ledger.pauses.resume('resumed', NOW)
      await ledger.pauses.resume('heard', NOW)
      ledger.pauses.told('heard', null)
      await settleLazily(ledger)
      await harness.reopen()
      const since = ['told', 'untold', 'resumed', 'heard'].map((q) => ledger.known.pauses.since(q))
      expect(since).toEqual([NOW, NOW, null, null])
      expect([...ledger.known.pauses.owed()]).toEqual(['told', 'untold', 'resumed'])
    })
  })

  describe('the traffic of a queue in the last hour', () => {
    const nothing = { completed: 0, failed: 0, timed: 0, durationMs: 0, waited: 0, waitMs: 0 }
    const hour = (queue: string, now = NOW) => {
      const { enqueued: _, retried: __, ...ended } = ledger.known.traffic.lastHour(queue, now)
      return ended
    }

    /** Claims a job `waitMs` after it was stored at `at`. */
    async function begun(queue: string, at: number, waitMs: number, maxAttempts = 3) {
      const job = newJob({ queue, maxAttempts })
      await ledger.insert(job, at)
      const terms = { ...TERMS, now: at + waitMs, wall: at }
      const [result] = await ledger.claim([jobMessage(job.id)], terms)
      if (result?.verdict !== 'claimed') throw new Error(`not claimed: ${result?.verdict}`)
      return result.job
    }

    async function done(queue: string, at: number, waitMs: number, durationMs: number) {
      const { id } = await begun(queue, at, waitMs)
      await ledger.complete(id, {}, { now: at + waitMs + durationMs, result: null })
    }

    it('counts completed jobs and sums up their waits and durations, also after a restart', async () => {
      await Promise.all([done('q', NOW, 10, 300), done('q', NOW, 30, 500), done('r', NOW, 0, 0)])
      const q = { completed: 2, failed: 0, timed: 2, durationMs: 800, waited: 2, waitMs: 40 }
      expect(hour('q')).toEqual(q)
      // A duration of 0 ms counts as a known duration, too.
      expect(hour('r')).toEqual({ ...nothing, completed: 1, timed: 1, waited: 1 })
      expect(hour('nowhere')).toEqual(nothing)
      await harness.reopen()
      expect(hour('q')).toEqual(q)
    })

    it('sums up the writes of several group commits within one minute', async () => {
      for (const [i, waitMs] of [10, 20, 30].entries()) {
        const job = await begun('q', NOW + i, waitMs)
        await failAttempt(ledger, job.id, fenceOf(job), { ...FAILED, ...RETRY })
      }
      const q = { ...nothing, failed: 3, waited: 3, waitMs: 60 }
      expect(hour('q')).toEqual(q)
      await harness.reopen()
      expect(hour('q')).toEqual(q)
    })

    it('counts from the present time after the clock was set back, and never a negative time', async () => {
      const HOUR = 3_600_000
      await done('q', NOW + 2 * HOUR, 10, 20)
      const waiting = newJob({ queue: 'q' })
      await ledger.insert(waiting, NOW + 2 * HOUR)
      const running = await begun('q', NOW + 2 * HOUR, 30)
      await harness.reopen()
      await ledger.boundWaits(NOW)
      const [claimed] = await ledger.claim([jobMessage(waiting.id)], {
        ...TERMS,
        now: NOW + 5,
        wall: NOW,
      })
      expect(claimed?.verdict).toBe('claimed')
      await ledger.complete(running.id, {}, { now: NOW + 7, result: null })
      const q = { ...nothing, completed: 1, timed: 1, waited: 1 }
      expect(hour('q')).toEqual(q)
      await harness.reopen()
      expect(hour('q')).toEqual(q)
    })

    it('counts every failed attempt, but no cancelled or released job, as a failure', async () => {
      const retried = await begun('q', NOW, 0)
      const dead = await begun('q', NOW, 0)
      const back = await begun('q', NOW, 0)
      const cancelled = await begun('q', NOW, 0)
      const released = await begun('q', NOW, 0)
      await Promise.all([
        failAttempt(ledger, retried.id, fenceOf(retried), { ...FAILED, ...RETRY }),
        failAttempt(ledger, dead.id, fenceOf(dead), { ...FAILED, ...DISCARD }),
        failAttempt(ledger, back.id, fenceOf(back), { ...FAILED, to: 'available' }),
        ledger.cancel(cancelled.id, NOW),
        giveBack(ledger, released.id, fenceOf(released)),
        ledger.complete(dead.id, { attempt: 9 }, { now: NOW, result: null }),
      ])
      expect(hour('q')).toMatchObject({ completed: 0, failed: 3, waited: 5 })
    })

    it.each([
      ['one failure for a rejected job', false, false, 1],
      ['no failure for a rejected job whose attempt is counted already', false, true, 0],
      ['no failure for an expired message', true, false, 0],
    ])('counts for jobs that died in the broker %s', async (_, isExpired, isCounted, count) => {
      const known = await pushed(ledger, { queue: 'q' })
      const adopted = newJob({ queue: 'q' })
      const describe = () => ({ error: null, errors: null, isDeadLetter: true, isCounted })
      const terms = { now: NOW, wall: NOW }
      for (const job of [known, adopted]) {
        const how = { isExpired, wasInQueue: isExpired }
        const dead = { ...jobMessage(job.id), describe, ...how, adopt: () => adopted }
        expect(await ledger.discardDead(dead, terms)).toMatchObject({ outcome: 'discarded' })
      }
      expect(hour('q').failed).toBe(2 * count)
    })

    it('drops minutes that are older than an hour, from the file as well', async () => {
      await done('q', NOW, 0, 100)
      await done('q', NOW + 30 * MINUTE, 0, 100)
      expect(hour('q', NOW + 30 * MINUTE).completed).toBe(2)
      // A clock that was set back to before the minute sees nothing of it.
      expect(hour('q', NOW - MINUTE)).toEqual(nothing)
      expect(hour('q', NOW + 58 * MINUTE).completed).toBe(2)
      expect(hour('q', NOW + HOUR).completed).toBe(1)
      expect(hour('q', NOW + 90 * MINUTE)).toEqual(nothing)
      await done('other', NOW + 61 * MINUTE, 0, 0)
      await harness.reopen()
      // The minutes that were pruned from the file do not come back for an earlier clock.
      expect(hour('q', NOW + 30 * MINUTE)).toMatchObject({ completed: 1, durationMs: 100 })
    })

    it('resets the slot of a minute when the same minute of the next hour begins', async () => {
      await done('q', NOW, 0, 100)
      await done('q', NOW + HOUR, 0, 7)
      expect(hour('q', NOW + HOUR)).toMatchObject({ completed: 1, durationMs: 7 })
    })

    it('keeps the current minute when a job that started an hour ago ends in it', async () => {
      const now = NOW + HOUR
      const short = await pushed(ledger, { queue: 'q' })
      const long = await pushed(ledger, { queue: 'q' })
      const done = (elapsedMs: number) => ({ event: 'completed', result: null, elapsedMs }) as const
      const events = [eventOf(short.id, done(100)), eventOf(long.id, done(HOUR))]
      await ledger.applyReports(events, { ...REPORT, now })
      expect((await row(long.id)).startedAt).toBe(NOW)
      const q = { completed: 2, failed: 0, timed: 2, durationMs: HOUR + 100 }
      expect(hour('q', now)).toEqual({ ...q, waited: 1, waitMs: HOUR - 100 })
      await harness.reopen()
      expect(hour('q', now)).toEqual({ ...q, waited: 1, waitMs: HOUR - 100 })
    })

    it('ignores a refused write that shares a group commit with a successful one', async () => {
      const { id } = await begun('q', NOW, 0)
      const other = await begun('q', NOW, 0)
      await Promise.all([
        ledger.complete(id, { attempt: 2 }, { now: NOW, result: null }),
        ledger.complete(other.id, {}, { now: NOW + 5, result: null }),
      ])
      expect(hour('q')).toMatchObject({ completed: 1, durationMs: 5 })
    })

    it('takes the duration of a native job from its worker, at most the time since the job was stored', async () => {
      const one = await pushed(ledger, { queue: 'q' })
      const two = await pushed(ledger, { queue: 'q' })
      const three = await pushed(ledger, { queue: 'q' })
      const later = { ...REPORT, now: NOW + 1_000 }
      const told = { event: 'completed', result: null, elapsedMs: 300 } as const
      const untold = { event: 'completed', result: null } as const
      await ledger.applyReports([eventOf(one.id, told), eventOf(two.id, untold)], later)
      expect(await row(one.id)).toMatchObject({ startedAt: NOW + 700, completedAt: NOW + 1_000 })
      const so = { completed: 2, timed: 1, durationMs: 300, waited: 1, waitMs: 700 }
      expect(hour('q')).toMatchObject(so)
      const absurd = { ...told, elapsedMs: 1e9 }
      await ledger.applyReports([eventOf(three.id, absurd)], later)
      expect((await row(three.id)).startedAt).toBe(NOW)
      expect(hour('q')).toMatchObject({ completed: 3, timed: 2, durationMs: 1_300 })
    })

    it("takes the worker's duration also when the report of the start or of the end came late", async () => {
      const [soon, late] = [
        await pushed(ledger, { queue: 'q' }),
        await pushed(ledger, { queue: 'q' }),
      ]
      const started = { event: 'started' } as const
      const told = { event: 'completed', result: null, elapsedMs: 300 } as const
      for (const { id } of [soon, late])
        await ledger.applyReports([eventOf(id, started)], { ...REPORT, now: NOW + 950 })
      await ledger.applyReports([eventOf(soon.id, told)], { ...REPORT, now: NOW + 1_000 })
      await ledger.applyReports([eventOf(late.id, told)], { ...REPORT, now: NOW + MINUTE })
      expect(await row(soon.id)).toMatchObject({ startedAt: NOW + 700, completedAt: NOW + 1_000 })
      expect(await row(late.id)).toMatchObject({ startedAt: NOW + 950, completedAt: NOW + MINUTE })
      expect(hour('q', NOW + MINUTE)).toMatchObject({ completed: 2, timed: 2, durationMs: 600 })
    })

    it('counts no duration when the start of the attempt was only inferred', async () => {
      const retried = await pushed(ledger, { queue: 'q' })
      await plant({ id: retried.id, state: 'retryable', attempt: 1, dueAt: NOW })
      const resumed = await pushed(ledger, { queue: 'q' })
      await plant({ id: resumed.id, holder: 'native', attempt: 1 })
      const untold = { event: 'completed', result: null } as const
      const second = eventOf(retried.id, { ...untold, elapsedMs: 30 }, { attempt: 2 })
      const later = { ...REPORT, now: NOW + 1_000 }
      const results = await ledger.applyReports([second, eventOf(resumed.id, untold)], later)
      expect(results).toMatchObject([{ outcome: 'completed' }, { outcome: 'completed' }])
      expect(hour('q')).toMatchObject({ completed: 2, timed: 0, durationMs: 0 })
    })

    it('counts no waiting time when a gateway claims a job that a native worker held', async () => {
      const { id } = await pushed(ledger, { queue: 'q' })
      await plant({ id, holder: 'native', attempt: 1 })
      const [result] = await ledger.claim([jobMessage(id)], { ...TERMS, now: NOW + 9 })
      expect(result).toMatchObject({ verdict: 'claimed', job: { attempt: 2 } })
      expect(hour('q')).toEqual(nothing)
    })

    it('counts failures that native workers report', async () => {
      const { id } = await pushed(ledger, { queue: 'q' })
      const failure = { code: 'e', type: 'E', message: 'm', retryable: true }
      const said = { event: 'failed', failure, outcome: null } as const
      await ledger.applyReports([eventOf(id, said)], REPORT)
      expect(hour('q')).toMatchObject({ completed: 0, failed: 1 })
    })
  })
}

const RETRY = {
  to: 'retryable',
  dueAt: NOW,
  delayMs: 1,
  retryQueueMs: null,
  isMessageBack: true,
} as const
const DISCARD = { to: 'discarded', isDeadLetter: true, copy: 'nack' } as const
