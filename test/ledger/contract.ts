import { afterEach, beforeEach, describe } from 'vitest'
import { claimContract } from './contract-claim.ts'
import { endContract } from './contract-end.ts'
import { enqueueContract } from './contract-enqueue.ts'
import { leaseContract } from './contract-lease.ts'
import { propertyContract } from './contract-properties.ts'
import type { LedgerHarness } from './harness.ts'

/** The behaviour that `src/ledger/ledger.ts` promises, for every implementation of it. */
export function ledgerContract(name: string, open: () => Promise<LedgerHarness>): void {
  describe(`${name} ledger`, () => {
    let current: LedgerHarness
    const harness = () => current
    beforeEach(async () => {
      current = await open()
    })
    afterEach(() => current.destroy())

    enqueueContract(harness)
    claimContract(harness)
    leaseContract(harness)
    endContract(harness)
    propertyContract(harness)
  })
}
