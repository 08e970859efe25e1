import { describe, expect, it } from 'vitest'
import { newJob } from '../../support/gateway/jobs.ts'
import { NOW, pushed, type UnderTest } from '../harness.ts'

/** When the ledger was used, and the epochs that RabbitMQ knows it by. */
export function epochContract({ harness, ledger }: UnderTest): void {
  const seenAt = () => ledger.read.epochs.seenAt()

  describe('the use of a ledger', () => {
    it('is noted, and remembered over a restart', async () => {
      expect(await seenAt()).toBeNull()
      await ledger.epochs.noteSeen(0)
      expect(await seenAt()).toBeNull()
      await ledger.epochs.noteSeen(NOW + 5)
      expect(await seenAt()).toBe(NOW + 5)
      await pushed(ledger, newJob({ createdAt: NOW + 100 }))
      await harness.reopen()
      expect(await seenAt()).toBe(NOW + 5)
      // A clock that was set back is believed.
      await ledger.epochs.noteSeen(NOW)
      expect(await seenAt()).toBe(NOW)
    })

    it('is told by its newest jobs, as long as nobody has noted it', async () => {
      await pushed(ledger, newJob({ createdAt: NOW }))
      await harness.reopen()
      const minute = Math.floor(NOW / 60_000) * 60_000
      expect(await seenAt()).toBeGreaterThanOrEqual(minute)
      expect(await seenAt()).toBeLessThanOrEqual(NOW)
    })

    it('has its newest epoch, and the one before it', async () => {
      expect(await ledger.read.epochs.all()).toEqual([])
      await ledger.epochs.record(NOW, 0)
      expect(await ledger.read.epochs.all()).toEqual([NOW])
      await ledger.epochs.record(NOW + 1, NOW)
      await harness.reopen()
      expect(await ledger.read.epochs.all()).toEqual([NOW + 1, NOW])
      await ledger.epochs.record(0, 0)
      expect(await ledger.read.epochs.all()).toEqual([])
    })
  })
}
