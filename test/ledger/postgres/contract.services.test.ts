import { amount } from '../../support/soak.ts'
import { ledgerContract, PROPERTIES, RULES } from '../contract.ts'
import { postgresHarnesses } from './harness.ts'

/** The parts of the contract that the ledger on PostgreSQL keeps, by their names. */
const KEPT = [
  'enqueueContract',
  'claimContract',
  'leaseContract',
  'endContract',
  'batchContract',
  'scheduleContract',
  'failContract',
  'retryQueueContract',
  'copyContract',
  'retentionContract',
  'reportContract',
  'releaseContract',
  'historyContract',
  'progressContract',
  'resultContract',
  'deadLetterContract',
  'bulkContract',
  'nativeContract',
  'uniqueContract',
  'keptKeyContract',
  'concurrencyContract',
  'cronContract',
  'reportStreamContract',
  'nativeConservationContract',
  'propertyContract',
  'queueContract',
  'idleContract',
  'lostMessageContract',
  'idempotencyContract',
  'epochContract',
  'schemaContract',
  'maintenanceContract',
  'queueSettingsContract',
  'trafficContract',
  'auditContract',
  'cronContract',
  'workflowContract',
  'workflowPropertyContract',
  'searchContract',
]

const all = [...RULES, ...PROPERTIES]
const missing = all.map(({ name }) => name).filter((name) => !KEPT.includes(name))
process.stdout.write(
  `not on PostgreSQL yet, of ${all.length} parts of the contract: ${missing.join(', ')}\n`,
)

ledgerContract(
  'PostgreSQL',
  postgresHarnesses(),
  all.filter(({ name }) => KEPT.includes(name)),
  amount(1 / 50, 1),
)
