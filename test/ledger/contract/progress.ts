import { describe, expect, it } from 'vitest'
import type { JobRow } from '../../../src/job/job.ts'
import {
  copyCame,
  deleteDeadLetter,
  FAILED,
  failAttempt,
  fenceOf,
  fetched,
  jobMessage,
  NOW,
  prunedRows,
  pushed,
  revive,
  TERMS,
  type UnderTest,
} from '../harness.ts'

const LATER = NOW + 1_000
const ANY = { ofQueue: null }
const SAID = { progress: 0.5, data: '{"a":1}', message: 'm', checkpoint: null, now: LATER }
const RETRY = {
  ...FAILED,
  to: 'retryable',
  dueAt: NOW + 200,
  delayMs: 100,
  retryQueueMs: null,
  isMessageBack: true,
} as const

/** What running jobs say of themselves. */
export function progressContract({ harness, ledger, row }: UnderTest): void {
  const save = (job: Pick<JobRow, 'id'>, state: string, over: object = {}) =>
    ledger.checkpoints.save(job.id, { ...ANY, waitingToo: false, ...over }, { now: LATER, state })
  const stateOf = async (job: Pick<JobRow, 'id'>) =>
    (await ledger.read.checkpoints.find(job.id))?.state ?? null

  describe('progress.report', () => {
    it('notes what the job says and extends its lease by its own length', async () => {
      const job = await fetched(ledger)
      const reported = await ledger.progress.report(job.id, ANY, SAID)
      expect(reported).toMatchObject({
        outcome: 'noted',
        isTold: true,
        checkpoint: null,
        note: { progress: 0.5, attempt: 1 },
        lease: { id: job.id, leaseExpiresAt: LATER + 30_000 },
      })
      expect((await row(job.id)).leaseExpiresAt).toBe(LATER + 30_000)
      expect(await ledger.read.progress.find(job.id)).toEqual({
        generation: 0,
        attempt: 1,
        progress: 0.5,
        data: '{"a":1}',
        message: 'm',
        updatedAt: LATER,
        toldAt: LATER,
      })
    })

    it('saves the checkpoint that comes with it', async () => {
      const job = await fetched(ledger)
      await save(job, '1')
      const reported = await ledger.progress.report(job.id, ANY, { ...SAID, checkpoint: '2' })
      const checkpoint = { state: '2', sequence: 2, createdAt: LATER }
      expect(reported).toMatchObject({ checkpoint })
      expect(await ledger.read.checkpoints.find(job.id)).toEqual(checkpoint)
    })

    it.each([{ attempt: 2 }, { generation: 1 }, { workerId: 'other' }])(
      'changes nothing if the fence does not match: %j',
      async (fence) => {
        const job = await fetched(ledger)
        const outcome = await ledger.progress.report(job.id, { ...ANY, ...fence }, SAID)
        expect(outcome).toMatchObject({ outcome: 'stale', job: { id: job.id, state: 'active' } })
        expect(await ledger.read.progress.find(job.id)).toBe(null)
        expect(await row(job.id)).toEqual(job)
      },
    )

    it('changes nothing of a job that is not active, unknown, or of another queue', async () => {
      const waiting = await pushed(ledger)
      const job = await fetched(ledger)
      const report = (id: string, ofQueue: string | null = null) =>
        ledger.progress.report(id, { ofQueue }, { ...SAID, checkpoint: '1' })
      expect(await report(waiting.id)).toMatchObject({ outcome: 'stale' })
      expect(await report('nobody')).toEqual({ outcome: 'unknown' })
      expect(await report(job.id, 'other')).toEqual({ outcome: 'elsewhere' })
      expect(await report(job.id, 'default')).toMatchObject({ outcome: 'noted' })
      expect(await ledger.read.progress.find(waiting.id)).toBe(null)
      expect(await ledger.read.checkpoints.find(waiting.id)).toBe(null)
    })

    it('keeps what was said over a restart, and until the row is pruned', async () => {
      const job = await fetched(ledger)
      await ledger.progress.report(job.id, ANY, { ...SAID, checkpoint: '1' })
      await harness.reopen()
      await ledger.complete(job.id, {}, { now: LATER, result: null })
      expect(await ledger.read.progress.find(job.id)).toMatchObject({ progress: 0.5 })
      ledger.messageReturned(job.id, 0)
      expect(await prunedRows({ ledger })).toBe(1)
      expect(await ledger.read.progress.find(job.id)).toBe(null)
    })
  })

  describe('progress.present', () => {
    it('has what was reported in the present attempts of the jobs, and nothing of others', async () => {
      const { present } = ledger.read.progress
      const of = async (...ids: string[]) => [...(await present.call(ledger.read.progress, ids))]
      expect(await of('nobody')).toEqual([])
      const [said, silent, failed, other] = await Promise.all([
        fetched(ledger),
        fetched(ledger),
        fetched(ledger),
        fetched(ledger),
      ])
      for (const { id } of [said, failed, other]) await ledger.progress.report(id, ANY, SAID)
      const note = await ledger.read.progress.find(said.id)
      expect(await of(said.id, silent.id, 'nobody')).toEqual([[said.id, note]])
      await failAttempt(ledger, failed.id, fenceOf(failed), RETRY)
      expect((await of(failed.id)).map(([id]) => id)).toEqual([failed.id])
      await ledger.claim([jobMessage(failed.id, { attempt: 2 })], { ...TERMS, now: NOW + 300 })
      expect(await of(failed.id)).toEqual([])
      await ledger.complete(said.id, {}, { now: LATER, result: null })
      expect(new Set((await of(said.id, other.id)).map(([id]) => id))).toEqual(
        new Set([said.id, other.id]),
      )
    })
  })

  describe('checkpoints', () => {
    it('are replaced, with the next sequence; a deleted one begins again', async () => {
      const job = await fetched(ledger)
      expect(await ledger.read.checkpoints.find(job.id)).toBe(null)
      for (const sequence of [1, 2, 3]) {
        expect(await save(job, `${sequence}`)).toMatchObject({
          outcome: 'saved',
          checkpoint: { state: `${sequence}`, sequence, createdAt: LATER },
          lease: { leaseExpiresAt: LATER + 30_000 },
        })
      }
      expect(await ledger.checkpoints.remove(job.id)).toBe(true)
      expect(await ledger.checkpoints.remove(job.id)).toBe(false)
      expect(await save(job, '4')).toMatchObject({ checkpoint: { sequence: 1 } })
    })

    it('come with the next claim, after a failure, a lost lease, and a restart', async () => {
      const job = await fetched(ledger)
      await save(job, '{"page":1}')
      await failAttempt(ledger, job.id, fenceOf(job), RETRY)
      await harness.reopen()
      await ledger.promote(NOW + 300, NOW + 300, 10)
      const [second] = await ledger.claim([jobMessage(job.id, { attempt: 2 })], TERMS)
      const checkpoint = { state: '{"page":1}', sequence: 1, createdAt: LATER }
      expect(second).toMatchObject({ verdict: 'claimed', job: { attempt: 2, checkpoint } })
      await failAttempt(
        ledger,
        job.id,
        { generation: 0, attempt: 2 },
        { ...FAILED, to: 'available' },
      )
      const [third] = await ledger.claim([jobMessage(job.id, { attempt: 3 })], TERMS)
      expect(third).toMatchObject({ verdict: 'claimed', job: { attempt: 3, checkpoint } })
      const [other] = await ledger.claim([jobMessage((await pushed(ledger)).id)], TERMS)
      expect(other).toMatchObject({ verdict: 'claimed' })
      expect(other).not.toHaveProperty('job.checkpoint')
    })

    it('come with the claim of a retry that nobody has promoted', async () => {
      const job = await fetched(ledger)
      await save(job, '1')
      await failAttempt(ledger, job.id, fenceOf(job), RETRY)
      const due = { ...TERMS, now: RETRY.dueAt, wall: RETRY.dueAt }
      const [claimed] = await ledger.claim([jobMessage(job.id, { attempt: 2 })], due)
      expect(claimed).toMatchObject({ promoted: true, job: { checkpoint: { state: '1' } } })
    })

    it.each([{ attempt: 2 }, { generation: 1 }, { workerId: 'other' }, { ofQueue: 'other' }])(
      'are not saved if the fence does not match: %j',
      async (fence) => {
        const job = await fetched(ledger)
        expect(await save(job, '1', fence)).not.toMatchObject({ outcome: 'saved' })
        expect(await stateOf(job)).toBe(null)
        expect(await row(job.id)).toEqual(job)
      },
    )

    it('are saved while the job waits only if that is asked for, and never after its end', async () => {
      const waiting = await pushed(ledger)
      expect(await save(waiting, '1')).toMatchObject({ outcome: 'stale' })
      const saved = await save(waiting, '1', { waitingToo: true })
      expect(saved).toMatchObject({ outcome: 'saved', lease: null })
      await ledger.cancel(waiting.id, NOW)
      expect(await save(waiting, '2', { waitingToo: true })).toMatchObject({ outcome: 'stale' })
      expect(await save({ id: 'nobody' }, '2', { waitingToo: true })).toEqual({
        outcome: 'unknown',
      })
      expect(await stateOf(waiting)).toBe(null)
    })

    it('go in the write that ends the job', async () => {
      const ends: ((job: JobRow) => Promise<unknown>)[] = [
        (job) => ledger.complete(job.id, {}, { now: LATER, result: null }),
        (job) => ledger.cancel(job.id, LATER),
        (job) =>
          failAttempt(ledger, job.id, fenceOf(job), {
            ...FAILED,
            to: 'discarded',
            isDeadLetter: false,
            copy: 'nack',
          }),
      ]
      for (const end of ends) {
        const job = await fetched(ledger)
        await save(job, '1')
        await end(job)
        expect(await stateOf(job)).toBe(null)
      }
    })

    it('stay with a dead letter: its retry goes on from there, its deletion takes them along', async () => {
      const dead = async () => {
        const job = await fetched(ledger)
        await save(job, '1')
        const change = { ...FAILED, to: 'discarded', isDeadLetter: true, copy: 'nack' } as const
        await failAttempt(ledger, job.id, fenceOf(job), change)
        return job
      }
      const [retried, deleted] = [await dead(), await dead()]
      await revive(ledger, retried.id, LATER)
      const [claimed] = await ledger.claim([jobMessage(retried.id, { generation: 1 })], TERMS)
      expect(claimed).toMatchObject({ job: { generation: 1, checkpoint: { state: '1' } } })
      await deleteDeadLetter(ledger, deleted.id, LATER)
      expect(await stateOf(deleted)).toBe(null)
    })

    it('of a withdrawn job go with it, also of one of a batch', async () => {
      const [one, other] = [await pushed(ledger), await pushed(ledger)]
      for (const job of [one, other]) await save(job, '1', { waitingToo: true })
      await ledger.withdraw(one.id, one.outbox)
      await ledger.withdrawAll([{ id: other.id, generation: 0 }])
      expect([await stateOf(one), await stateOf(other)]).toEqual([null, null])
    })

    it('of a dead letter go when retention takes it', async () => {
      const job = await fetched(ledger)
      await save(job, '1')
      const change = { ...FAILED, to: 'discarded', isDeadLetter: true, copy: 'nack' } as const
      await failAttempt(ledger, job.id, fenceOf(job), change)
      await copyCame(ledger, job.id, 0)
      ledger.messageReturned(job.id, 0)
      expect(await stateOf(job)).toBe('1')
      expect(await prunedRows({ ledger })).toBe(1)
      expect(await stateOf(job)).toBe(null)
    })
  })
}
