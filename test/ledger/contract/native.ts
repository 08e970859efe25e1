import { describe, expect, it } from 'vitest'
import type { RowState } from '../../../src/job/job.ts'
import { TOUCHABLE } from '../../../src/job/steer.ts'
import type { NativeBeat } from '../../../src/ledger/native.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  askedBy,
  died,
  failAttempt,
  fenceOf,
  fetched,
  giveBack,
  jobMessage,
  NOW,
  overdueRows,
  pushed,
  revive,
  staleAt,
  TERMS,
  takeOver,
  type UnderTest,
} from '../harness.ts'
import { eventOf, REPORT } from './reports.ts'

const BEAT: NativeBeat = {
  now: NOW + 500,
  wall: NOW + 500,
  workerId: 'native-1',
  leaseMs: null,
  defaultLeaseMs: 30_000,
}

/** What native workers need of the ledger besides reports: heartbeats and tombstones. */
export function nativeContract({ harness, ledger, row, plant }: UnderTest): void {
  const native = async (given: Parameters<typeof pushed>[1] = {}) => {
    const { id } = await pushed(ledger, given)
    await ledger.applyReports([eventOf(id, { event: 'started' })], REPORT)
    return await row(id)
  }

  describe('beatNative', () => {
    const outcomes = async (ids: string[], over: Partial<NativeBeat> = {}) => {
      const results = await ledger.beatNative(ids, { ...BEAT, ...over })
      return results.map(({ outcome }) => outcome)
    }

    it("extends the worker's own leases in the order of the ids, and ignores those of others", async () => {
      const [own, http] = [await native(), await fetched(ledger)]
      const mine = { workerId: 'native-1' }
      const results = await ledger.beatNative([http.id, 'nobody', own.id], BEAT)
      const { id, generation, attempt, queue, type, holder, startedAt } = own
      const same = { id, generation, attempt, queue, type, holder, startedAt }
      expect(results).toEqual([
        { outcome: 'ignored' },
        { outcome: 'ignored' },
        { outcome: 'extended', lease: { ...same, leaseExpiresAt: NOW + 30_500 } },
      ])
      expect(await row(own.id)).toEqual({ ...own, leaseExpiresAt: NOW + 30_500 })
      expect(await row(http.id)).toEqual(http)
      await plant({ id: http.id, workerId: null })
      const nobodys = await row(http.id)
      expect(await outcomes([http.id])).toEqual(['ignored'])
      expect(await row(http.id)).toEqual(nobodys)
      await plant({ id: http.id, ...mine })
      expect(await outcomes([http.id])).toEqual(['extended'])
    })

    it('gives a lease a length that stays', async () => {
      const { id } = await native()
      expect(await outcomes([id], { leaseMs: 70 })).toEqual(['extended'])
      expect(await outcomes([id], { now: NOW + 510 })).toEqual(['extended'])
      expect(await row(id)).toMatchObject({ leaseMs: 30_000, leaseExpiresAt: NOW + 580 })
    })

    it('takes over a native lease that has no owner', async () => {
      const { id } = await native()
      await plant({ id, workerId: null })
      expect(await outcomes([id], { leaseMs: 70 })).toEqual(['extended'])
      expect(await row(id)).toMatchObject({ workerId: 'native-1', leaseExpiresAt: NOW + 570 })
    })

    it('starts a claimable job as the attempt after its last one', async () => {
      const { id } = await pushed(ledger, { queue: 'q' })
      const results = await ledger.beatNative([id], { ...BEAT, leaseMs: 70 })
      const begun = { attempt: 1, holder: 'native', workerId: 'native-1', outbox: null }
      expect(await row(id)).toMatchObject({ ...begun, state: 'active', leaseExpiresAt: NOW + 570 })
      expect(results).toEqual([{ outcome: 'started', job: await row(id), promoted: false }])
      expect(ledger.known.counts('q')).toMatchObject({ available: 0, active: 1 })
      const due = await pushed(ledger)
      await plant({ id: due.id, state: 'retryable', attempt: 2, dueAt: NOW, retryQueueMs: 250 })
      const [again] = await ledger.beatNative([due.id], BEAT)
      expect(again).toMatchObject({ outcome: 'started', promoted: true, job: { attempt: 3 } })
      expect(await row(due.id)).toMatchObject({
        retryQueueMs: null,
        dueAt: null,
        enqueuedAt: NOW + 500,
      })
    })

    it('starts a job whose job message is outdated, but leaves the lease to the ledger', async () => {
      // The queue was deleted and the lease ran out, so a new job message is owed and not published yet.
      const owed = await native()
      await takeOver(ledger, owed)
      const expired = { now: NOW, error: '{"code":"visibility_timeout"}', errors: '[]' }
      await failAttempt(ledger, owed.id, fenceOf(owed), { ...expired, to: 'available' })
      // Two retries that the ledger holds: without a job message, and with a last job message that the worker
      // still has after a NACK over HTTP.
      const [held, failed] = [await pushed(ledger), await pushed(ledger)]
      const due = { state: 'retryable', attempt: 2, dueAt: NOW, outbox: null } as const
      await plant({ id: held.id, ...due, messageOut: false })
      await plant({ id: failed.id, ...due })
      for (const { id } of [owed, held, failed]) {
        const [result] = await ledger.beatNative([id], BEAT)
        expect(await row(id)).toMatchObject({
          state: 'active',
          holder: 'ledger',
          workerId: 'native-1',
        })
        expect(result).toMatchObject({ outcome: 'started', job: await row(id) })
      }
    })

    it('begins no attempt of a job that was retried by hand, for a worker that runs its generation before', async () => {
      const { id } = await died(ledger)
      await revive(ledger, id, NOW)
      const revived = await row(id)
      expect(await outcomes([id])).toEqual(['ignored'])
      expect(await outcomes([id], { generations: new Map([['other', 1]]) })).toEqual(['ignored'])
      expect(await row(id)).toEqual(revived)
      expect(await outcomes([id], { generations: new Map([[id, 1]]) })).toEqual(['started'])
      expect(await row(id)).toMatchObject({ state: 'active', attempt: 1, generation: 1 })
    })

    it('resumes the attempt whose lease had run out', async () => {
      const job = await native()
      const expired = { now: NOW, error: '{"code":"visibility_timeout"}', errors: '[]' }
      await failAttempt(ledger, job.id, fenceOf(job), { ...expired, to: 'available' })
      const [result] = await ledger.beatNative([job.id], BEAT)
      expect(result).toEqual({ outcome: 'resumed', job: await row(job.id) })
      expect(await row(job.id)).toMatchObject({ state: 'active', attempt: 1, holder: 'native' })
      expect((await row(job.id)).leaseExpiresAt).toBe(NOW + 30_500)
    })

    it('reports that a job was cancelled', async () => {
      const { id } = await native()
      await ledger.cancel(id, NOW)
      const results = await ledger.beatNative([id], BEAT)
      const standing = await ledger.read.standing(id)
      expect(results).toEqual([{ outcome: 'cancelled', job: standing }])
      const { carry, error, errors, result, envelope, ...short } = await row(id)
      expect(standing).toEqual(short)
      const [other, gone] = [await pushed(ledger), 'gone\0']
      const found = await ledger.read.standings([other.id, gone, id, id])
      expect(found).toEqual(
        new Map([
          [id, standing],
          [other.id, await ledger.read.standing(other.id)],
        ]),
      )
      expect(await ledger.read.standings([])).toEqual(new Map())
      expect([carry, error, errors, result]).toEqual([null, null, null, null])
      expect(envelope).toContain(id)
    })

    it.each<RowState>(['pending', 'completed', 'discarded', 'withdrawn', 'retryable'])(
      'does nothing to a job that is %s',
      async (state) => {
        const { id } = await pushed(ledger)
        await plant({ id, state, dueAt: NOW + 5000, outbox: null })
        const before = await row(id)
        expect(await outcomes([id])).toEqual(['ignored'])
        expect(await row(id)).toEqual(before)
      },
    )

    it('gives the job to the first of two workers in one group commit', async () => {
      const { id } = await pushed(ledger)
      const [a, b] = await Promise.all([outcomes([id]), outcomes([id], { workerId: 'native-2' })])
      expect([a, b]).toEqual([['started'], ['ignored']])
    })
  })

  describe('claimable', () => {
    it('counts available jobs except those that a native worker still has', async () => {
      const [job] = [await native({ queue: 'q' }), await pushed(ledger, { queue: 'q' })]
      const counts = () => [ledger.known.counts('q').available, ledger.known.claimable('q')]
      expect(counts()).toEqual([1, 1])
      const expired = { now: NOW, error: '1', errors: '[]' }
      await failAttempt(ledger, job.id, fenceOf(job), { ...expired, to: 'available' })
      expect(counts()).toEqual([2, 1])
      await harness.reopen()
      expect(counts()).toEqual([2, 1])
      await ledger.claim([jobMessage(job.id)], TERMS)
      expect(counts()).toEqual([1, 1])
      expect(ledger.known.claimable('nowhere')).toBe(0)
    })
  })

  describe('claimNative', () => {
    const ask = (id: string, given: Parameters<typeof askedBy>[2] = {}) =>
      ledger.claimNative(askedBy('w2', { id }, given), TERMS)

    it.each(['gateway', 'native', 'ledger'] as const)(
      'drops the message behind a live lease, which %s held and the ledger holds now',
      async (holder) => {
        const job = await fetched(ledger)
        await plant({ id: job.id, holder })
        expect(await ask(job.id)).toEqual({ decision: 'drop', attempt: 1 })
        expect(await row(job.id)).toEqual({ ...job, holder: 'ledger' })
      },
    )

    it('leaves the lease with the gateway that holds its delivery', async () => {
      const job = await fetched(ledger)
      expect(await ask(job.id, { isHeldHere: () => true })).toEqual({
        decision: 'drop',
        attempt: 1,
      })
      expect(await row(job.id)).toEqual(job)
    })

    it('leaves the lease with its worker, which may have the message now, if the question comes again', async () => {
      const job = await native()
      expect(await ask(job.id, { isRepeated: true })).toEqual({ decision: 'requeue', attempt: 1 })
      expect(await row(job.id)).toEqual(job)
      expect(await ask(job.id)).toEqual({ decision: 'drop', attempt: 1 })
    })

    it('decides by the writes before it in the same group commit', async () => {
      const job = await fetched(ledger)
      expect((await row(job.id)).messageOut).toBe(true)
      const [, dropped] = await Promise.all([
        ledger.complete(job.id, {}, { now: NOW, result: null }),
        ask(job.id),
      ])
      expect(dropped).toEqual({ decision: 'drop', attempt: 1 })
      expect(await row(job.id)).toMatchObject({
        state: 'completed',
        holder: null,
        messageOut: false,
      })
    })

    it('lets a job run that waits, changes nothing, and brings its checkpoint', async () => {
      const job = await fetched(ledger)
      const checkpoint = { now: NOW, state: '{"at":1}' }
      await ledger.checkpoints.save(job.id, { ofQueue: null, waitingToo: false }, checkpoint)
      await giveBack(ledger, job.id, fenceOf(job))
      const waiting = await row(job.id)
      expect(await ask(job.id)).toEqual({
        ...{ decision: 'run', attempt: 1, isBegun: false, start: null },
        checkpoint: { sequence: 1, state: '{"at":1}', createdAt: NOW },
      })
      expect(await row(job.id)).toEqual(waiting)
    })

    it('lets an unknown job run, unless it was cancelled, or its queue is paused', async () => {
      const [unknown, cancelled] = [newJob().id, newJob().id]
      expect(await ask(unknown)).toMatchObject({ decision: 'run', checkpoint: null })
      await ledger.cancelAny(cancelled, 'default', NOW)
      expect(await ask(cancelled)).toEqual({ decision: 'drop', attempt: 1 })
      const [paused] = await Promise.all([ask(unknown), ledger.pauses.pause('default', NOW)])
      expect(paused).toMatchObject({ decision: 'run' })
      expect(await ask(unknown)).toEqual({ decision: 'requeue', attempt: 1 })
      const { id } = await pushed(ledger, { queue: 'other' })
      expect(await ask(id)).toMatchObject({ decision: 'run' })
    })

    it('discards the message of a job of another queue than is meant', async () => {
      const { id } = await pushed(ledger, { queue: 'q' })
      expect(await ask(id, { ofQueue: 'r' })).toEqual({ decision: 'discard', attempt: 1 })
      expect(await ask(id, { ofQueue: 'q' })).toMatchObject({ decision: 'run' })
    })
  })

  describe('overdue', () => {
    it('omits native leases on request', async () => {
      const [http, own] = [await fetched(ledger), await native({ timeoutMs: 10 })]
      const ids = async (now: number, which?: 'not native') =>
        (await overdueRows(ledger, now, 9, which)).map(({ id }) => id)
      expect(await ids(NOW + 29_999)).toEqual([])
      expect(await ids(NOW + 99_999)).toEqual([http.id, own.id])
      expect(await ids(NOW + 99_999, 'not native')).toEqual([http.id])
    })
  })

  describe('leasedTo', () => {
    const inIdOrder = (ids: string[]) => ids.toSorted((a, b) => a.localeCompare(b))
    /** All ids of the worker, by pages that look at `limit` leases. */
    const all = async (workerId: string, limit: number): Promise<string[]> => {
      const ids = new Set<string>()
      let from: number | null = 0
      while (from !== null) {
        const page = await ledger.read.leasedTo(workerId, from, limit)
        for (const id of page.ids) ids.add(id)
        from = page.next
      }
      return inIdOrder([...ids])
    }

    it.each([1, 2, 3, 100])(
      'finds each active job of the worker, by pages of %i',
      async (limit) => {
        const mine: string[] = []
        // Their leases end at the same instant, which no page boundary may hide.
        for (let i = 0; i < 4; i++) mine.push((await fetched(ledger)).id)
        const other = await native()
        await plant({ id: mine[0] ?? '', leaseExpiresAt: NOW + 99_000 })
        expect(await all('worker-1', limit)).toEqual(inIdOrder(mine))
        expect(await all(other.workerId ?? '', limit)).toEqual([other.id])
        expect(await all('nobody', limit)).toEqual([])
        await ledger.complete(mine[1] ?? '', {}, { now: NOW, result: null })
        expect(await all('worker-1', limit)).not.toContain(mine[1])
      },
    )
  })

  describe('activeByWorker', () => {
    it('counts the active jobs of each worker, over HTTP and native', async () => {
      const [first, own] = [await fetched(ledger), await native()]
      await fetched(ledger)
      await plant({ id: (await fetched(ledger)).id, workerId: null })
      await pushed(ledger)
      const active = await ledger.read.activeByWorker(9)
      expect(new Map([...active].map(([id, { jobs }]) => [id, jobs]))).toEqual(
        new Map([
          ['worker-1', 2],
          [own.workerId, 1],
        ]),
      )
      await ledger.complete(first.id, {}, { now: NOW, result: null })
      expect((await ledger.read.activeByWorker(9)).get('worker-1')?.jobs).toBe(1)
    })

    it('looks at no more jobs than its limit', async () => {
      for (let i = 0; i < 5; i++) await fetched(ledger)
      expect((await ledger.read.activeByWorker(3)).get('worker-1')?.jobs).toBe(3)
    })

    it('tells of which queues they are, and when the first and the last of them began', async () => {
      for (const [place, queue] of ['b', 'a', 'b'].entries()) {
        const { id } = await pushed(ledger, { queue })
        await ledger.claim([jobMessage(id)], { ...TERMS, now: NOW + place })
      }
      const { queues = [], ...leases } = (await ledger.read.activeByWorker(9)).get('worker-1') ?? {}
      expect(queues.toSorted()).toEqual(['a', 'b'])
      expect(leases).toEqual({ jobs: 3, since: NOW, until: NOW + 2 })
    })
  })

  describe('tombstones', () => {
    const cancelledIn = async (queues: string[]) =>
      (await ledger.read.tombstones(queues, 9)).cancelled.map(({ id }) => id)

    it('are told of refused jobs whose messages may come, also once their ids are used again', async () => {
      const [alone, batched, back] = [
        await pushed(ledger),
        await pushed(ledger),
        await pushed(ledger),
      ]
      await ledger.withdraw(back.id, back.outbox)
      ledger.messageReturned(back.id, 0)
      await ledger.withdraw(alone.id, alone.outbox)
      await ledger.withdrawAll([{ id: batched.id, generation: 0 }])
      const both = [alone.id, batched.id].map((id) => ({ id, generation: 0 }))
      expect(new Set(await cancelledIn(['default']))).toEqual(new Set([alone.id, batched.id]))
      for (const { id } of both) await ledger.insert(newJob({ id }), NOW + 2)
      const { cancelled } = await ledger.read.tombstones(['default'], 9)
      expect(new Set(cancelled)).toEqual(new Set(both))
    })

    it('make the ledger drop the job message of an unknown id instead of adopting its job', async () => {
      expect(await ledger.cancelAny('a', 'q', NOW)).toBe('tombstoned')
      expect([await ledger.read.isTombstoned('a'), await ledger.read.isTombstoned('b')]).toEqual([
        true,
        false,
      ])
      const arriving = jobMessage('a', { adopt: () => newJob({ id: 'a', queue: 'q' }) })
      expect(await ledger.claim([arriving], TERMS)).toEqual([{ verdict: 'tombstoned' }])
      const dead = {
        ...arriving,
        isExpired: false,
        wasInQueue: false,
        describe: () => ({ error: null, errors: null, isDeadLetter: true }),
      }
      const outcome = await ledger.discardDead(dead, { now: NOW, wall: NOW })
      expect(outcome).toEqual({ outcome: 'ignored' })
      expect(await ledger.read.find('a')).toBeNull()
    })

    it('are not written for ids that the ledger knows, not even for withdrawn ones', async () => {
      const [known, withdrawn] = [await pushed(ledger), await pushed(ledger)]
      await ledger.withdraw(withdrawn.id, withdrawn.outbox)
      const cancelled = await ledger.cancelAny(known.id, 'default', NOW)
      expect(cancelled).toMatchObject({ job: { state: 'cancelled' }, previousState: 'available' })
      expect(cancelled).toMatchObject({ job: await row(known.id) })
      for (const { id } of [known, withdrawn]) {
        expect(await ledger.cancelAny(id, 'default', NOW)).toEqual(await staleAt(ledger, id))
        expect(await ledger.read.isTombstoned(id)).toBe(false)
      }
    })

    it('of one queue say nothing about job messages, workers and tombstones of another', async () => {
      const { id } = await pushed(ledger, { queue: 'victim' })
      expect(await ledger.cancelAny(id, 'evil', NOW, true)).toBe('elsewhere')
      expect((await row(id)).state).toBe('available')
      expect(await ledger.cancelAny('a', 'evil', NOW, true)).toBe('tombstoned')
      expect(
        await Promise.all(
          ['evil', 'victim', null].map((queue) => ledger.read.isTombstoned('a', queue)),
        ),
      ).toEqual([true, false, true])
      const beat = { now: NOW, wall: NOW, workerId: 'w', leaseMs: null, defaultLeaseMs: 1_000 }
      expect(await ledger.beatNative(['a', id], { ...beat, ofQueue: 'victim' })).toMatchObject([
        { outcome: 'ignored' },
        { outcome: 'started' },
      ])
      expect(await ledger.beatNative([id], { ...beat, ofQueue: 'evil' })).toEqual([
        { outcome: 'refused' },
      ])
      expect(await ledger.cancelAny('a', 'victim', NOW, true)).toBe('elsewhere')
      expect(await ledger.read.isTombstoned('a', 'evil')).toBe(true)
      const arriving = jobMessage('a', {
        queue: 'victim',
        adopt: () => newJob({ id: 'a', queue: 'victim' }),
      })
      expect(await ledger.claim([arriving], TERMS)).toMatchObject([{ verdict: 'claimed' }])
    })

    it('are committed, like cancellations of known jobs, when written() resolves', async () => {
      const { id } = await pushed(ledger)
      void ledger.cancelAny(id, 'default', NOW)
      void ledger.cancelAny('a', 'q', NOW)
      await ledger.written()
      expect([(await row(id)).state, await ledger.read.isTombstoned('a')]).toEqual([
        'cancelled',
        true,
      ])
    })

    it('are reported again to a worker whose heartbeat names the id', async () => {
      await ledger.cancelAny('a', 'q', NOW)
      const beat = { now: NOW, wall: NOW, workerId: 'w', leaseMs: null, defaultLeaseMs: 1_000 }
      expect(await ledger.beatNative(['a', 'b'], beat)).toEqual([
        { outcome: 'cancelled', job: { id: 'a', queue: 'q', generation: 0 } },
        { outcome: 'ignored' },
      ])
    })

    it('outlive the job that is stored under the id, which is another one', async () => {
      await ledger.cancelAny('a', 'q', NOW)
      await ledger.cancelAny('c', 'r', NOW, true)
      for (const id of ['a', 'c']) await ledger.insert(newJob({ id, queue: 'q' }), NOW)
      // Generation 1, because workers that have heard of the tombstone drop job messages of generation 0.
      expect(await row('a')).toMatchObject({ state: 'available', generation: 1 })
      const a = [{ id: 'a', generation: 0 }]
      expect(await ledger.read.tombstones(['q', 'r'], 9)).toMatchObject({ cancelled: a })
      // That of another queue is not about this job.
      expect(await row('c')).toMatchObject({ generation: 0 })
      expect(await ledger.read.isTombstoned('c')).toBe(false)
      await Promise.all([ledger.insert(newJob({ id: 'b' }), NOW), ledger.cancelAny('b', 'q', NOW)])
      expect([(await row('b')).state, await ledger.read.isTombstoned('b')]).toEqual([
        'cancelled',
        false,
      ])
    })

    it('are listed with cancelled jobs whose job message is out, newest first, for the given queues', async () => {
      const cancelled = async (queue: string, at: number): Promise<string> => {
        const { id } = await pushed(ledger, { queue })
        await ledger.cancel(id, NOW + at)
        return id
      }
      const [first, third] = [await cancelled('q', 1), await cancelled('r', 3)]
      await ledger.cancelAny('second', 'q', NOW + 2)
      await ledger.cancelAny('elsewhere', 's', NOW + 4)
      const back = await cancelled('q', 5)
      ledger.messageReturned(back, 0)
      await ledger.handOver([])
      await plant({ id: third, generation: 2 })
      const [one, two, three] = [
        { id: first, generation: 0 },
        { id: 'second', generation: 0 },
        { id: third, generation: 2 },
      ]
      const all = { cancelled: [three, two, one], truncated: false }
      expect(await ledger.read.tombstones(['q', 'r', 'q'], 3)).toEqual(all)
      const newest = { cancelled: [three, two], truncated: true }
      expect(await ledger.read.tombstones(['q', 'r'], 2)).toEqual(newest)
      expect(await ledger.read.tombstones(['nowhere'], 2)).toEqual({
        cancelled: [],
        truncated: false,
      })
    })

    it.each(['jobs', 'unknown ids'])(
      'are listed with a note when there are more than the limit: %s',
      async (kind) => {
        // More than the first page of a queue, and not stored in the order of their times.
        const earlier = Array.from({ length: 10 }, (_, i) => `earlier-${i}`)
        for (const [i, id] of ['c', 'b', 'a', ...earlier].entries()) {
          if (kind === 'jobs') await pushed(ledger, { id, queue: 'q' })
          if (kind === 'jobs') await ledger.cancel(id, NOW - i)
          else await ledger.cancelAny(id, 'q', NOW - i)
        }
        const [a, b, c] = ['a', 'b', 'c'].map((id) => ({ id, generation: 0 }))
        expect(await ledger.read.tombstones(['q'], 2)).toEqual({
          cancelled: [c, b],
          truncated: true,
        })
        expect(await ledger.read.tombstones(['q'], 3)).toEqual({
          cancelled: [c, b, a],
          truncated: true,
        })
        expect(await ledger.read.tombstones(['q'], 13)).toMatchObject({ truncated: false })
      },
    )

    it('are dated anew when the id is cancelled again, and survive a restart', async () => {
      await ledger.cancelAny('a', 'q', NOW)
      await ledger.cancelAny('b', 'q', NOW + 1)
      await ledger.cancelAny('a', 'q', NOW + 2)
      await harness.reopen()
      expect(await cancelledIn(['q'])).toEqual(['a', 'b'])
      expect(await ledger.read.isTombstoned('b')).toBe(true)
    })

    it('are pruned like withdrawn rows, up to the limit', async () => {
      for (const at of [1, 2, 3]) await ledger.cancelAny(`t${at}`, 'q', NOW + at)
      const never = { completed: 0, cancelled: 0, discarded: 0, deadLetters: 0 }
      expect(await ledger.prune({ ...never, withdrawn: NOW + 3 }, NOW, 1)).toBe(1)
      expect(await ledger.prune({ ...never, withdrawn: NOW + 3 }, NOW, 9)).toBe(1)
      expect(await cancelledIn(['q'])).toEqual(['t3'])
      expect(await ledger.read.isTombstoned('t1')).toBe(false)
    })

    it('are written once for two cancellations in one group commit', async () => {
      await Promise.all([ledger.cancelAny('a', 'q', NOW), ledger.cancelAny('a', 'q', NOW)])
      expect(await cancelledIn(['q'])).toEqual(['a'])
    })
  })

  describe('a cancelled job', () => {
    it('is pruned once its job message is back, although the broadcast to the workers is still owed', async () => {
      const { id } = await pushed(ledger)
      await ledger.cancel(id, NOW)
      const cutoffs = {
        completed: 0,
        cancelled: NOW + 1,
        discarded: 0,
        withdrawn: 0,
        deadLetters: 0,
      }
      expect(await ledger.prune(cutoffs, NOW, 9)).toBe(0)
      ledger.messageReturned(id, 0)
      expect(await ledger.prune(cutoffs, NOW, 9)).toBe(1)
      expect([await ledger.read.find(id), await ledger.read.outboxPage(0, 9)]).toEqual([null, []])
      // A new job uses the id, and the old nonce belongs to no row.
      await ledger.insert(newJob({ id }), NOW)
      expect(await row(id)).toMatchObject({ state: 'available', generation: 0 })
      expect((await ledger.read.tombstones(['default'], 9)).cancelled).toEqual([])
    })

    it.each(['delete', 'purge'])(
      'is still told of after a %s, once a new job has its id',
      async (how) => {
        const { id } = await pushed(ledger)
        const back = await pushed(ledger)
        for (const job of [id, back.id]) await ledger.cancel(job, NOW)
        ledger.messageReturned(back.id, 0)
        const about = {
          action: 'delete',
          states: TOUCHABLE.delete,
          deadLettersOnly: false,
        } as const
        const steering = { ...about, sparesRetried: false, scope: null }
        const terms = { now: NOW + 1, wall: NOW + 1, cause: {}, maxMs: 1_000 }
        const purge = { states: ['cancelled'], now: NOW + 1, cause: {} } as const
        if (how === 'delete') await ledger.bulk.act([id, back.id], steering, terms)
        else await ledger.purge([id, back.id], purge)
        const told = async (queue: string) => {
          return (await ledger.read.tombstones([queue], 9)).cancelled
        }
        expect(await told('default')).toEqual([{ id, generation: 0 }])
        for (const job of [back.id, id])
          await ledger.insert(newJob({ id: job, queue: 'q' }), NOW + 2)
        expect(await row(id)).toMatchObject({ state: 'available', generation: 1 })
        expect(await told('default')).toEqual([{ id, generation: 0 }])
        expect(await told('q')).toEqual([])
        await harness.reopen()
        expect(await told('default')).toEqual([{ id, generation: 0 }])
        const never = { completed: 0, cancelled: 0, discarded: 0, deadLetters: 0 }
        expect(await ledger.prune({ ...never, withdrawn: NOW + 3 }, NOW + 3, 9)).toBe(1)
        expect(await told('default')).toEqual([])
      },
    )

    it('is still told of once it is retried, as any retried job whose message may come', async () => {
      const retry = { action: 'retry', states: TOUCHABLE.retry, deadLettersOnly: false } as const
      const steering = { ...retry, sparesRetried: false, scope: null }
      const terms = { now: NOW + 2, wall: NOW + 2, cause: {}, maxMs: 1_000 }
      const waiting = await pushed(ledger)
      await ledger.cancel(waiting.id, NOW + 1)
      const later = await pushed(ledger)
      const delay = { dueAt: NOW + 60_000, retryQueueMs: 60_000, outbox: null }
      await plant({ id: later.id, state: 'retryable', attempt: 1, ...delay })
      const done = await native()
      await ledger.applyReports([eventOf(done.id, { event: 'completed', result: null })], REPORT)
      await ledger.bulk.act([waiting.id, later.id, done.id], steering, terms)
      const { cancelled } = await ledger.read.tombstones(['default'], 9)
      expect(new Map(cancelled.map(({ id, generation }) => [id, generation]))).toEqual(
        new Map([waiting, later].map(({ id }) => [id, 0])),
      )
      // Of another life, too.
      await ledger.cancel(waiting.id, NOW + 3)
      await ledger.bulk.act([waiting.id], steering, { ...terms, now: NOW + 4 })
      expect((await ledger.read.tombstones(['default'], 1)).cancelled).toMatchObject([
        { id: waiting.id, generation: 1 },
      ])
    })
  })
}
