import { describe, expect, it } from 'vitest'
import { OjsError } from '../../../src/errors.ts'
import type { Holder, JobRow, RowState } from '../../../src/job/job.ts'
import type { DeadMessage } from '../../../src/ledger/native.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  asked,
  deadLetters,
  deleteDeadLetter,
  died,
  FAILED,
  failAttempt,
  fenceOf,
  fetched,
  insertedOf,
  jobMessage,
  NOW,
  owedBy,
  type Planted,
  pushed,
  revive,
  settleLazily,
  staleQueues,
  TERMS,
  type UnderTest,
} from '../harness.ts'

const TIMES = { now: NOW + 50, wall: NOW + 7_200_000 }

/** Dead letters, and how they are revived or deleted. */
export function deadLetterContract({ harness, ledger, row, plant }: UnderTest): void {
  const dead = (
    id: string,
    given: Partial<DeadMessage> & { isDeadLetter?: boolean } = {},
  ): DeadMessage => {
    const { isDeadLetter = true, ...rest } = given
    const { error, errors } = FAILED
    return {
      ...jobMessage(id),
      describe: () => ({ error, errors, isDeadLetter }),
      isExpired: false,
      wasInQueue: false,
      ...rest,
    }
  }

  describe('discardDead', () => {
    it('discards an available job whose job message died', async () => {
      const { id } = await pushed(ledger, { queue: 'q' })
      const before = await row(id)
      const result = await ledger.discardDead(dead(id), TIMES)
      expect(result).toEqual({ outcome: 'discarded', job: await row(id) })
      expect(await row(id)).toEqual({
        ...before,
        state: 'discarded',
        attempt: 1,
        outbox: null,
        messageOut: false,
        discardedAt: TIMES.now,
        completedAt: TIMES.now,
        error: FAILED.error,
        errors: FAILED.errors,
        isDeadLetter: true,
        deadLetterCopied: true,
      })
      expect(ledger.known.counts('q')).toMatchObject({ available: 0, discarded: 1 })
      expect([ledger.known.deadLetterCount('q'), staleQueues(ledger)]).toEqual([1, []])
    })

    it('counts no attempt for an expired message, and marks the queue stale when the job is not a dead letter', async () => {
      const { id } = await pushed(ledger, { queue: 'q' })
      await ledger.discardDead(dead(id, { isExpired: true, isDeadLetter: false }), TIMES)
      expect(await row(id)).toMatchObject({ state: 'discarded', attempt: 0, completedAt: null })
      expect([ledger.known.deadLetterCount('q'), staleQueues(ledger)]).toEqual([0, ['q']])
    })

    it('discards a job whose job message a native worker rejected', async () => {
      const job = await fetched(ledger)
      await plant({ id: job.id, holder: 'native' })
      const result = await ledger.discardDead(dead(job.id), TIMES)
      const ended = {
        attempt: 1,
        holder: null,
        leaseExpiresAt: null,
        timeoutAt: null,
        workerId: 'worker-1',
      }
      expect(result).toMatchObject({ outcome: 'discarded', job: ended })
      expect(ledger.known.counts('default')).toMatchObject({ active: 0, discarded: 1 })
    })

    it('keeps the number of an attempt that ran with the job message of an earlier attempt', async () => {
      const job = await fetched(ledger)
      await plant({ id: job.id, holder: 'native', attempt: 2 })
      const result = await ledger.discardDead(dead(job.id, { attempt: 1 }), TIMES)
      expect(result).toMatchObject({ outcome: 'discarded', job: { attempt: 2 } })
    })

    it.each<[string, RowState, Holder | null, number | null, number, boolean]>([
      ['a due retry is discarded', 'retryable', null, TIMES.now, 2, true],
      ['a retry that is not due is left', 'retryable', null, TIMES.now + 60_000, 2, false],
      ['a due schedule is discarded', 'scheduled', null, TIMES.wall, 2, true],
      ['a schedule that is not due is left', 'scheduled', null, TIMES.wall + 60_000, 2, false],
      [
        'a running job is left for the job message of an earlier attempt',
        'active',
        'gateway',
        null,
        0,
        false,
      ],
      [
        'an available job is discarded for the job message of a later attempt',
        'available',
        null,
        null,
        3,
        true,
      ],
      [
        'an available job is left for the job message of an earlier attempt',
        'available',
        null,
        null,
        1,
        false,
      ],
    ])(
      'decides by the state of the job and the attempt of the job message: %s',
      async (_, state, holder, dueAt, attempt, dies) => {
        const job = await fetched(ledger)
        await plant({ id: job.id, state, holder, dueAt, leaseExpiresAt: null, timeoutAt: null })
        const before = await row(job.id)
        const { outcome } = await ledger.discardDead(dead(job.id, { attempt }), TIMES)
        expect(outcome).toBe(dies ? 'discarded' : 'ignored')
        if (dies) expect(await row(job.id)).toMatchObject({ state: 'discarded', attempt })
        else expect([await row(job.id), staleQueues(ledger)]).toEqual([before, ['default']])
      },
    )

    it.each<[string, RowState]>([
      ['a retry', 'retryable'],
      ['a schedule', 'scheduled'],
    ])('discards %s before it is due when its job message died on the way', async (_, state) => {
      const { id } = await fetched(ledger)
      const lease = { holder: null, leaseExpiresAt: null, timeoutAt: null }
      await plant({ id, state, dueAt: TIMES.wall + 60_000, retryQueueMs: 60_000, ...lease })
      const { outcome } = await ledger.discardDead(dead(id, { attempt: 2 }), TIMES)
      expect(outcome).toBe('discarded')
      expect(await row(id)).toMatchObject({ state: 'discarded', attempt: 2, messageOut: false })
    })

    it.each([
      ['completed', (id: string) => ledger.complete(id, {}, { now: NOW, result: null })],
      ['cancelled', (id: string) => ledger.cancel(id, NOW)],
    ])(
      'hands a lease whose delivery was lost to the ledger, which expects no job message when the job is %s',
      async (_, end) => {
        const { id } = await fetched(ledger)
        const before = await row(id)
        expect(await ledger.discardDead(dead(id), TIMES)).toEqual({ outcome: 'ignored' })
        expect([await row(id), staleQueues(ledger)]).toEqual([
          { ...before, holder: 'ledger' },
          ['default'],
        ])
        await end(id)
        expect((await row(id)).messageOut).toBe(false)
      },
    )

    it.each([
      ['the same attempt', 2],
      ['an earlier attempt', 1],
    ])(
      'hands a native lease to the ledger when the queue drops a job message of %s',
      async (_, n) => {
        const { id } = await fetched(ledger)
        await plant({ id, holder: 'native', attempt: 2 })
        const before = await row(id)
        const dropped = dead(id, { attempt: n, wasInQueue: true })
        expect(await ledger.discardDead(dropped, TIMES)).toEqual({ outcome: 'ignored' })
        expect([await row(id), staleQueues(ledger)]).toEqual([
          { ...before, holder: 'ledger' },
          ['default'],
        ])
        const next = dead(id, { attempt: 3, wasInQueue: true })
        await plant({ id, holder: 'native' })
        expect(await ledger.discardDead(next, TIMES)).toMatchObject({ outcome: 'discarded' })
      },
    )

    it('clears messageOut of a retry that the ledger holds when its old job message dies', async () => {
      const { id } = await fetched(ledger)
      const lease = { holder: null, leaseExpiresAt: null, timeoutAt: null }
      await plant({ id, state: 'retryable', dueAt: TIMES.now + 600_000, ...lease })
      expect((await row(id)).messageOut).toBe(true)
      expect(await ledger.discardDead(dead(id), TIMES)).toEqual({ outcome: 'ignored' })
      expect(await row(id)).toMatchObject({ state: 'retryable', messageOut: false })
    })

    it.each([
      ['yes, for the same attempt', {}, 2, true],
      ['yes, for a later attempt', {}, 3, true],
      ['yes, for an earlier attempt that ran again as this one', {}, 1, true],
      ['no, for another generation', { generation: 1 }, 2, false],
    ])('records the copy of a discarded job: %s', async (_, over, attempt, isIts) => {
      const { id } = await pushed(ledger)
      await plant({ id, state: 'discarded', attempt: 2 })
      const outcome = await ledger.discardDead(dead(id, { attempt, ...over }), TIMES)
      expect(outcome).toEqual({ outcome: 'ignored' })
      expect(await row(id)).toMatchObject({ deadLetterCopied: isIts, messageOut: !isIts })
    })

    it.each([
      ['makes its queue stale when the job is not a dead letter', undefined, ['q']],
      ['is kept when the job is a dead letter', 'dead_letter', []],
    ] as const)(
      'clears messageOut for the copy of an expired job, which %s',
      async (_, onExhaustion, stale) => {
        const envelope = JSON.stringify({ retry: { on_exhaustion: onExhaustion } })
        const { id } = await pushed(ledger, { queue: 'q', expiresAt: NOW, envelope })
        await ledger.expire({ now: NOW, wall: NOW + 1, limit: 10 })
        expect(await row(id)).toMatchObject({
          state: 'discarded',
          deadLetterCopied: true,
          messageOut: true,
        })
        expect(await ledger.discardDead(dead(id), TIMES)).toEqual({ outcome: 'ignored' })
        expect((await row(id)).messageOut).toBe(false)
        expect(staleQueues(ledger)).toEqual(stale)
      },
    )

    it.each<RowState>(['completed', 'cancelled', 'withdrawn'])(
      'clears messageOut of a job that is %s, and marks the queue of the unneeded copy stale',
      async (state) => {
        const { id } = await pushed(ledger, { queue: 'q' })
        await plant({ id, state })
        const before = await row(id)
        expect(await ledger.discardDead(dead(id), TIMES)).toEqual({ outcome: 'ignored' })
        expect(await row(id)).toEqual({ ...before, messageOut: false })
        expect(staleQueues(ledger)).toEqual(['q'])
      },
    )

    it('leaves a pending job unchanged, and marks its queue stale', async () => {
      const { id } = await pushed(ledger)
      await plant({ id, state: 'pending' })
      const before = await row(id)
      expect(await ledger.discardDead(dead(id), TIMES)).toEqual({ outcome: 'ignored' })
      expect([await row(id), staleQueues(ledger)]).toEqual([before, ['default']])
    })

    it('ignores a job message of a later generation', async () => {
      const { id } = await pushed(ledger)
      const result = await ledger.discardDead(dead(id, { generation: 1 }), TIMES)
      expect(result).toEqual({ outcome: 'ignored' })
    })

    it('marks the queue stale for the copy of an earlier generation', async () => {
      const { id } = await pushed(ledger, { queue: 'q' })
      await plant({ id, generation: 1 })
      const before = await row(id)
      expect(await ledger.discardDead(dead(id), TIMES)).toEqual({ outcome: 'ignored' })
      expect([await row(id), staleQueues(ledger)]).toEqual([before, ['q']])
    })

    it('adopts an unknown job as discarded, with the attempt and the generation of its job message', async () => {
      const job = newJob({ queue: 'native' })
      const described: JobRow[] = []
      const describe = (known: JobRow) => {
        described.push(known)
        return { error: '1', errors: '[1]', isDeadLetter: true }
      }
      const arriving = dead(job.id, { attempt: 3, generation: 2, adopt: () => job, describe })
      const result = await ledger.discardDead(arriving, TIMES)
      expect(result).toEqual({ outcome: 'discarded', job: await row(job.id) })
      const ended = { state: 'discarded', attempt: 3, generation: 2, error: '1', messageOut: false }
      expect(await row(job.id)).toMatchObject({ ...asked(job), ...ended, deadLetterCopied: true })
      expect(described[0]).toMatchObject({ id: job.id, state: 'available', attempt: 2 })
      expect(ledger.known.counts('native')).toMatchObject({ available: 0, discarded: 1 })
      expect(ledger.known.queues().map(({ name }) => name)).toEqual(['native'])
    })

    it('stores nothing for a body that is not a job', async () => {
      const error = new OjsError('invalid_request', 'no type')
      const adopt = () => {
        throw error
      }
      const [bad, other] = await Promise.all([
        ledger.discardDead(dead('bad', { adopt }), TIMES),
        ledger.discardDead(dead('other', { adopt: () => newJob() }), TIMES),
      ])
      expect(bad).toEqual({ outcome: 'malformed', error })
      expect(other.outcome).toBe('malformed')
      expect([await ledger.read.find('bad'), await ledger.read.find('other')]).toEqual([null, null])
    })

    it('stores nothing when describe throws, without affecting another write of the group commit', async () => {
      const job = newJob()
      const describe = () => {
        throw new RangeError('a bug')
      }
      const [failed, beside] = await Promise.allSettled([
        ledger.discardDead(dead(job.id, { adopt: () => job, describe }), TIMES),
        ledger.insert(newJob(), NOW),
      ])
      expect([failed.status, beside.status]).toEqual(['rejected', 'fulfilled'])
      expect(await ledger.read.find(job.id)).toBeNull()
    })

    it('excludes a claim of the same job in one group commit: the first call wins', async () => {
      const [a, b] = [await pushed(ledger), await pushed(ledger)]
      const [died1, [late]] = await Promise.all([
        ledger.discardDead(dead(a.id), TIMES),
        ledger.claim([jobMessage(a.id)], TERMS),
      ])
      expect([died1.outcome, late?.verdict]).toEqual(['discarded', 'drop'])
      const [[early], ignored] = await Promise.all([
        ledger.claim([jobMessage(b.id)], TERMS),
        ledger.discardDead(dead(b.id), TIMES),
      ])
      expect([early?.verdict, ignored.outcome]).toEqual(['claimed', 'ignored'])
    })
  })

  describe('a claim that ends a job', () => {
    const retry = (policy: object) => ({ envelope: JSON.stringify({ args: [], retry: policy }) })

    it.each([
      ['exhausted, omitted', 4, {}, true],
      ['exhausted, dead_letter', 4, { on_exhaustion: 'dead_letter' }, true],
      ['exhausted, discard', 4, { on_exhaustion: 'discard' }, false],
      ['expired, omitted', 1, {}, false],
      ['expired, dead_letter', 1, { on_exhaustion: 'dead_letter' }, true],
    ] as const)(
      'makes it a dead letter as its retry policy says: %s',
      async (_, attempt, policy, isListed) => {
        const expiresAt = attempt === 1 ? NOW : null
        const { id } = await pushed(ledger, { maxAttempts: 3, expiresAt, ...retry(policy) })
        await ledger.claim([jobMessage(id, { attempt })], TERMS)
        expect(await row(id)).toMatchObject({
          state: 'discarded',
          isDeadLetter: isListed,
          messageOut: true,
        })
        expect(ledger.known.deadLetterCount()).toBe(isListed ? 1 : 0)
      },
    )

    it('sets messageOut, even when no job message was known to be out', async () => {
      const job = await fetched(ledger, { maxAttempts: 1 })
      await plant({ id: job.id, state: 'retryable', holder: null, dueAt: NOW, messageOut: false })
      const [result] = await ledger.claim([jobMessage(job.id, { attempt: 2 })], TERMS)
      expect(result?.verdict).toBe('exhausted')
      expect(await row(job.id)).toMatchObject({ deadLetterCopied: false, messageOut: true })
    })
  })

  describe('the list of dead letters', () => {
    it('has dead letters newest first, of one queue or of all, in pages', async () => {
      const jobs: JobRow[] = []
      for (const [queue, at] of Object.entries({ a: [30, 20, 30], b: [10, 50] })) {
        for (const ms of at) jobs.push(await died(ledger, { queue, now: NOW + ms }))
      }
      await died(ledger, { queue: 'a', isDeadLetter: false })
      const list = async (queue: string | null, limit = 10, offset = 0) => {
        const page = await deadLetters(ledger, queue, { limit, offset })
        const total = ledger.known.deadLetterCount(queue ?? undefined)
        return [page.map(({ id }) => jobs.findIndex((job) => job.id === id)), total]
      }
      expect(await list(null)).toEqual([[4, 2, 0, 1, 3], 5])
      expect(await list('a')).toEqual([[2, 0, 1], 3])
      expect(await list('b', 1)).toEqual([[4], 2])
      expect(await list(null, 2, 2)).toEqual([[0, 1], 5])
      expect(await list('a', 5, 2)).toEqual([[1], 3])
      expect(await list('nowhere')).toEqual([[], 0])
      expect(await deadLetters(ledger, 'a', { limit: 1 })).toEqual([jobs[2]])
      expect([ledger.known.deadLetterCount('a'), ledger.known.deadLetterCount()]).toEqual([3, 5])
      await harness.reopen()
      expect(ledger.known.deadLetterCount()).toBe(5)
    })
  })

  describe('revive', () => {
    it('starts the job over in the next generation', async () => {
      const job = await died(ledger, { queue: 'q' })
      await plant({ id: job.id, retryDelayMs: 5, retryQueueMs: 7, dueAt: 9 })
      const revived = await revive(ledger, job.id, NOW + 500)
      expect(revived).toEqual(await row(job.id))
      expect(revived).toEqual({
        ...job,
        state: 'available',
        generation: 1,
        attempt: 0,
        outbox: (await row(job.id)).outbox,
        messageOut: true,
        workerId: null,
        enqueuedAt: NOW + 500,
        startedAt: null,
        completedAt: null,
        discardedAt: null,
        error: null,
        isDeadLetter: false,
        deadLetterCopied: false,
      })
      expect(job.errors).not.toBeNull()
      expect(await ledger.read.outboxPage(0, 10)).toEqual([owedBy(await row(job.id))])
      expect(ledger.known.counts('q')).toMatchObject({ discarded: 0, available: 1 })
      expect([ledger.known.deadLetterCount('q'), staleQueues(ledger)]).toEqual([0, ['q']])
      const [old, next] = await ledger.claim(
        [jobMessage(job.id), jobMessage(job.id, { generation: 1 })],
        TERMS,
      )
      expect([old?.verdict, next?.verdict]).toEqual(['drop', 'claimed'])
    })

    it.each<[string, Partial<Planted>]>([
      ['that is not a dead letter', { isDeadLetter: false }],
      ['that is completed', { state: 'completed', isDeadLetter: false }],
    ])('is stale for a job %s', async (_, change) => {
      const job = await died(ledger)
      await plant({ id: job.id, ...change })
      const before = await row(job.id)
      expect(await revive(ledger, job.id, NOW)).toBe('stale')
      for (const other of [(await pushed(ledger)).id, (await fetched(ledger)).id, 'nobody']) {
        expect(await revive(ledger, other, NOW)).toBe('stale')
      }
      expect(await row(job.id)).toEqual(before)
      expect(staleQueues(ledger)).toEqual([])
    })

    it('as another job, with changes, is noted in the dead letter, which stays as it is', async () => {
      const job = await died(ledger, { carry: { tags: ['t'] } })
      const other = newJob()
      await ledger.insert(other, NOW, { retryOf: job.id })
      expect(await row(job.id)).toEqual({ ...job, carry: { tags: ['t'], retriedAs: other.id } })
      // Nothing is noted by a job that is not stored, or of one that is unknown.
      const twice = await ledger.insert(other, NOW, { retryOf: (await died(ledger)).id })
      expect(twice).toEqual({ outcome: 'duplicate' })
      const unknown = await ledger.insert(newJob(), NOW, { retryOf: 'unknown' })
      expect(unknown).toMatchObject({ outcome: 'inserted' })
    })

    it('keeps messageOut when the job message of the previous generation returns', async () => {
      const { id } = await died(ledger)
      await revive(ledger, id, NOW)
      await ledger.cancel(id, NOW)
      ledger.messageReturned(id, 0)
      await settleLazily(ledger)
      expect(await row(id)).toMatchObject({ state: 'cancelled', messageOut: true })
    })

    it('succeeds for the first of two calls in one group commit, and not after deleteDeadLetter', async () => {
      const [a, b] = [await died(ledger), await died(ledger)]
      const twice = await Promise.all([1, 2].map(() => revive(ledger, a.id, NOW)))
      expect(twice.map((result) => result === 'stale')).toEqual([false, true])
      const [deleted, late] = await Promise.all([
        deleteDeadLetter(ledger, b.id, NOW),
        revive(ledger, b.id, NOW),
      ])
      expect([deleted, late]).toEqual([true, 'stale'])
    })
  })

  describe('deadLetterStats', () => {
    async function ofKind(queue: string, type: string, error: object, at: number) {
      const job = await fetched(ledger, { queue, type })
      const change = { to: 'discarded', isDeadLetter: true, copy: 'publish' } as const
      const failure = { ...FAILED, now: at, error: JSON.stringify(error) }
      await failAttempt(ledger, job.id, fenceOf(job), { ...failure, ...change })
      return job.id
    }

    it('counts them by queue, type and error, and names the oldest and newest', async () => {
      await ofKind('a', 'mail', { type: 'Refused', code: 'e' }, NOW + 20)
      await ofKind('a', 'mail', { code: 'timeout' }, NOW + 30)
      await ofKind('b', 'pdf', { message: 'no name' }, NOW + 10)
      const gone = await ofKind('b', 'pdf', { type: 'Refused' }, NOW + 40)
      await deleteDeadLetter(ledger, gone, NOW)
      const plain = await fetched(ledger, { queue: 'a' })
      const end = { ...FAILED, to: 'discarded', isDeadLetter: false, copy: 'publish' } as const
      await failAttempt(ledger, plain.id, fenceOf(plain), end)
      const look = async () => {
        const all = await ledger.read.deadLetterStats([])
        expect(all).toEqual({
          ...{ total: 3, oldestAt: NOW + 10, newestAt: NOW + 30, searched: null },
          byQueue: new Map(Object.entries({ a: 2, b: 1 })),
          byType: new Map(Object.entries({ mail: 2, pdf: 1 })),
          byErrorType: new Map<string | null, number>([
            ...([
              ['Refused', 1],
              ['timeout', 1],
              [null, 1],
            ] as const),
          ]),
        })
        expect(await ledger.read.deadLetterStats(['b', 'nowhere'])).toMatchObject({
          ...{ total: 1, oldestAt: NOW + 10, newestAt: NOW + 10 },
          ...{ byQueue: new Map([['b', 1]]), byType: new Map([['pdf', 1]]) },
        })
      }
      await look()
      await harness.reopen()
      await look()
    })

    it('has no times where there are none', async () => {
      await pushed(ledger, { queue: 'a' })
      const none = { total: 0, oldestAt: null, newestAt: null, searched: null }
      const empty = { byQueue: new Map(), byType: new Map(), byErrorType: new Map() }
      expect(await ledger.read.deadLetterStats([])).toEqual({ ...none, ...empty })
      expect(await ledger.read.deadLetterStats(['a'])).toEqual({ ...none, ...empty })
    })
  })

  describe('deleteDeadLetter', () => {
    it('clears the contents of the row, and keeps its id, generation and attempt', async () => {
      const job = await died(ledger, { queue: 'q', carry: { tags: ['t'] } })
      await plant({ id: job.id, messageOut: true })
      expect(await deleteDeadLetter(ledger, job.id, NOW + 900)).toBe(true)
      const empty = { envelope: '{}', carry: null, error: null, errors: null, result: null }
      const gone = { state: 'withdrawn', isDeadLetter: false, generation: 0, attempt: 1 }
      expect(await row(job.id)).toMatchObject({ ...gone, ...empty, messageOut: true })
      expect(ledger.known.counts('q').discarded).toBe(0)
      expect([ledger.known.deadLetterCount('q'), staleQueues(ledger)]).toEqual([0, ['q']])
      const [late] = await ledger.claim([jobMessage(job.id, { attempt: 2 })], TERMS)
      expect(late?.verdict).toBe('drop')
    })

    it('keeps the id for its retention, counted from the deletion', async () => {
      const { id } = await died(ledger)
      const deletedAt = NOW + 86_400_000
      await deleteDeadLetter(ledger, id, deletedAt)
      const cutoffs = { completed: 0, cancelled: 0, discarded: 0, deadLetters: 0 }
      const prune = (withdrawn: number) => ledger.prune({ ...cutoffs, withdrawn }, deletedAt, 10)
      expect([await prune(deletedAt), await prune(deletedAt + 1)]).toEqual([0, 1])
      expect(await ledger.read.find(id)).toBeNull()
    })

    it('lets a new job use the id in the next generation, with nothing of the deleted job', async () => {
      const { id } = await died(ledger)
      await deleteDeadLetter(ledger, id, NOW)
      const job = newJob({ id })
      const inserted = insertedOf(await ledger.insert(job, NOW + 5))
      expect(inserted.generation).toBe(1)
      const never = { startedAt: null, completedAt: null, discardedAt: null, workerId: null }
      const nothing = { errors: null, error: null, deadLetterCopied: false, attempt: 0 }
      expect(await row(id)).toMatchObject({
        ...asked(job),
        ...never,
        ...nothing,
        state: 'available',
      })
    })

    it.each<RowState>(['discarded', 'completed', 'cancelled', 'available', 'withdrawn'])(
      'does nothing to a job that is %s and not a dead letter',
      async (state) => {
        const { id } = await pushed(ledger)
        await plant({ id, state })
        const before = await row(id)
        expect(await deleteDeadLetter(ledger, id, NOW)).toBe(false)
        expect(await deleteDeadLetter(ledger, 'nobody', NOW)).toBe(false)
        expect(await row(id)).toEqual(before)
      },
    )

    it('succeeds for the first of two calls in one group commit', async () => {
      const { id } = await died(ledger)
      const twice = await Promise.all([1, 2].map(() => deleteDeadLetter(ledger, id, NOW)))
      expect(twice).toEqual([true, false])
      ledger.messageReturned(id, 0)
      await settleLazily(ledger)
      expect((await row(id)).messageOut).toBe(false)
    })
  })
}
