import { afterEach, beforeEach, describe, expect } from 'vitest'
import { late } from '../support/time/late.ts'
import { auditContract } from './contract/audit.ts'
import { batchContract } from './contract/batch.ts'
import { bulkContract } from './contract/bulk.ts'
import { claimContract } from './contract/claim.ts'
import { concurrencyContract } from './contract/concurrency.ts'
import { copyContract } from './contract/copies.ts'
import { cronContract } from './contract/cron.ts'
import { deadLetterContract } from './contract/dead-letters.ts'
import { endContract } from './contract/end.ts'
import { enqueueContract } from './contract/enqueue.ts'
import { epochContract } from './contract/epochs.ts'
import { failContract } from './contract/fail.ts'
import { historyContract } from './contract/history.ts'
import { idempotencyContract } from './contract/idempotency.ts'
import { idleContract } from './contract/idle-queues.ts'
import { keptKeyContract } from './contract/kept-keys.ts'
import { leaseContract } from './contract/lease.ts'
import { lostMessageContract } from './contract/lost-messages.ts'
import { maintenanceContract } from './contract/maintenance.ts'
import { nativeContract } from './contract/native.ts'
import { priorityContract } from './contract/priority.ts'
import { progressContract } from './contract/progress.ts'
import { queueSettingsContract } from './contract/queue-settings.ts'
import { queueContract } from './contract/queues.ts'
import { releaseContract } from './contract/releases.ts'
import { reportStreamContract } from './contract/report-stream.ts'
import { reportContract } from './contract/reports.ts'
import { resultContract } from './contract/results.ts'
import { retentionContract } from './contract/retention.ts'
import { retryQueueContract } from './contract/retry-queues.ts'
import { scheduleContract } from './contract/schedule.ts'
import { schemaContract } from './contract/schemas.ts'
import { searchContract } from './contract/search.ts'
import { togetherContract } from './contract/together.ts'
import { trafficContract } from './contract/traffic.ts'
import { uniqueContract } from './contract/unique.ts'
import { workflowContract } from './contract/workflows.ts'
import { expectCounts, type LedgerHarness, rowOf, type UnderTest } from './harness.ts'
import { conservationContract } from './properties/conservation.ts'
import { nativeConservationContract } from './properties/native-conservation.ts'
import { propertyContract } from './properties/properties.ts'
import { workflowPropertyContract } from './properties/workflow-properties.ts'

type Part = (underTest: UnderTest) => void

export const RULES: readonly Part[] = [
  enqueueContract,
  claimContract,
  leaseContract,
  endContract,
  batchContract,
  scheduleContract,
  cronContract,
  failContract,
  retryQueueContract,
  schemaContract,
  deadLetterContract,
  bulkContract,
  copyContract,
  retentionContract,
  reportContract,
  releaseContract,
  nativeContract,
  queueContract,
  idleContract,
  lostMessageContract,
  idempotencyContract,
  epochContract,
  maintenanceContract,
  queueSettingsContract,
  uniqueContract,
  keptKeyContract,
  historyContract,
  trafficContract,
  workflowContract,
  priorityContract,
  resultContract,
  progressContract,
  searchContract,
  concurrencyContract,
  auditContract,
]

/** Tests of many random sequences each, which take as long as all other tests together. */
export const PROPERTIES: readonly Part[] = [
  reportStreamContract,
  workflowPropertyContract,
  propertyContract,
  togetherContract,
  conservationContract,
  nativeConservationContract,
]

/**
 * The behaviour that `src/ledger/ledger.ts` promises, for every implementation of it. `share`: of the runs of a random
 * test, where each costs more than with SQLite.
 */
export function ledgerContract(
  name: string,
  open: () => Promise<LedgerHarness>,
  parts: readonly Part[],
  share = 1,
): void {
  describe(`${name} ledger`, () => {
    let current: LedgerHarness
    const harness = late(() => current)
    const ledger = late(() => current.ledger)
    const underTest: UnderTest = {
      harness,
      ledger,
      row: (id) => rowOf(ledger, id),
      plant: (...rows) => current.plant(rows),
      runs: (usual) => Math.max(1, Math.round(usual * share)),
    }
    beforeEach(async () => {
      current = await open()
    })
    afterEach(async () => {
      // After every test, the totals that the ledger keeps must equal what a count of the rows finds.
      await expectCounts(current)
      expect(await current.inspect()).toEqual([])
      await current.destroy()
    })

    for (const part of parts) part(underTest)
  })
}
