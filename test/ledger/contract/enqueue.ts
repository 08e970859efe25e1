import { describe, expect, it } from 'vitest'
import type { JobRow, RowState } from '../../../src/job/job.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import {
  asked,
  fenceOf,
  fetched,
  giveBack,
  insertedOf,
  jobMessage,
  NOW,
  owedBy,
  pushed,
  settleLazily,
  TERMS,
  type UnderTest,
} from '../harness.ts'

/** PUSH, the outbox and the queues. */
export function enqueueContract({ harness, ledger, row, plant }: UnderTest): void {
  describe('insert', () => {
    it('stores an available job at attempt 0 that owes a job message', async () => {
      const job = newJob({
        queue: 'email',
        priority: -7,
        maxAttempts: 9,
        visibilityTimeoutMs: 5000,
        timeoutMs: 0,
        expiresAt: NOW + 99,
        envelope: '{"args":["\\u0000 \\"ü\\" \u2028 😀"]}',
        carry: { traceparent: '00-1', tags: ['a', 'b'], headers: { x: { y: [1, null] } } },
      })
      const inserted = insertedOf(await ledger.insert(job, NOW))
      expect(inserted).toMatchObject({ generation: 0, enqueuedAt: NOW })
      expect(await row(job.id)).toEqual({
        ...asked(job),
        generation: 0,
        state: 'available',
        attempt: 0,
        outbox: inserted.outbox,
        messageOut: true,
        holder: null,
        workerId: null,
        leaseMs: null,
        leaseExpiresAt: null,
        timeoutAt: null,
        dueAt: null,
        retryQueueMs: null,
        retryDelayMs: null,
        activatedAt: null,
        isDeadLetter: false,
        enqueuedAt: NOW,
        startedAt: null,
        completedAt: null,
        cancelledAt: null,
        discardedAt: null,
        result: null,
        error: null,
        errors: null,
        deadLetterCopied: false,
      })
      expect(ledger.known.counts('email').available).toBe(1)
    })

    it('hands out increasing nonces, also after a restart', async () => {
      const first = await pushed(ledger)
      const second = await pushed(ledger)
      ledger.confirmed(second.outbox)
      await harness.reopen()
      const third = await pushed(ledger)
      expect(second.outbox).toBeGreaterThan(first.outbox)
      expect(third.outbox).toBeGreaterThan(second.outbox)
      expect(Number.isSafeInteger(third.outbox)).toBe(true)
    })

    it.each<RowState>(['available', 'active', 'completed', 'cancelled', 'discarded'])(
      'refuses the id of a job that is %s',
      async (state) => {
        const { id } = await pushed(ledger)
        await plant({ id, state })
        const before = await row(id)
        const other = newJob({ id, queue: 'other', envelope: '{}' })
        expect(await ledger.insert(other, NOW + 1)).toEqual({ outcome: 'duplicate' })
        expect(await row(id)).toEqual(before)
        expect(ledger.known.counts('other').available).toBe(0)
        expect(ledger.known.queues().map((queue) => queue.name)).not.toContain('other')
      },
    )

    it('stores the id of a withdrawn job again, one generation later', async () => {
      const { id, outbox } = await pushed(ledger, { queue: 'first', expiresAt: 1, priority: 3 })
      await ledger.withdraw(id, outbox)
      await plant({ id, retryQueueMs: 250, retryDelayMs: 250, holder: 'native', createdAt: 1 })
      const leases = { visibilityTimeoutMs: 7_000, timeoutMs: 8_000 }
      const again = newJob({ id, queue: 'second', carry: { tags: ['t'] }, ...leases })
      const inserted = insertedOf(await ledger.insert(again, NOW + 5))
      expect(inserted).toMatchObject({ generation: 1, enqueuedAt: NOW + 5 })
      expect(inserted.outbox).toBeGreaterThan(outbox)
      expect(await row(id)).toMatchObject({
        ...asked(again),
        generation: 1,
        state: 'available',
        attempt: 0,
        outbox: inserted.outbox,
        messageOut: true,
        holder: null,
        retryQueueMs: null,
        retryDelayMs: null,
        enqueuedAt: NOW + 5,
      })
      expect(ledger.known.counts('first').available).toBe(0)
      expect(ledger.known.counts('second').available).toBe(1)
      expect(await harness.inspect()).toEqual([])
    })

    it('stores only the first of two jobs with the same id', async () => {
      const id = newJob().id
      const both = [newJob({ id, queue: 'a' }), newJob({ id, queue: 'b' })]
      const outcomes = await Promise.all(both.map((job) => ledger.insert(job, NOW)))
      expect(outcomes.map(({ outcome }) => outcome)).toEqual(['inserted', 'duplicate'])
      expect((await row(id)).queue).toBe('a')
    })
  })

  describe('confirmed', () => {
    it('clears the outbox and leaves messageOut set', async () => {
      const { id, outbox } = await pushed(ledger)
      ledger.confirmed(outbox)
      await settleLazily(ledger)
      expect(await row(id)).toMatchObject({ outbox: null, messageOut: true, state: 'available' })
    })

    it('clears each of two job messages that are confirmed one after the other', async () => {
      for (const { id, outbox } of [await pushed(ledger), await pushed(ledger)]) {
        ledger.confirmed(outbox)
        await settleLazily(ledger)
        expect((await row(id)).outbox).toBeNull()
      }
    })

    it('clears a job message that was owed before a restart', async () => {
      const { id, outbox } = await pushed(ledger)
      await harness.reopen()
      ledger.confirmed(outbox)
      await settleLazily(ledger)
      expect(await row(id)).toMatchObject({ outbox: null, state: 'available' })
    })

    it('does not clear a newer nonce', async () => {
      const { id, outbox } = await pushed(ledger, { queue: 'q' })
      await ledger.rearm('q', NOW)
      const rearmed = (await row(id)).outbox
      ledger.confirmed(outbox)
      await settleLazily(ledger)
      expect((await row(id)).outbox).toBe(rearmed)
    })

    it('clears exactly the confirmed nonces, in any order', async () => {
      const jobs = [await pushed(ledger), await pushed(ledger), await pushed(ledger)]
      jobs.push(await pushed(ledger), await pushed(ledger), await pushed(ledger))
      for (const [index, { outbox }] of [...jobs.entries()].reverse()) {
        if ([0, 2, 3, 5].includes(index)) ledger.confirmed(outbox)
      }
      await settleLazily(ledger)
      const owed = [false, true, false, false, true, false]
      expect(
        await Promise.all(jobs.map(async ({ id }) => (await row(id)).outbox !== null)),
      ).toEqual(owed)
      expect(await ledger.read.owedMessages(10)).toBe(2)
    })

    it('is written although no call waits for it', async () => {
      const { id, outbox } = await pushed(ledger)
      ledger.confirmed(outbox)
      await expect.poll(async () => (await row(id)).outbox, { interval: 5 }).toBeNull()
    })
  })

  describe('withdraw', () => {
    it('hides the row from every count and from the relay', async () => {
      const { id, outbox } = await pushed(ledger)
      expect(await ledger.withdraw(id, outbox)).toBe(true)
      expect(await row(id)).toMatchObject({ state: 'withdrawn', outbox: null, attempt: 0 })
      // The row may stay as long as its queue, because the job message may still arrive. So it must be small.
      expect(await row(id)).toMatchObject({ envelope: '{}', carry: null })
      expect(Object.values(ledger.known.counts('default')).every((count) => count === 0)).toBe(true)
      expect(await ledger.read.outboxPage(0, 10)).toEqual([])
    })

    it.each<[string, Partial<JobRow>]>([
      ['claimed once', { attempt: 1 }],
      ['confirmed', { outbox: null }],
      ['re-armed', { outbox: 77 }],
      ['active', { state: 'active' }],
    ])('does nothing when the row is %s', async (_, change) => {
      const { id, outbox } = await pushed(ledger)
      await plant({ id, ...change } as { id: string })
      const before = await row(id)
      expect(await ledger.withdraw(id, outbox)).toBe(false)
      expect(await row(id)).toEqual(before)
    })

    it('excludes a claim of the same job in one group commit: the first call wins', async () => {
      const [a, b] = [await pushed(ledger), await pushed(ledger)]
      const [withdrawn, [late]] = await Promise.all([
        ledger.withdraw(a.id, a.outbox),
        ledger.claim([jobMessage(a.id)], TERMS),
      ])
      expect([withdrawn, late?.verdict]).toEqual([true, 'drop'])
      const [[early], refused] = await Promise.all([
        ledger.claim([jobMessage(b.id)], TERMS),
        ledger.withdraw(b.id, b.outbox),
      ])
      expect([early?.verdict, refused]).toEqual(['claimed', false])
    })
  })

  describe('rearm', () => {
    it('counts the deliveries of the queue as lost, so a job that is released later owes a job message', async () => {
      const { id } = await pushed(ledger)
      const [claimed] = await ledger.claim([jobMessage(id)], TERMS)
      expect(claimed?.verdict).toBe('claimed')
      expect(await ledger.rearm('default', NOW)).toBe(0)
      expect(await row(id)).toMatchObject({ state: 'active', holder: 'ledger', outbox: null })
      const released = await giveBack(ledger, id, fenceOf(await row(id)))
      expect(released).toMatchObject({ state: 'available', attempt: 0 })
      expect((await ledger.read.outboxPage(0, 10)).map((owed) => owed.id)).toEqual([id])
    })

    it('leaves the leases of other queues unchanged', async () => {
      const other = await fetched(ledger, { queue: 'other' })
      await fetched(ledger, { queue: 'lost' })
      await ledger.rearm('lost', NOW)
      expect(await row(other.id)).toEqual(other)
    })

    it('counts the job messages of native workers as lost, because nobody gives them back', async () => {
      const [running, silent] = [await pushed(ledger), await pushed(ledger)]
      const lease = { leaseMs: 30_000, leaseExpiresAt: NOW + 30_000 }
      await plant({ id: running.id, state: 'active', attempt: 1, holder: 'native', ...lease })
      await plant({ id: silent.id, attempt: 1, holder: 'native' })
      expect(ledger.known.claimable('default')).toBe(0)
      expect(await ledger.rearm('default', NOW)).toBe(1)
      expect(await row(running.id)).toMatchObject({ state: 'active', holder: 'ledger' })
      expect(await row(silent.id)).toMatchObject({ state: 'available', attempt: 1, holder: null })
      expect((await row(silent.id)).outbox).toBeGreaterThan(silent.outbox)
      expect(ledger.known.claimable('default')).toBe(1)
    })

    it('owes a new job message for each available job of the queue, in their order', async () => {
      const jobs = await Promise.all(
        Array.from({ length: 2500 }, () => pushed(ledger, { queue: 'q' })),
      )
      const elsewhere = await pushed(ledger, { queue: 'other' })
      const newest = elsewhere.outbox
      expect(await ledger.rearm('q', NOW)).toBe(2500)
      const owed = await ledger.read.outboxPage(newest, 5000)
      expect(owed.map(({ id }) => id)).toEqual(jobs.map(({ id }) => id))
      expect((await row(elsewhere.id)).outbox).toBe(newest)
    })

    it('owes no new job message for a job that is stored while rearm pages, because its own publish is under way', async () => {
      const jobs = Array.from({ length: 1001 }, () => newJob({ queue: 'q' }))
      await ledger.insertAll(jobs, NOW)
      const [rearmed, late] = await Promise.all([
        ledger.rearm('q', NOW),
        pushed(ledger, { queue: 'q' }),
      ])
      expect(rearmed).toBe(1001)
      expect((await row(late.id)).outbox).toBe(late.outbox)
    })

    it('owes a new job message for a job whose job message was confirmed long ago', async () => {
      const { id, outbox } = await pushed(ledger)
      ledger.confirmed(outbox)
      expect(await ledger.rearm('default', NOW)).toBe(1)
      expect((await row(id)).outbox).toBeGreaterThan(outbox)
    })

    it.each<[string, object]>([
      ['active', { state: 'active' }],
      ['retryable', { state: 'retryable' }],
      ['scheduled', { state: 'scheduled' }],
      ['pending', { state: 'pending' }],
    ])('leaves a job unchanged that is %s', async (_, change) => {
      const { id } = await pushed(ledger)
      await plant({ id, ...change })
      const before = await row(id)
      expect(await ledger.rearm('default', NOW)).toBe(0)
      expect(await row(id)).toEqual(before)
    })

    it('clears messageOut of an ended job whose job message was in the queue', async () => {
      const jobs = await Promise.all(Array.from({ length: 3 }, () => pushed(ledger)))
      const [queued, waited, waiting] = jobs.map(({ id }) => id) as [string, string, string]
      await plant({ id: waited, state: 'retryable', dueAt: NOW })
      await plant({ id: waiting, state: 'retryable', dueAt: NOW + 1 })
      await Promise.all(jobs.map(({ id }) => ledger.cancel(id, NOW)))
      expect(await ledger.rearm('default', NOW)).toBe(0)
      expect([(await row(queued)).messageOut, (await row(waited)).messageOut]).toEqual([
        false,
        false,
      ])
      // This job message is in a delay queue and comes back from there.
      expect((await row(waiting)).messageOut).toBe(true)
    })

    it('clears messageOut of more ended jobs than one page holds', async () => {
      const jobs = Array.from({ length: 1001 }, () => newJob({ queue: 'q' }))
      await ledger.insertAll(jobs, NOW)
      await Promise.all(jobs.map(({ id }) => ledger.cancel(id, NOW)))
      await ledger.rearm('q', NOW)
      const rows = await Promise.all(jobs.map(({ id }) => row(id)))
      expect(rows.filter(({ messageOut }) => messageOut)).toEqual([])
    })

    it('forgets the identity of this queue only, with its last page', async () => {
      const jobs = Array.from({ length: 1001 }, () => newJob({ queue: 'q' }))
      await ledger.insertAll([...jobs, newJob({ queue: 'other' })], NOW)
      for (const queue of ['q', 'other', 'unheard-of'])
        await ledger.recordIdentity(queue, `m-${queue}`)
      const paged = ledger.rearm('q', NOW)
      expect(await ledger.read.queueIdentity('q')).toBe('m-q')
      await paged
      expect(await ledger.read.queueIdentity('q')).toBe(null)
      expect(await ledger.read.queueIdentity('other')).toBe('m-other')
      expect(await ledger.read.queueIdentity('unheard-of')).toBe(null)
    })

    it('forgets when it ends that this queue was lost, and no other queue', async () => {
      await ledger.insertAll([newJob({ queue: 'other' }), newJob({ queue: 'q' })], NOW)
      for (const queue of ['other', 'q', 'unheard-of']) await ledger.lost.mark(queue, NOW)
      await ledger.lost.mark('q', NOW + 1)
      expect(ledger.known.lost.all()).toEqual(['other', 'q', 'unheard-of'])
      await harness.reopen()
      expect(ledger.known.lost.all()).toEqual(['other', 'q'])
      expect(['other', 'q', 'unheard-of'].map((q) => ledger.known.lost.has(q))).toEqual([
        true,
        true,
        false,
      ])
      const rearming = ledger.rearm('q', NOW)
      expect(ledger.known.lost.has('q')).toBe(true)
      await rearming
      expect(ledger.known.lost.all()).toEqual(['other'])
      await harness.reopen()
      expect(ledger.known.lost.all()).toEqual(['other'])
    })

    it('called twice at once leaves only the later nonce owed', async () => {
      const { id, outbox } = await pushed(ledger)
      expect(
        await Promise.all([ledger.rearm('default', NOW), ledger.rearm('default', NOW)]),
      ).toEqual([1, 1])
      expect((await row(id)).outbox).toBe(outbox + 2)
      expect(await ledger.read.outboxPage(0, 10)).toHaveLength(1)
    })
  })

  describe('outboxPage', () => {
    it('returns the rows that owe a job message in pages, oldest nonce first', async () => {
      const jobs = await Promise.all(Array.from({ length: 5 }, () => pushed(ledger)))
      const ids = jobs.map(({ id }) => id)
      const first = await ledger.read.outboxPage(0, 2)
      expect(first.map(({ id }) => id)).toEqual(ids.slice(0, 2))
      const rest = await ledger.read.outboxPage(first.at(-1)?.outbox ?? 0, 10)
      expect(rest.map(({ id }) => id)).toEqual(ids.slice(2))
      expect(rest[0]).toEqual(owedBy(await row(ids[2] ?? '')))
    })
  })

  describe('owed', () => {
    it('returns the rows that owe these messages now, oldest nonce first', async () => {
      const jobs = [await pushed(ledger), await pushed(ledger), await pushed(ledger)]
      const [first, gone, last] = jobs.map(({ outbox }) => outbox) as [number, number, number]
      await ledger.withdraw(jobs[1]?.id ?? '', gone)
      const rows = [await row(jobs[0]?.id ?? ''), await row(jobs[2]?.id ?? '')]
      expect(await ledger.read.owed([last, gone, last + 1, first])).toEqual(rows)
      expect(await ledger.read.owed([])).toEqual([])
    })

    it('returns no row for a nonce that another has replaced', async () => {
      const { id, outbox } = await pushed(ledger)
      await ledger.cancel(id, NOW)
      expect(await ledger.read.owed([outbox])).toEqual([])
      const cancelled = await row(id)
      expect(await ledger.read.owed([cancelled.outbox ?? 0])).toEqual([cancelled])
    })

    it('omits a row whose confirm waits for its group commit', async () => {
      const { outbox } = await pushed(ledger)
      ledger.confirmed(outbox)
      expect(await ledger.read.owed([outbox])).toEqual([])
    })
  })

  describe('outboxPage, right after a confirm', () => {
    it('omits a row whose confirm waits for its group commit', async () => {
      const { outbox } = await pushed(ledger)
      ledger.confirmed(outbox ?? 0)
      expect(await ledger.read.outboxPage(0, 10)).toEqual([])
    })

    it('looks beyond a page of such rows', async () => {
      const confirmed = await Promise.all(Array.from({ length: 5 }, () => pushed(ledger)))
      const { id } = await pushed(ledger)
      for (const job of confirmed) ledger.confirmed(job.outbox)
      expect((await ledger.read.outboxPage(0, 2)).map((owed) => owed.id)).toEqual([id])
    })
  })

  describe('owedMessages', () => {
    it('counts the rows that owe a job message, up to a limit', async () => {
      expect(await ledger.read.owedMessages(10)).toBe(0)
      const jobs = await Promise.all(Array.from({ length: 5 }, () => pushed(ledger)))
      expect(await ledger.read.owedMessages(10)).toBe(5)
      expect(await ledger.read.owedMessages(3)).toBe(3)
      ledger.confirmed(jobs[0]?.outbox ?? 0)
      await ledger.withdraw(jobs[1]?.id ?? '', jobs[1]?.outbox ?? 0)
      expect(await ledger.read.owedMessages(10)).toBe(3)
    })

    it('counts those of some queues, of cancels or of all others, among three times as many', async () => {
      const all = { a: 3, b: 2 }
      for (const [queue, count] of Object.entries(all))
        for (let i = 0; i < count; i++) await pushed(ledger, { queue })
      const { id } = await pushed(ledger, { queue: 'a' })
      await ledger.cancel(id, NOW)
      const owed = (queues: string[], ofCancels = false, atMost = 9) =>
        ledger.read.owedMessages(atMost, { queues, ofCancels })
      expect([await owed(['a']), await owed(['b']), await owed(['a', 'b'])]).toEqual([3, 2, 5])
      expect([await owed(['a'], true), await owed(['b'], true)]).toEqual([1, 0])
      expect([await owed([]), await owed(['c']), await owed(['a', 'b'], false, 3)]).toEqual([
        0, 0, 3,
      ])
      // There are more than it looks at.
      expect([await owed(['c'], false, 2), await owed(['c'], false, 3)]).toEqual([2, 0])
    })
  })

  describe('queues', () => {
    it('are remembered once each, in order', async () => {
      await ledger.recordQueue('b', NOW)
      await pushed(ledger, { queue: 'a' })
      await Promise.all([ledger.recordQueue('c', NOW + 1), ledger.recordQueue('c', NOW + 2)])
      await ledger.recordQueue('b', NOW + 3)
      const expected = [
        { name: 'b', createdAt: NOW },
        { name: 'a', createdAt: NOW },
        { name: 'c', createdAt: NOW + 1 },
      ]
      expect(ledger.known.queues()).toEqual(expected)
      await harness.reopen()
      expect(ledger.known.queues()).toEqual(expected)
    })

    it('are unwritten from just before their declaration until RabbitMQ has them', async () => {
      await ledger.recordQueue('found', NOW)
      const names = ['found', 'new', 'written', 'unheard-of']
      const unwritten = () => names.filter((queue) => ledger.known.unwritten.has(queue))
      const marked = ['new', 'written'].map((queue) => ledger.unwritten.mark(queue))
      expect(unwritten()).toEqual([])
      await Promise.all(marked)
      expect(unwritten()).toEqual(['new', 'written'])
      for (const queue of ['written', 'found', 'unheard-of']) await ledger.unwritten.settle(queue)
      expect(unwritten()).toEqual(['new'])
      expect(ledger.known.queues()).toEqual([{ name: 'found', createdAt: NOW }])
      await harness.reopen()
      expect(unwritten()).toEqual(['new'])
      // An operator deleted the queue, and the gateway declares it anew.
      await ledger.unwritten.mark('written')
      expect(unwritten()).toEqual(['new', 'written'])
      // The queue is marked again in the group commit that settles it.
      await Promise.all([ledger.unwritten.settle('written'), ledger.unwritten.mark('written')])
      expect(unwritten()).toEqual(['new', 'written'])
      await harness.reopen()
      expect(unwritten()).toEqual(['new', 'written'])
    })
  })
}
