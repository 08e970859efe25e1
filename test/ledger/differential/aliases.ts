/** Makes equal what two ledgers number and name by their own choice. */
import { OjsError } from '../../../src/errors.ts'

/** Members whose numbers are a ledger's own; the order in which they first appear is not. */
const NUMBERS = new Set(['outbox', 'seq', 'registration', 'number'])
/** Of jobs that a ledger has made by itself. */
const UUID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g

export class Aliases {
  readonly #names = new Map<string, string>()

  /** The value with an alias in the place of each of them. */
  replace(value: unknown): unknown {
    if (typeof value === 'string') return value.replace(UUID, (id) => this.#nameOf('id', id))
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map((one) => this.replace(one))
    if (value instanceof Map)
      return new Map([...value].map(([key, one]) => [key, this.replace(one)]))
    if (value instanceof Error) return this.replace(failureOf(value))
    const members = Object.entries(value).toSorted(([a], [b]) => a.localeCompare(b))
    return Object.fromEntries(members.map(([name, one]) => [name, this.#member(name, one)]))
  }

  #member(name: string, value: unknown): unknown {
    if (NUMBERS.has(name) && typeof value === 'number') return this.#nameOf(name, value)
    // An idempotency key remembers an entry by its name and `seq`.
    if (name === 'ids' && Array.isArray(value) && value.every((id) => typeof id === 'string'))
      return value.map((id) => (/^\d+$/.test(id) ? this.#nameOf('seq', id) : this.replace(id)))
    return this.replace(value)
  }

  #nameOf(what: string, given: string | number): string {
    const key = `${what} ${given}`
    const name = this.#names.get(key) ?? `${what} no. ${this.#names.size + 1}`
    this.#names.set(key, name)
    return name
  }
}

function failureOf(error: Error): object {
  if (error instanceof OjsError)
    return { code: error.code, message: error.message, ...error.details }
  return { name: error.name, message: error.message, stack: error.stack }
}
