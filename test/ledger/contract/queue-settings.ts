import { describe, expect, it } from 'vitest'
import { newJob } from '../../support/gateway/jobs.ts'
import { NOW, type UnderTest } from '../harness.ts'

const RETRY = { max_attempts: 7, initial_interval: 'PT2S' }

/** What operators set for a queue: it outlives the process, and goes with the queue. */
export function queueSettingsContract({ harness, ledger }: UnderTest): void {
  describe('queue settings', () => {
    it('drain: from one time on until it is ended, also over a restart', async () => {
      expect(ledger.known.queueSettings.of('mail')).toBeNull()
      expect(await ledger.queueSettings.endDrain('mail')).toBe(false)
      expect(await ledger.queueSettings.drain('mail', NOW)).toEqual({ since: NOW, isNew: true })
      const again = await ledger.queueSettings.drain('mail', NOW + 5)
      expect(again).toEqual({ since: NOW, isNew: false })
      expect(ledger.known.hasQueue('mail')).toBe(true)
      await harness.reopen()
      expect(ledger.known.queueSettings.of('mail')?.drainingAt).toBe(NOW)
      expect(ledger.known.queueSettings.of('other')).toBeNull()
      expect(await ledger.queueSettings.endDrain('mail')).toBe(true)
      expect(ledger.known.queueSettings.of('mail')).toBeNull()
    })

    it('configuration: members that are not named stay, null unsets one', async () => {
      const set = await ledger.queueSettings.configure('mail', { defaultRetry: RETRY }, NOW)
      expect(set).toEqual({ defaultRetry: RETRY, maxSize: null, maxSizeBytes: null })
      await ledger.queueSettings.configure('mail', { maxSize: 10 }, NOW)
      await ledger.queueSettings.drain('mail', NOW)
      await harness.reopen()
      expect(ledger.known.queueSettings.of('mail')).toEqual({
        drainingAt: NOW,
        configuration: { defaultRetry: RETRY, maxSize: 10, maxSizeBytes: null },
      })
      await ledger.queueSettings.endDrain('mail')
      await ledger.queueSettings.configure('mail', { defaultRetry: null, maxSize: null }, NOW)
      expect(ledger.known.queueSettings.of('mail')).toBeNull()
      await harness.reopen()
      expect(ledger.known.queueSettings.of('mail')).toBeNull()
    })

    it('counts changes of the same group commit in their order', async () => {
      const done = await Promise.all([
        ledger.queueSettings.configure('mail', { maxSize: 1 }, NOW),
        ledger.queueSettings.configure('mail', { maxSizeBytes: 2 }, NOW),
        ledger.queueSettings.drain('mail', NOW),
        ledger.queueSettings.endDrain('mail'),
      ])
      expect(done[1]).toEqual({ defaultRetry: null, maxSize: 1, maxSizeBytes: 2 })
      expect(done[3]).toBe(true)
      expect(ledger.known.queueSettings.of('mail')?.drainingAt).toBeNull()
      expect(ledger.known.queueSettings.of('mail')?.configuration.maxSizeBytes).toBe(2)
    })

    it('a queue with settings is not idle, and can be deleted; the settings go with it', async () => {
      await ledger.queueSettings.configure('mail', { maxSize: 1 }, NOW)
      await ledger.queueSettings.drain('mail', NOW)
      await ledger.pauses.pause('mail', NOW)
      expect(ledger.known.idle.isIdle('mail')).toBe(false)
      expect(ledger.known.idle.isEmpty('mail')).toBe(true)
      expect(await ledger.idle.forget('mail')).toBe(false)
      expect(await ledger.idle.delete('mail')).toBe(true)
      expect(await ledger.idle.delete('mail')).toBe(false)
      const isGone = () => {
        expect(ledger.known.hasQueue('mail')).toBe(false)
        expect(ledger.known.queueSettings.of('mail')).toBeNull()
        expect(ledger.known.pauses.since('mail')).toBeNull()
        expect(ledger.known.pauses.owed().has('mail')).toBe(false)
      }
      isGone()
      await harness.reopen()
      isGone()
    })

    it('a queue with a job that is not over is neither empty nor deleted', async () => {
      const job = newJob({ queue: 'mail' })
      await ledger.recordQueue('mail', NOW)
      // In the same group: the fence is the row's, not the memory's.
      const [, isDeleted] = await Promise.all([ledger.insert(job, NOW), ledger.idle.delete('mail')])
      expect(isDeleted).toBe(false)
      expect(ledger.known.idle.isEmpty('mail')).toBe(false)
      expect(ledger.known.hasQueue('mail')).toBe(true)
      await ledger.cancel(job.id, NOW)
      expect(ledger.known.idle.isEmpty('mail')).toBe(true)
      expect(await ledger.idle.delete('mail')).toBe(true)
    })
  })
}
