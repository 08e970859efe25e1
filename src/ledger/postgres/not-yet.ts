/** What of the contract the ledger on PostgreSQL does not have yet. */

/** What a gateway would miss. Empty when the whole contract is kept. */
const MISSING: readonly string[] = [
  ...['schemas', 'pauses', 'settings of queues', 'maintenance', 'audit records'],
  ...['idempotency keys', 'history', 'bulk operations', 'progress'],
  ...['checkpoints', 'results', 'native workers'],
]

/** Throws before anything is written to the database. */
export function refuseIncomplete(missing = MISSING): void {
  if (missing.length === 0) return
  const parts = missing.join(', ')
  throw new Error(`OJS_LEDGER: the ledger on PostgreSQL cannot be used yet; it lacks ${parts}`)
}
