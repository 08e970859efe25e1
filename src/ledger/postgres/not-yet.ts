/** What of the contract the ledger on PostgreSQL does not have yet. */

/** The error of a call to it. */
export function notYet(what: string): Error {
  return new Error(`the ledger on PostgreSQL has no ${what} yet`)
}

/** A part of the contract of which nothing but `own` can be called. */
export function partNotYet<T extends object>(what: string, own: Partial<T> = {}): T {
  return new Proxy(own as T, {
    get: (has, name) =>
      Reflect.get(has, name) ??
      (() => {
        throw notYet(what)
      }),
  })
}

/** What a gateway would miss. Empty when the whole contract is kept. */
const MISSING: readonly string[] = [
  ...['cron jobs', 'schemas', 'pauses', 'settings of queues', 'maintenance', 'audit records'],
  ...['idempotency keys', 'history', 'bulk operations', 'progress'],
  ...['checkpoints', 'results', 'concurrency keys', 'unique jobs', 'native workers'],
]

/** Throws before anything is written to the database. */
export function refuseIncomplete(missing = MISSING): void {
  if (missing.length === 0) return
  const parts = missing.join(', ')
  throw new Error(`OJS_LEDGER: the ledger on PostgreSQL cannot be used yet; it lacks ${parts}`)
}
