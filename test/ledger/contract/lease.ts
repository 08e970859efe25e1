import { describe, expect, it } from 'vitest'
import type { RowState } from '../../../src/job/job.ts'
import { isStale } from '../../../src/job/stale.ts'
import {
  fenceOf,
  fetched,
  giveBack,
  jobMessage,
  NOW,
  owedBy,
  pushed,
  settleLazily,
  staleAt,
  TERMS,
  type UnderTest,
} from '../harness.ts'

/** Jobs that a worker has leased. */
export function leaseContract({ ledger, row, plant }: UnderTest): void {
  describe('release', () => {
    it('takes the attempt back and makes the job available', async () => {
      const job = await fetched(ledger)
      expect(await giveBack(ledger, job.id, fenceOf(job))).toEqual({
        ...job,
        state: 'available',
        attempt: 0,
        holder: null,
        workerId: null,
        leaseMs: null,
        leaseExpiresAt: null,
        timeoutAt: null,
        startedAt: null,
      })
      expect(ledger.known.counts('default')).toMatchObject({ available: 1, active: 0 })
      const [again] = await ledger.claim([jobMessage(job.id)], TERMS)
      expect(again).toMatchObject({ verdict: 'claimed', job: { attempt: 1 } })
    })

    it('owes a job message when the ledger alone held the lease', async () => {
      const job = await fetched(ledger)
      await ledger.handOver([job])
      const released = await giveBack(ledger, job.id, fenceOf(job))
      expect(released).toMatchObject({ state: 'available', attempt: 0, holder: null })
      expect((await ledger.read.outboxPage(0, 10)).map(({ id }) => id)).toEqual([job.id])
    })

    it('owes a job message when a native worker has the present one', async () => {
      const job = await fetched(ledger)
      // RabbitMQ has redelivered its job message, which still has the number of the first attempt.
      await plant({ id: job.id, holder: 'native', attempt: 2 })
      await giveBack(ledger, job.id, { ...fenceOf(job), attempt: 2, messageAttempt: null })
      expect(await row(job.id)).toMatchObject({ state: 'available', attempt: 1, holder: null })
      expect(await ledger.read.outboxPage(0, 10)).toEqual([owedBy(await row(job.id))])
      expect(ledger.known.claimable('default')).toBe(1)
      const jobMessages = [1, 2].map((attempt) => jobMessage(job.id, { attempt }))
      const claims = await ledger.claim(jobMessages, TERMS)
      expect(claims.map(({ verdict }) => verdict)).toEqual(['drop', 'claimed'])
    })

    it.each([1, null])(
      'owes a job message when the one given back is of attempt %s and the lease of attempt 2',
      async (old) => {
        const job = await fetched(ledger)
        // A native worker whose lease had run out requeued the job message, which then ran as the next
        // attempt.
        await plant({ id: job.id, attempt: 2 })
        const released = await giveBack(ledger, job.id, {
          ...fenceOf(await row(job.id)),
          messageAttempt: old,
        })
        expect(released).toMatchObject({ state: 'available', attempt: 1, workerId: 'worker-1' })
        expect(await ledger.read.outboxPage(0, 10)).toEqual([owedBy(await row(job.id))])
      },
    )

    it.each([{ attempt: 2 }, { attempt: 0 }, { generation: 1 }, { id: 'nobody' }])(
      'is stale with the fence %o',
      async (other) => {
        const job = await fetched(ledger)
        const { id, ...fence } = { ...fenceOf(job), id: job.id, ...other }
        expect(await giveBack(ledger, id, fence)).toEqual(await staleAt(ledger, id))
        expect(await row(job.id)).toEqual(job)
      },
    )

    it('tells what the row was during the lease', async () => {
      const job = await fetched(ledger)
      const released = await ledger.release(job.id, { messageAttempt: 1, now: NOW })
      expect(released).toEqual({ outcome: 'ended', job: await row(job.id), before: job })
    })

    it('is stale for another worker than the owner, if the lease has one', async () => {
      const job = await fetched(ledger)
      expect(await giveBack(ledger, job.id, { ...fenceOf(job), workerId: 'x' })).toEqual(
        await staleAt(ledger, job.id),
      )
      expect(await row(job.id)).toEqual(job)
      const released = await giveBack(ledger, job.id, { ...fenceOf(job), workerId: 'worker-1' })
      expect(released).toMatchObject({ state: 'available' })
      const [again] = await ledger.claim([jobMessage(job.id)], { ...TERMS, workerId: null })
      expect(again).toMatchObject({ verdict: 'claimed', job: { attempt: 1 } })
      const any = { ...fenceOf(job), workerId: 'worker-1' }
      expect(await giveBack(ledger, job.id, any)).toMatchObject({ state: 'available' })
    })

    it('succeeds for the first of two calls in one group commit, and not after an ack', async () => {
      const job = await fetched(ledger)
      const twice = await Promise.all([
        giveBack(ledger, job.id, fenceOf(job)),
        giveBack(ledger, job.id, fenceOf(job)),
      ])
      expect(twice.map((result) => isStale(result))).toEqual([false, true])
      const other = await fetched(ledger)
      const [acked, released] = await Promise.all([
        ledger.complete(other.id, {}, { now: NOW, result: null }),
        giveBack(ledger, other.id, fenceOf(other)),
      ])
      expect([isStale(acked), isStale(released)]).toEqual([false, true])
    })
  })

  describe('complete', () => {
    const change = { now: NOW + 9, result: '{"ok":true}' }

    it('completes the job, clears the lease and what was owed, and keeps the list of errors', async () => {
      const job = await fetched(ledger)
      await plant({ id: job.id, error: '{"code":"e"}', errors: '[{"code":"e"}]', outbox: 5 })
      const done = await ledger.complete(job.id, { attempt: 1, workerId: 'worker-1' }, change)
      expect(done).toEqual({
        ...job,
        state: 'completed',
        completedAt: NOW + 9,
        result: '{"ok":true}',
        error: null,
        errors: '[{"code":"e"}]',
        outbox: null,
        holder: null,
        leaseMs: null,
        leaseExpiresAt: null,
        timeoutAt: null,
      })
      expect(await row(job.id)).toEqual(done)
      expect(ledger.known.counts('default')).toMatchObject({ active: 0, completed: 1 })
    })

    it('clears messageOut only when the ledger alone held the lease', async () => {
      const [held, handedOver] = [await fetched(ledger), await fetched(ledger)]
      await ledger.handOver([handedOver])
      expect(await ledger.complete(held.id, {}, change)).toMatchObject({ messageOut: true })
      expect(await ledger.complete(handedOver.id, {}, change)).toMatchObject({ messageOut: false })
    })

    it.each([{}, { attempt: 1 }, { workerId: 'worker-1' }, { generation: 0 }])(
      'accepts the fence %o',
      async (fence) => {
        const job = await fetched(ledger)
        expect(await ledger.complete(job.id, fence, change)).toMatchObject({ state: 'completed' })
      },
    )

    it.each([{ attempt: 0 }, { attempt: 2 }, { workerId: 'x' }, { attempt: 1, workerId: 'x' }])(
      'is stale with the fence %o',
      async (fence) => {
        const job = await fetched(ledger)
        expect(await ledger.complete(job.id, fence, change)).toEqual(await staleAt(ledger, job.id))
        expect(await row(job.id)).toEqual(job)
      },
    )

    it('accepts only the generation of the row, if one is given', async () => {
      const job = await fetched(ledger)
      await plant({ id: job.id, generation: 2 })
      const lease = { attempt: 1, workerId: 'worker-1' }
      for (const generation of [0, 1, 3]) {
        expect(await ledger.complete(job.id, { ...lease, generation }, change)).toEqual(
          await staleAt(ledger, job.id),
        )
      }
      expect(await row(job.id)).toMatchObject({ state: 'active', generation: 2 })
      const done = await ledger.complete(job.id, { ...lease, generation: 2 }, change)
      expect(done).toMatchObject({ state: 'completed', generation: 2 })
    })

    it.each([{}, { generation: null }])(
      'accepts any generation with the fence %o',
      async (fence) => {
        const job = await fetched(ledger)
        await plant({ id: job.id, generation: 2 })
        expect(await ledger.complete(job.id, fence, change)).toMatchObject({ state: 'completed' })
      },
    )

    it('accepts any worker when the lease names none, but only its attempt', async () => {
      const { id } = await pushed(ledger)
      await ledger.claim([jobMessage(id)], { ...TERMS, workerId: null })
      const workerId = 'worker-1'
      expect(await ledger.complete(id, { workerId, attempt: 2 }, change)).toEqual(
        await staleAt(ledger, id),
      )
      const job = await ledger.complete(id, { workerId, attempt: 1 }, change)
      expect(job).toMatchObject({ state: 'completed' })
    })

    it.each<RowState>(['available', 'scheduled', 'pending', 'retryable'])(
      'is stale while the job is %s',
      async (state) => {
        const { id } = await pushed(ledger)
        await plant({ id, state })
        expect(await ledger.complete(id, {}, change)).toEqual(await staleAt(ledger, id))
      },
    )

    it('succeeds for the first of two calls in one group commit, and not after a cancel', async () => {
      const job = await fetched(ledger)
      const ack = () => ledger.complete(job.id, {}, change)
      const twice = await Promise.all([ack(), ack()])
      expect(twice.map((result) => isStale(result))).toEqual([false, true])
      const other = await fetched(ledger)
      const [cancelled, acked] = await Promise.all([
        ledger.cancel(other.id, NOW),
        ledger.complete(other.id, {}, change),
      ])
      expect([isStale(cancelled), acked]).toEqual([false, await staleAt(ledger, other.id)])
    })
  })

  describe('cancel', () => {
    it.each<RowState>(['available', 'scheduled', 'pending', 'active', 'retryable'])(
      'ends a job that is %s and owes a broadcast to the workers',
      async (state) => {
        const job = await fetched(ledger)
        await plant({ id: job.id, state, dueAt: 7, outbox: 5 })
        const cancelled = await ledger.cancel(job.id, NOW + 3)
        expect(cancelled).toEqual({
          job: await row(job.id),
          previousState: state,
          isMessageOwed: expect.any(Boolean),
        })
        expect(await row(job.id)).toMatchObject({
          state: 'cancelled',
          cancelledAt: NOW + 3,
          holder: null,
          leaseExpiresAt: null,
          timeoutAt: null,
          attempt: 1,
          messageOut: true,
        })
        // A new nonce for the broadcast, not that of the job message.
        expect((await row(job.id)).outbox).toBeGreaterThan(5)
        expect(await ledger.read.outboxPage(0, 10)).toEqual([owedBy(await row(job.id))])
        expect(ledger.known.counts('default')).toMatchObject({ [state]: 0, cancelled: 1 })
      },
    )

    it('clears messageOut of a lease that the ledger alone held', async () => {
      const job = await fetched(ledger)
      await ledger.handOver([job])
      expect(await ledger.cancel(job.id, NOW)).toMatchObject({ job: { messageOut: false } })
    })

    it('owes a broadcast until it is confirmed, if a worker could run the job', async () => {
      const [queued, active] = [await pushed(ledger), await fetched(ledger)]
      await ledger.handOver([active])
      const idle = await pushed(ledger, { start: { state: 'pending', dueAt: null } })
      const held = await fetched(ledger)
      await plant({ id: held.id, state: 'retryable', messageOut: false, dueAt: NOW })
      for (const { id } of [queued, active, idle, held]) await ledger.cancel(id, NOW)
      const owed = await Promise.all(
        [queued, active, idle, held].map(async ({ id }) => (await row(id)).outbox !== null),
      )
      expect(owed).toEqual([true, true, false, false])
      ledger.confirmed(queued.outbox)
      ledger.confirmed((await row(active.id)).outbox ?? 0)
      await settleLazily(ledger)
      expect((await ledger.read.outboxPage(0, 10)).map(({ id }) => id)).toEqual([queued.id])
    })

    it('is stale for an unknown id and for the second of two calls', async () => {
      const { id } = await pushed(ledger)
      expect(await ledger.cancel('nobody', NOW)).toEqual(await staleAt(ledger, 'nobody'))
      const twice = await Promise.all([ledger.cancel(id, NOW), ledger.cancel(id, NOW + 1)])
      expect(twice.map((result) => isStale(result))).toEqual([false, true])
      expect((await row(id)).cancelledAt).toBe(NOW)
    })
  })

  describe('handOver', () => {
    it('gives the named leases to the ledger', async () => {
      const jobs = [await fetched(ledger), await fetched(ledger), await fetched(ledger)]
      expect(await ledger.handOver(jobs.slice(0, 2))).toBe(2)
      expect(await Promise.all(jobs.map(async ({ id }) => (await row(id)).holder))).toEqual([
        'ledger',
        'ledger',
        'gateway',
      ])
    })

    it.each<[string, object]>([
      ['another attempt', { attempt: 2 }],
      ['another generation', { generation: 1 }],
      ['another holder', { holder: 'native' }],
      ['another state', { state: 'available' }],
    ])('leaves a row of %s unchanged', async (_, change) => {
      const job = await fetched(ledger)
      await plant({ id: job.id, ...change })
      const before = await row(job.id)
      expect(await ledger.handOver([job])).toBe(0)
      expect(await row(job.id)).toEqual(before)
    })

    it('counts each lease once in two calls of one group commit', async () => {
      const job = await fetched(ledger)
      expect(await Promise.all([ledger.handOver([job]), ledger.handOver([job])])).toEqual([1, 0])
    })
  })

  describe('handBack', () => {
    const handedOver = async () => {
      const job = await fetched(ledger)
      await ledger.handOver([job])
      return job
    }

    it('returns the lease to the gateway, so that its end keeps messageOut', async () => {
      const job = await handedOver()
      expect(await ledger.handBack([job])).toBe(1)
      expect(await row(job.id)).toMatchObject({
        state: 'active',
        holder: 'gateway',
        messageOut: true,
      })
      await ledger.complete(job.id, {}, { now: NOW, result: null })
      expect(await row(job.id)).toMatchObject({ state: 'completed', messageOut: true })
    })

    it.each([
      ['completed', () => ledger.complete.bind(ledger)],
      ['cancelled', () => (id: string) => ledger.cancel(id, NOW)],
    ])('sets messageOut of a job that is %s by then', async (state, end) => {
      const job = await handedOver()
      await end()(job.id, {}, { now: NOW, result: null })
      expect(await row(job.id)).toMatchObject({ state, messageOut: false })
      expect(await ledger.handBack([job])).toBe(1)
      expect(await row(job.id)).toMatchObject({ state, holder: null, messageOut: true })
    })

    it.each<[string, object]>([
      ['another attempt', { attempt: 2 }],
      ['another generation', { generation: 1 }],
      ['another holder', { holder: 'native' }],
      ['another state', { state: 'available', holder: null }],
    ])('leaves a row of %s unchanged', async (_, change) => {
      const job = await handedOver()
      await plant({ id: job.id, ...change })
      const before = await row(job.id)
      expect(await ledger.handBack([job])).toBe(0)
      expect(await row(job.id)).toEqual(before)
    })

    it('counts each lease once in two calls of one group commit', async () => {
      const job = await handedOver()
      expect(await Promise.all([ledger.handBack([job]), ledger.handBack([job])])).toEqual([1, 0])
    })
  })

  describe('extendLeases', () => {
    it('extends every lease to its whole length again, and shortens none', async () => {
      const short = await fetched(ledger, { visibilityTimeoutMs: 1000 })
      const long = await fetched(ledger, { visibilityTimeoutMs: 90_000 })
      await plant({ id: long.id, holder: 'native' })
      expect(await ledger.extendLeases(NOW + 5000)).toBe(2)
      expect((await row(short.id)).leaseExpiresAt).toBe(NOW + 6000)
      expect((await row(long.id)).leaseExpiresAt).toBe(NOW + 95_000)
      expect(await Promise.all([NOW + 5000, NOW].map((at) => ledger.extendLeases(at)))).toEqual([
        0, 0,
      ])
      expect(await row(short.id)).toMatchObject({
        leaseExpiresAt: NOW + 6000,
        timeoutAt: NOW + 30_000,
      })
    })

    it('extends the execution time as well, which boundWaits keeps while the clock is right', async () => {
      const job = await fetched(ledger, { visibilityTimeoutMs: 90_000, timeoutMs: 30_000 })
      await ledger.extendLeases(NOW + 5000)
      expect(await row(job.id)).toMatchObject({
        timeoutAt: NOW + 95_000,
        leaseExpiresAt: NOW + 95_000,
      })
      expect(await ledger.boundWaits(NOW + 5000)).toBe(0)
    })
  })
}
