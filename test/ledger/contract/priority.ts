import { describe, expect, it } from 'vitest'
import { toNewJob } from '../../../src/job/envelope.ts'
import type { JobRow, NewJob } from '../../../src/job/job.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  fenceOf,
  fetched,
  jobMessage,
  NOW,
  owedBy,
  pushed,
  settleLazily,
  TERMS,
  type UnderTest,
} from '../harness.ts'

const DO = { now: NOW + 5, cause: { requestId: 'r1', principal: 'ops' }, mayReplace: true }

/** Another priority for jobs that wait. */
export function priorityContract({ ledger, row, plant }: UnderTest): void {
  const stored = async (given: Partial<NewJob> = {}): Promise<JobRow> => {
    const job = newJob(given)
    await ledger.insert(job, NOW)
    return await row(job.id)
  }
  const tombstones = async (queue: string) =>
    (await ledger.read.tombstones([queue], 10)).cancelled.map(({ id, generation }) => [
      id,
      generation,
    ])

  describe('prioritize', () => {
    it.each([
      { state: 'pending', dueAt: null },
      { state: 'scheduled', dueAt: NOW + 1_000 },
    ] as const)('changes only the row of a job that is $state', async (start) => {
      const before = await stored({ start, priority: 1 })
      const done = await ledger.prioritize(before.id, 7, { ...DO, mayReplace: false })
      expect(done).toMatchObject({ outcome: 'prioritized', isReplaced: false, before })
      const { envelope, ...rest } = await row(before.id)
      expect({ ...rest, envelope: before.envelope }).toEqual({ ...before, priority: 7 })
      expect(JSON.parse(envelope)).toEqual({ ...JSON.parse(before.envelope), priority: 7 })
      expect(await tombstones(before.queue)).toEqual([])
    })

    it('keeps everything else of the envelope, to the byte', async () => {
      const request = {
        type: 'a',
        args: [1e21, 'ä\u2028', { b: [] }],
        x: { 7: 1, y: null },
        3: true,
      }
      const job = toNewJob(request, {
        ...{ newId: () => newJob().id, now: NOW, wall: NOW, timeoutMs: 30_000, prefix: '' },
      })
      await ledger.insert(job, NOW)
      await ledger.prioritize(job.id, -3, DO)
      const { envelope } = await row(job.id)
      expect(job.envelope).toContain('"priority":0')
      expect(envelope).toBe(job.envelope.replace('"priority":0', '"priority":-3'))
    })

    it('lets an available job go on in the next generation, with a fresh nonce', async () => {
      const { id, outbox } = await pushed(ledger, { queue: 'prio' })
      ledger.confirmed(outbox)
      const done = await ledger.prioritize(id, 9, DO)
      if (done.outcome !== 'prioritized') throw new Error(done.outcome)
      expect(done).toMatchObject({ isReplaced: true, before: { priority: 0, generation: 0 } })
      expect(done.job).toMatchObject({
        ...{ state: 'available', priority: 9, generation: 1, attempt: 0, messageOut: true },
        enqueuedAt: NOW,
      })
      expect(done.job.outbox).toBeGreaterThan(outbox)
      expect(await row(id)).toEqual(done.job)
      expect(await ledger.read.outboxPage(outbox, 10)).toEqual([owedBy(done.job)])
      // Native workers are told that the message before is void, and no more.
      expect(await tombstones('prio')).toEqual([[id, 0]])
      const again = await ledger.prioritize(id, 8, DO)
      expect(again).toMatchObject({ job: { generation: 2 } })
      expect(await tombstones('prio')).toEqual([[id, 1]])
      const [old] = await ledger.claim([jobMessage(id, { generation: 1 })], TERMS)
      expect(old?.verdict).toBe('drop')
      const [next] = await ledger.claim([jobMessage(id, { generation: 2 })], TERMS)
      expect(next).toMatchObject({ verdict: 'claimed', job: { priority: 8, attempt: 1 } })
    })

    it('goes on telling native workers of the void message when the id is pushed once more', async () => {
      const { id } = await pushed(ledger, { queue: 'prio' })
      await ledger.prioritize(id, 9, DO)
      const again = await ledger.insert(newJob({ id, queue: 'prio' }), NOW)
      expect(again).toEqual({ outcome: 'duplicate' })
      expect(await tombstones('prio')).toEqual([[id, 0]])
    })

    it('takes a scheduled job back from the exchange of the delay plugin', async () => {
      const { id } = await stored({ start: { state: 'scheduled', dueAt: NOW + 9_000 } })
      await ledger.sendAhead(NOW + 10_000, 10)
      const sent = await row(id)
      expect(sent).toMatchObject({ outbox: expect.any(Number), retryQueueMs: 0 })
      ledger.confirmed(sent.outbox ?? 0)
      await settleLazily(ledger)
      expect(await row(id)).toMatchObject({ outbox: null, retryQueueMs: 0 })
      await ledger.prioritize(id, 2, DO)
      expect(await row(id)).toMatchObject({
        ...{ state: 'scheduled', priority: 2, generation: 1, outbox: null, retryQueueMs: null },
        dueAt: NOW + 9_000,
      })
      const [due] = await ledger.promote(NOW, NOW + 9_001, 10)
      expect(due).toMatchObject({ id, generation: 1, priority: 2, outbox: expect.any(Number) })
    })

    it('changes nothing if the priority is the same', async () => {
      const before = await stored({ priority: 4 })
      const done = await ledger.prioritize(before.id, 4, DO)
      expect(done).toEqual({ outcome: 'prioritized', job: before, before, isReplaced: false })
      expect(await row(before.id)).toEqual(before)
    })

    it('leaves a job with a message alone if it may not replace it', async () => {
      const before = await stored()
      const terms = { ...DO, mayReplace: false }
      expect(await ledger.prioritize(before.id, 1, terms)).toMatchObject({ outcome: 'message_out' })
      expect(await row(before.id)).toEqual(before)
    })

    it('puts a job that its key holds back in its new place in the line, without a message', async () => {
      const carry = { concurrency: { key: 'prio', limit: 1 } }
      const runs = await fetched(ledger, { carry })
      const [first, second] = [await pushed(ledger, { carry }), await pushed(ledger, { carry })]
      expect(await ledger.prioritize(second.id, 1, DO)).toMatchObject({ isReplaced: false })
      expect(await row(second.id)).toMatchObject({ generation: 0, outbox: null, holder: 'ledger' })
      await ledger.complete(runs.id, fenceOf(runs), { now: NOW + 9, result: null })
      expect(await row(second.id)).toMatchObject({ holder: null, outbox: expect.any(Number) })
      expect(await row(first.id)).toMatchObject({ holder: 'ledger' })
    })

    it('refuses jobs that run or are over, those of a native worker, and unknown ones', async () => {
      const runs = await fetched(ledger)
      const native = await stored()
      await plant({ id: native.id, holder: 'native', messageOut: true, outbox: null })
      const outcomes = [
        await ledger.prioritize(runs.id, 1, DO),
        await ledger.prioritize(native.id, 1, DO),
        await ledger.prioritize('unknown', 1, DO),
      ].map(({ outcome }) => outcome)
      expect(outcomes).toEqual(['state', 'with_native', 'not_found'])
      expect(await row(runs.id)).toEqual(runs)
      await ledger.cancel(runs.id, NOW)
      expect(await ledger.prioritize(runs.id, 1, DO)).toMatchObject({ outcome: 'state' })
    })

    it('is in the history, with who asked', async () => {
      const { id } = await stored()
      await ledger.prioritize(id, 1, DO)
      const changes = (await ledger.read.history.find(id))?.changes
      expect(changes?.at(-1)).toMatchObject({
        ...{ from: 'available', to: 'available', reason: 'priority_changed', attempt: 0 },
        ...{ at: NOW + 5, requestId: 'r1', principal: 'ops' },
      })
    })
  })
}
