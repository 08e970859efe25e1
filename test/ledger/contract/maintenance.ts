import { describe, expect, it } from 'vitest'
import { NOW, type UnderTest } from '../harness.ts'

/** Maintenance mode, which outlives the process. */
export function maintenanceContract({ harness, ledger }: UnderTest): void {
  describe('maintenance', () => {
    const first = { startedAt: NOW, endsAt: NOW + 60_000, reason: 'move of the broker ü' }

    it('lasts until it is ended, also over a restart', async () => {
      expect(ledger.known.maintenance.current()).toBeNull()
      expect(await ledger.maintenance.end()).toBeNull()
      expect(await ledger.maintenance.begin(first)).toEqual({ maintenance: first, isNew: true })
      expect(ledger.known.maintenance.current()).toEqual(first)
      await harness.reopen()
      expect(ledger.known.maintenance.current()).toEqual(first)
      expect(await ledger.maintenance.end()).toEqual(first)
      expect(ledger.known.maintenance.current()).toBeNull()
      await harness.reopen()
      expect(ledger.known.maintenance.current()).toBeNull()
    })

    it('leaves the ledger with a size', async () => {
      const { bytes, freeBytes } = await ledger.read.size()
      expect(bytes).toBeGreaterThan(0)
      expect(freeBytes).toBeLessThan(bytes)
    })

    it('keeps its start when its reason and end change', async () => {
      await ledger.maintenance.begin(first)
      const changed = { startedAt: NOW, endsAt: null, reason: null }
      const given = { ...changed, startedAt: NOW + 5 }
      expect(await ledger.maintenance.begin(given)).toEqual({ maintenance: changed, isNew: false })
      expect(ledger.known.maintenance.current()).toEqual(changed)
    })

    it('counts changes of the same group commit in their order', async () => {
      const results = await Promise.all([
        ledger.maintenance.begin(first),
        ledger.maintenance.end(),
        ledger.maintenance.begin({ ...first, startedAt: NOW + 1 }),
      ])
      expect(results.map((result) => result !== null && 'isNew' in result && result.isNew)).toEqual(
        [true, false, true],
      )
      expect(ledger.known.maintenance.current()).toEqual({ ...first, startedAt: NOW + 1 })
    })
  })
}
