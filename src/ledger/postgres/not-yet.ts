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
