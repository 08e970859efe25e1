import { describe, expect, it } from 'vitest'
import { decideArrival } from '../../../src/job/arrival.ts'
import type { NewJob } from '../../../src/job/job.ts'
import { decideNativeClaim } from '../../../src/job/native/claim.ts'
import type { ReportedEvent, Said } from '../../../src/job/native/report.ts'
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

const STARTED: Said = { event: 'started' }
const released = (messageAttempt: number): Said => ({ event: 'released', messageAttempt })

/** The worker that takes the job after the first one has given it back. */
const NEXT = { workerId: 'native-2', now: NOW + 60, wall: NOW + 60 }
const BEAT = { workerId: 'native-1', now: NOW, wall: NOW, leaseMs: null, defaultLeaseMs: 30_000 }

/** A native worker that shuts down gives back what it runs. */
export function releaseContract({ ledger, row, plant }: UnderTest): void {
  const apply = async (...events: ReportedEvent[]) => {
    const results = await ledger.applyReports(events, REPORT)
    return results.map(({ outcome }) => outcome)
  }
  const running = async (given: Parameters<typeof pushed>[1] = {}): Promise<string> => {
    const { id, outbox } = await pushed(ledger, given)
    ledger.confirmed(outbox)
    await settleLazily(ledger)
    await apply(eventOf(id, STARTED))
    return id
  }
  /** What the arrival table and a native claim decide about this job message now. */
  const fates = async (id: string, attempt: number) => {
    const context = { ...NEXT, isHeldDelivery: false, isTombstoned: false, isHeldHere: false }
    const arrived = { generation: 0, attempt }
    return [
      decideArrival(arrived, await row(id), context),
      decideNativeClaim({ ...arrived, workerId: NEXT.workerId }, await row(id), context),
    ]
  }
  const RUNS_AS = (attempt: number) => [
    { do: 'claim', attempt, skipped: [], promote: false },
    { decision: 'run', attempt },
  ]

  describe('a job whose queue was lost before the gateway heard that a native worker had started it', () => {
    const begins: [string, (id: string, attempt: number) => Promise<unknown>][] = [
      ['a report of its start', (id, attempt) => apply(eventOf(id, STARTED, { attempt }))],
      ['a heartbeat', (id) => ledger.beatNative([id], BEAT)],
    ]
    const ends: [string, (id: string, attempt: number) => Promise<unknown>][] = [
      [
        'its worker gives it back',
        (id, attempt) => apply(eventOf(id, released(attempt), { attempt })),
      ],
      [
        'its lease runs out',
        async (id) =>
          failAttempt(ledger, id, fenceOf(await row(id)), { ...FAILED, to: 'available' }),
      ],
    ]
    const cases = begins.flatMap(([told, begin]) =>
      ends.map(([how, end]) => [told, how, begin, end] as const),
    )

    it.each(cases)('gets a new job message after %s, when %s', async (_told, _how, begin, end) => {
      const { id, outbox } = await pushed(ledger, { queue: 'q' })
      ledger.confirmed(outbox)
      await settleLazily(ledger)
      expect(await ledger.rearm('q', NOW)).toBe(1)
      await begin(id, 1)
      expect(await row(id)).toMatchObject({ state: 'active', attempt: 1, outbox: null })
      await end(id, 1)
      expect(await row(id)).toMatchObject({ state: 'available', holder: null })
      expect((await row(id)).outbox).not.toBeNull()
    })

    /**
     * The gateway was down when the job message left its retry queue or delay level, and when the queue was
     * lost.
     */
    const away = (['retryable', 'scheduled'] as const).flatMap((state) =>
      cases.map((one) => [state, ...one] as const),
    )

    it.each(away)(
      'gets a new job message although it was still %s, after %s, when %s',
      async (...given) => {
        const [state, , , begin, end] = given
        const { id } = await pushed(ledger, { queue: 'q' })
        const attempt = state === 'retryable' ? 1 : 0
        await plant({ id, state, attempt, dueAt: NOW, retryQueueMs: 0, outbox: null })
        expect(await ledger.rearm('q', NOW)).toBe(0)
        await begin(id, attempt + 1)
        expect(await row(id)).toMatchObject({ state: 'active', attempt: attempt + 1 })
        await end(id, attempt + 1)
        expect(await row(id)).toMatchObject({ state: 'available', holder: null })
        expect((await row(id)).outbox).not.toBeNull()
      },
    )

    it.each<[string, Partial<NewJob>, (id: string) => Promise<unknown>]>([
      ['cancelled', {}, (id) => ledger.cancel(id, NOW)],
      ['expired', { expiresAt: NOW }, () => ledger.expire({ now: NOW, wall: NOW, limit: 9 })],
      ['exhausted', {}, (id) => ledger.claim([jobMessage(id, { attempt: 9 })], TERMS)],
    ])('has no worker when it is %s before that', async (how, given, end) => {
      const { id } = await pushed(ledger, { queue: 'q', ...given })
      await ledger.rearm('q', NOW)
      await end(id)
      expect(await row(id)).toMatchObject({
        state: how === 'cancelled' ? how : 'discarded',
        workerId: null,
      })
    })
  })

  describe('a released report', () => {
    it.each([1, 3])(
      'makes the job available without counting the attempt (maxAttempts %i)',
      async (maxAttempts) => {
        const { id, outbox } = await pushed(ledger, { queue: 'q', maxAttempts })
        ledger.confirmed(outbox)
        await settleLazily(ledger)
        const before = await row(id)
        await apply(eventOf(id, STARTED))
        const results = await ledger.applyReports([eventOf(id, released(1))], REPORT)
        expect(await row(id)).toEqual({ ...before, messageOut: true })
        expect(results).toEqual([{ outcome: 'released', job: await row(id) }])
        expect(ledger.known.counts('q')).toMatchObject({ available: 1, active: 0 })
        expect(ledger.known.claimable('q')).toBe(1)
        expect(await fates(id, 1)).toEqual(RUNS_AS(1))
        const [claimed] = await ledger.claim([jobMessage(id)], TERMS)
        expect(claimed).toMatchObject({ verdict: 'claimed', job: { attempt: 1, errors: null } })
      },
    )

    it('leaves a job runnable that ran as a later attempt than its job message says', async () => {
      const id = await running({ queue: 'q' })
      await plant({ id, attempt: 2 })
      expect(await apply(eventOf(id, released(1), { attempt: 2 }))).toEqual(['released'])
      expect(await row(id)).toMatchObject({ state: 'available', attempt: 1, outbox: null })
      expect(await fates(id, 1)).toEqual(RUNS_AS(2))
      expect(ledger.known.claimable('q')).toBe(0)
      const [claimed] = await ledger.claim([jobMessage(id)], TERMS)
      expect(claimed).toMatchObject({ verdict: 'claimed', job: { attempt: 2 } })
    })

    it('owes a new job message when the old one had reached the gateway before the report', async () => {
      const id = await running()
      const [arrived] = await ledger.claim([jobMessage(id)], TERMS)
      expect(arrived?.verdict).toBe('hand-over')
      expect(await apply(eventOf(id, released(1)))).toEqual(['released'])
      const { outbox, ...rest } = await row(id)
      expect(outbox).not.toBeNull()
      expect(rest).toMatchObject({ state: 'available', attempt: 0, holder: null, messageOut: true })
    })

    describe('followed by an outdated start', () => {
      /**
       * The job message reached the gateway before its worker gave the job back, so a new job message is
       * owed.
       */
      const owing = async () => {
        const id = await running()
        await ledger.claim([jobMessage(id)], TERMS)
        await apply(eventOf(id, released(1)))
        return await row(id)
      }
      const outdatedStarts: [string, (id: string) => Promise<unknown>][] = [
        ['a report', (id) => apply(eventOf(id, STARTED))],
        ['a report of another worker', (id) => apply(eventOf(id, STARTED, NEXT))],
        ['a heartbeat', (id) => ledger.beatNative([id], BEAT)],
      ]

      it.each(outdatedStarts)(
        'by %s leases the job to the ledger, because no job message is behind the lease',
        async (_, say) => {
          const { id } = await owing()
          await say(id)
          expect(await row(id)).toMatchObject({ state: 'active', attempt: 1, holder: 'ledger' })
        },
      )

      it.each(outdatedStarts)(
        'by %s leases the job natively when the owed job message is confirmed',
        async (_, say) => {
          const { id, outbox } = await owing()
          ledger.confirmed(outbox ?? 0)
          await say(id)
          expect(await row(id)).toMatchObject({ state: 'active', attempt: 1, holder: 'native' })
        },
      )
    })

    it('has the same effect as a release over HTTP: an outdated start leases the job to the ledger', async () => {
      const id = await running()
      await giveBack(ledger, id, { ...fenceOf(await row(id)), messageAttempt: null })
      await apply(eventOf(id, STARTED))
      expect(await row(id)).toMatchObject({ state: 'active', attempt: 1, holder: 'ledger' })
    })

    it('owes a new job message for any attempt number of the old one', async () => {
      const id = await running({ queue: 'q' })
      await plant({ id, attempt: 2, holder: 'ledger' })
      expect(await apply(eventOf(id, released(1), { attempt: 2 }))).toEqual(['released'])
      expect(await row(id)).toMatchObject({ attempt: 1, holder: null, outbox: expect.any(Number) })
      expect(ledger.known.claimable('q')).toBe(1)
    })

    it('is applied once, however often it is repeated', async () => {
      const id = await running()
      const word = eventOf(id, released(1))
      expect(await apply(word, word)).toEqual(['released', 'ignored'])
      await apply(eventOf(id, STARTED, { workerId: 'native-2' }))
      const after = await row(id)
      expect(after).toMatchObject({ state: 'active', attempt: 1, workerId: 'native-2' })
      expect(await apply(word)).toEqual(['ignored'])
      expect(await row(id)).toEqual(after)
    })

    it.each<[string, object]>([
      ['another worker', { workerId: 'native-2' }],
      ['another generation', { generation: 1 }],
      ['an earlier attempt', { attempt: 1 }],
      ['a later attempt', { attempt: 3 }],
    ])('is ignored for %s', async (_, over) => {
      const id = await running()
      await plant({ id, attempt: 2 })
      const before = await row(id)
      expect(await apply(eventOf(id, released(1), { attempt: 2, ...over }))).toEqual(['ignored'])
      expect(await row(id)).toEqual(before)
    })

    it('is ignored when the job is leased over HTTP, has ended or is unknown', async () => {
      const { id } = await pushed(ledger)
      await ledger.claim([jobMessage(id)], { ...TERMS, workerId: 'native-1' })
      const done = await running()
      await apply(eventOf(done, { event: 'completed', result: null }))
      const before = [await row(id), await row(done)]
      const events = [id, done, 'nobody'].map((of) => eventOf(of, released(1)))
      expect(await apply(...events)).toEqual(['ignored', 'ignored', 'ignored'])
      expect([await row(id), await row(done)]).toEqual(before)
      expect(await ledger.read.find('nobody')).toBeNull()
    })
  })
}
