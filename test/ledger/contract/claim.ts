import { describe, expect, it } from 'vitest'
import { OjsError } from '../../../src/errors.ts'
import type { JobRow } from '../../../src/job/job.ts'
import type { ClaimResult } from '../../../src/ledger/leases.ts'
import { arrivalCells, type Cell, NOW as CLOCK, WALL } from '../../job/arrival-table.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  asked,
  FAILED,
  failAttempt,
  fenceOf,
  fetched,
  jobMessage,
  NOW,
  pushed,
  TERMS,
  type UnderTest,
} from '../harness.ts'

/** FETCH: what the arrival table decides, committed to the ledger. */
export function claimContract({ harness, ledger, row, plant }: UnderTest): void {
  describe('claim', () => {
    it('starts the next attempt of an available job', async () => {
      const { id } = await pushed(ledger, { queue: 'q', timeoutMs: 4000 })
      const before = await row(id)
      const [result] = await ledger.claim([jobMessage(id)], { ...TERMS, now: NOW + 50 })
      expect(result).toEqual({
        verdict: 'claimed',
        job: {
          ...before,
          state: 'active',
          attempt: 1,
          outbox: null,
          holder: 'gateway',
          workerId: 'worker-1',
          leaseMs: 30_000,
          leaseExpiresAt: NOW + 30_050,
          timeoutAt: NOW + 4050,
          startedAt: NOW + 50,
        },
      })
      expect(result).toMatchObject({ job: await row(id) })
      expect(ledger.known.counts('q')).toMatchObject({ available: 0, active: 1 })
    })

    it.each([
      { job: null, fetch: null, lease: 30_000 },
      { job: 5000, fetch: null, lease: 5000 },
      { job: 5000, fetch: 1000, lease: 1000 },
      { job: null, fetch: 1000, lease: 1000 },
    ])('leases for $lease ms when the job says $job and FETCH $fetch', async (given) => {
      const { id } = await pushed(ledger, { visibilityTimeoutMs: given.job })
      await ledger.claim([jobMessage(id)], { ...TERMS, leaseMs: given.fetch })
      expect(await row(id)).toMatchObject({
        leaseMs: given.lease,
        leaseExpiresAt: NOW + given.lease,
      })
    })

    it('sets no execution timeout for timeout 0', async () => {
      expect((await fetched(ledger, { timeoutMs: 0 })).timeoutAt).toBeNull()
    })

    it('returns its results in the order of the job messages', async () => {
      const [first, gone, last] = [newJob().id, await pushed(ledger), await pushed(ledger)]
      await ledger.cancel(gone.id, NOW)
      const adopt = () => newJob({ id: first })
      const jobMessages = [jobMessage(first, { adopt }), jobMessage(gone.id), jobMessage(last.id)]
      const results = await ledger.claim(jobMessages, TERMS)
      expect(results.map(idAndVerdict)).toEqual([
        [first, 'claimed'],
        [gone.id, 'drop'],
        [last.id, 'claimed'],
      ])
    })

    it('applies the first job message of a job before it decides on the second', async () => {
      const { id } = await pushed(ledger)
      const results = await ledger.claim([jobMessage(id), jobMessage(id)], TERMS)
      expect(results.map((result) => result.verdict)).toEqual(['claimed', 'hand-over'])
      expect(await row(id)).toMatchObject({ attempt: 1, holder: 'ledger' })
    })

    it('gives the job to the first of two claims in one group commit', async () => {
      const { id } = await pushed(ledger)
      const claim = (workerId: string) => ledger.claim([jobMessage(id)], { ...TERMS, workerId })
      const [[first], [second]] = await Promise.all([claim('a'), claim('b')])
      expect([first?.verdict, second?.verdict]).toEqual(['claimed', 'hand-over'])
      expect((await row(id)).workerId).toBe('a')
    })

    it('starts a due retry that nobody has promoted yet, and keeps its last error', async () => {
      const job = await fetched(ledger)
      const to = { to: 'retryable', dueAt: NOW + 200, delayMs: 100, retryQueueMs: null } as const
      await failAttempt(ledger, job.id, fenceOf(job), { ...FAILED, ...to, isMessageBack: true })
      const terms = { ...TERMS, now: NOW + 200 }
      const [result] = await ledger.claim([jobMessage(job.id, { attempt: 2 })], terms)
      expect(result).toMatchObject({ verdict: 'claimed', promoted: true, job: await row(job.id) })
      const { error, errors } = FAILED
      expect(await row(job.id)).toMatchObject({ attempt: 2, enqueuedAt: NOW + 200, error, errors })
    })

    it('records the failure that the job message reports of the previous attempt', async () => {
      const { id } = await pushed(ledger)
      const reportedError = () => ({ code: 'smtp_down', message: 'no route' })
      await ledger.claim([jobMessage(id, { attempt: 2, reportedError })], TERMS)
      const { error, errors } = await row(id)
      expect(JSON.parse(error ?? '')).toMatchObject({ attempt: 1, code: 'smtp_down' })
      expect(JSON.parse(errors ?? '')).toHaveLength(1)
    })

    it.each([
      ['its generation', 1],
      ['a later generation', 2],
    ])(
      'commits exactly what the arrival table says, for job messages of %s',
      async (_, generation) => {
        const cells = arrivalCells()
        const jobs = await Promise.all(cells.map(() => pushed(ledger, { queue: 'q' })))
        const rows = cells.map(({ row }, i) => ({ id: jobs[i]?.id ?? '', ...row, outbox: null }))
        await plant(...rows)
        const terms = { ...TERMS, now: CLOCK, wall: WALL }
        for (const [i, cell] of cells.entries()) {
          const { id = '' } = jobs[i] ?? {}
          const before = await row(id)
          const { isHeldDelivery } = cell.context
          const arriving = jobMessage(id, { ...cell.jobMessage, generation, isHeldDelivery })
          const [stale] = await ledger.claim([{ ...arriving, generation: 0 }], terms)
          expect(stale, cell.name).toEqual({ verdict: 'drop', job: before })
          expect(await row(id), cell.name).toEqual(before)

          const [result] = await ledger.claim([arriving], terms)
          expect(result, cell.name).toMatchObject(expectedResult(cell))
          const after = await row(id)
          if (result && 'job' in result) expect(result.job, cell.name).toEqual(after)
          const expected = { ...before, ...expectedChange(cell), error: after.error }
          expect({ ...after, errors: attemptsIn(after), outbox: null }, cell.name).toEqual(expected)
          expect(after.outbox !== null, cell.name).toBe(cell.expected.do === 'rearm')
        }
        expect(ledger.known.counts('q')).toEqual((await harness.recount()).states.get('q'))
        expect(await harness.inspect()).toEqual([])
      },
    )
  })

  describe('adoption of an unknown job', () => {
    it('stores the job and its queue, and claims the job in the same commit', async () => {
      const job = newJob({ queue: 'native', carry: { headers: { a: 1 } } })
      const adopt = () => job
      const [result] = await ledger.claim([jobMessage(job.id, { attempt: 2, adopt })], TERMS)
      const adopted = await row(job.id)
      expect(result).toEqual({ verdict: 'claimed', job: adopted })
      expect(adopted).toMatchObject({ ...asked(job), state: 'active', attempt: 2, generation: 0 })
      expect(adopted).toMatchObject({
        outbox: null,
        messageOut: true,
        errors: null,
        enqueuedAt: NOW,
      })
      expect(ledger.known.queues()).toEqual([{ name: 'native', createdAt: NOW }])
      expect(ledger.known.counts('native')).toMatchObject({ available: 0, active: 1 })
    })

    it.each([
      ['runs the next attempt', 2, { state: 'active', attempt: 2 }],
      ['discards the job when that attempt was its last', 4, { state: 'discarded', attempt: 3 }],
    ])(
      'records the failure that the job message reports of the previous attempt, and %s',
      async (_, attempt, fate) => {
        const job = newJob({ maxAttempts: 3 })
        const reportedError = () => ({ code: 'smtp_down', message: 'no route' })
        await ledger.claim(
          [jobMessage(job.id, { attempt, adopt: () => job, reportedError })],
          TERMS,
        )
        const { error, errors, ...rest } = await row(job.id)
        expect(rest).toMatchObject(fate)
        const before = { attempt: attempt - 1, code: 'smtp_down', message: 'no route' }
        expect(JSON.parse(errors ?? '')).toMatchObject([before])
        expect(JSON.parse(error ?? '')).toMatchObject(before)
      },
    )

    it.each([
      ['the time of its creation', NOW - 5_000, NOW - 5_000],
      ['the present time when its creation lies in the future', NOW + 5_000, NOW],
    ])('sets enqueuedAt to %s', async (_what, createdAt, enqueuedAt) => {
      const job = { ...newJob(), createdAt }
      await ledger.claim([jobMessage(job.id, { adopt: () => job })], TERMS)
      expect(await row(job.id)).toMatchObject({ createdAt, enqueuedAt, startedAt: NOW })
    })

    it('takes over the generation of the job message, so that job messages of earlier generations stay stale', async () => {
      const job = newJob()
      const adopt = () => job
      await ledger.claim([jobMessage(job.id, { generation: 3, adopt })], TERMS)
      expect((await row(job.id)).generation).toBe(3)
    })

    it.each<[string, number, Partial<JobRow>, Partial<JobRow>]>([
      ['expired', 1, { expiresAt: NOW }, { completedAt: null, deadLetterCopied: true }],
      ['exhausted', 4, { maxAttempts: 3 }, { completedAt: NOW, deadLetterCopied: false }],
    ])('stores an %s job as discarded', async (verdict, attempt, given, expected) => {
      const job = newJob({ queue: 'q', ...given } as object)
      const [result] = await ledger.claim(
        [jobMessage(job.id, { attempt, adopt: () => job })],
        TERMS,
      )
      expect(result?.verdict).toBe(verdict)
      const ended = { state: 'discarded', discardedAt: NOW, attempt: attempt - 1, ...expected }
      expect(await row(job.id)).toMatchObject(ended)
      expect(ledger.known.counts('q')).toMatchObject({ available: 0, discarded: 1 })
    })

    it.each(['bad', 'a\0b'])('stores nothing for a body that is not a job: %j', async (id) => {
      const good = await pushed(ledger)
      const error = new OjsError('invalid_request', 'no type')
      const bad = jobMessage(id, {
        adopt: () => {
          throw error
        },
      })
      const other = jobMessage('other', { adopt: () => newJob({ queue: 'lost' }) })
      const results = await ledger.claim([bad, jobMessage(good.id), other], TERMS)
      expect(results[0]).toEqual({ verdict: 'malformed', error })
      expect(results.map((result) => result.verdict)).toEqual(['malformed', 'claimed', 'malformed'])
      expect(await ledger.read.find(id)).toBeNull()
      expect(await ledger.read.standing(id)).toBeNull()
      expect(await ledger.read.isTombstoned(id)).toBe(false)
      expect(await ledger.read.find('other')).toBeNull()
      expect(ledger.known.queues().map(({ name }) => name)).toEqual(['default'])
    })

    it('reports only the message whose body hits a bug as malformed, and claims the others', async () => {
      const mine = await pushed(ledger)
      const buggy = jobMessage('x', {
        adopt: () => {
          throw new RangeError('Invalid time value')
        },
      })
      const results = await ledger.claim([jobMessage(mine.id), buggy], TERMS)
      expect(results.map(({ verdict }) => verdict)).toEqual(['claimed', 'malformed'])
      expect(await ledger.read.find('x')).toBeNull()
      expect(ledger.known.fault()).toBeNull()
    })

    it('gives the job to the first of two job messages in one group commit', async () => {
      const job = newJob()
      const adopt = () => job
      const claim = () => ledger.claim([jobMessage(job.id, { adopt })], TERMS)
      const [[first], [second]] = await Promise.all([claim(), claim()])
      expect([first?.verdict, second?.verdict]).toEqual(['claimed', 'hand-over'])
    })
  })
}

