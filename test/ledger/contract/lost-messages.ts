import { describe, expect, it } from 'vitest'
import { newJob } from '../../support/gateway/jobs.ts'
import { jobMessage, NOW, settleLazily, TERMS, type UnderTest } from '../harness.ts'

/** Jobs whose messages RabbitMQ has lost, one by one or with their queue. */
export function lostMessageContract({ harness, ledger, row, plant }: UnderTest): void {
  /** A job whose message was confirmed. */
  async function sent(at: number, queue = 'q'): Promise<string> {
    const job = newJob({ queue })
    const inserted = await ledger.insert(job, at)
    ledger.confirmed(('outbox' in inserted && inserted.outbox) || 0)
    await settleLazily(ledger)
    return job.id
  }

  describe('lost messages', () => {
    it('are those of available jobs that owe none, within the span, oldest first', async () => {
      const [early, first, second] = [await sent(NOW), await sent(NOW + 1), await sent(NOW + 2)]
      await sent(NOW + 3)
      await sent(NOW + 1, 'other')
      const owing = newJob({ queue: 'q' })
      await ledger.insert(owing, NOW + 1)
      const running = await sent(NOW + 1)
      await ledger.claim([jobMessage(running)], TERMS)
      const native = await sent(NOW + 1)
      await plant({ id: native, holder: 'native', attempt: 1 })
      const span = { after: NOW, before: NOW + 2 }
      expect(await ledger.read.lostMessages.list('q', span, 10)).toEqual([first, second])
      expect(await ledger.read.lostMessages.list('q', span, 1)).toEqual([first])
      expect(await ledger.read.lostMessages.list('q', { after: null, before: NOW }, 9)).toEqual([
        early,
      ])
      expect(await ledger.lostMessages.rearm('q', span)).toBe(2)
      expect(await ledger.read.lostMessages.list('q', span, 10)).toEqual([])
      const owed = (await ledger.read.outboxPage(0, 10)).map(({ id }) => id)
      expect(owed).toEqual([owing.id, first, second])
      expect((await row(early)).outbox).toBeNull()
    })

    it('of more jobs than a page holds are owed in their order', async () => {
      const jobs = Array.from({ length: 2_005 }, () => newJob({ queue: 'q' }))
      const inserted = await ledger.insertAll(jobs, NOW)
      const stored = inserted.outcome === 'inserted' ? inserted.stored : []
      for (const one of stored)
        if ('outbox' in one && one.outbox !== null) ledger.confirmed(one.outbox)
      await settleLazily(ledger)
      const span = { after: null, before: NOW }
      expect(await ledger.lostMessages.rearm('q', span)).toBe(2_005)
      const first = (await ledger.read.outboxPage(0, 3)).map(({ id }) => id)
      expect(first).toEqual(jobs.slice(0, 3).map(({ id }) => id))
      expect(await ledger.read.owedMessages(9_999)).toBe(2_005)
    })
  })

  describe('a lost queue', () => {
    it('is known at once, and over a restart until its jobs are rearmed', async () => {
      const id = await sent(NOW)
      const marked = ledger.lost.mark('q', NOW)
      expect(ledger.known.lost.has('q')).toBe(true)
      await marked
      await harness.reopen()
      expect(ledger.known.lost.all()).toEqual(['q'])
      expect(await ledger.rearm('q', NOW)).toBe(1)
      expect([ledger.known.lost.has('q'), (await row(id)).outbox]).toEqual([
        false,
        expect.any(Number),
      ])
      await harness.reopen()
      expect(ledger.known.lost.all()).toEqual([])
    })
  })

  it('a lost queue that was not recorded is known over a restart when it is lost again', async () => {
    await ledger.lost.mark('q', NOW)
    await ledger.recordQueue('q', NOW)
    await ledger.lost.mark('q', NOW)
    await harness.reopen()
    expect(ledger.known.lost.all()).toEqual(['q'])
  })

  describe('an unwritten queue', () => {
    it('is known until it is settled, and is no queue of its own', async () => {
      await ledger.unwritten.mark('new')
      await ledger.unwritten.mark('new')
      expect(ledger.known.unwritten.has('new')).toBe(true)
      expect(ledger.known.hasQueue('new')).toBe(false)
      await harness.reopen()
      expect(ledger.known.unwritten.has('new')).toBe(true)
      await ledger.unwritten.settle('new')
      await ledger.unwritten.settle('new')
      await harness.reopen()
      expect(ledger.known.unwritten.has('new')).toBe(false)
    })
  })
}