function idAndVerdict(result: ClaimResult): [string, string] {
  return ['job' in result ? result.job.id : '', result.verdict]
}

function attemptsIn(row: JobRow): number[] | null {
  if (row.errors === null) return null
  return (JSON.parse(row.errors) as { attempt: number }[]).map(({ attempt }) => attempt)
}

function expectedResult({ expected }: Cell): Partial<ClaimResult> {
  switch (expected.do) {
    case 'claim':
      return { verdict: 'claimed' }
    case 'exhaust':
      return { verdict: 'exhausted' }
    case 'expire':
      return { verdict: 'expired' }
    case 'rearm':
      return { verdict: 'rearmed' }
    case 'hold':
      return { verdict: 'hold', until: expected.until }
    default:
      return { verdict: expected.do }
  }
}

/** The columns that the cell changes in its row; every other column must keep its value. */
function expectedChange({ expected, row: { attempt } }: Cell): object {
  const errors = 'skipped' in expected && expected.skipped.length > 0 ? expected.skipped : null
  const discarded = {
    state: 'discarded',
    holder: null,
    discardedAt: CLOCK,
    leaseMs: null,
    leaseExpiresAt: null,
    timeoutAt: null,
  }
  switch (expected.do) {
    case 'claim':
      return {
        state: 'active',
        attempt: expected.attempt,
        holder: 'gateway',
        workerId: 'worker-1',
        leaseMs: 30_000,
        leaseExpiresAt: CLOCK + 30_000,
        timeoutAt: CLOCK + 30_000,
        startedAt: CLOCK,
        dueAt: null,
        errors,
        ...(expected.promote && { enqueuedAt: CLOCK }),
      }
    case 'exhaust':
      return {
        ...discarded,
        attempt: expected.skipped.at(-1) ?? attempt,
        completedAt: CLOCK,
        deadLetterCopied: false,
        isDeadLetter: true,
        errors,
      }
    case 'expire':
      return { ...discarded, completedAt: null, deadLetterCopied: true }
    case 'hand-over':
      return { holder: 'ledger' }
    default:
      return {}
  }
}
