/** Which uris of schemas are registered, in memory as committed: each PUSH that names a schema asks. */
import { NotedState } from '../commit/committed-state.ts'
import type { SchemaStatements } from '../sql/schemas.ts'

interface Change {
  uri: string
  /** Null: it was deleted. */
  registration: number | null
}

/** There are at most some thousands (`SchemaLedger.insert`). */
export class SchemaRegistrations extends NotedState<Change> {
  readonly statements: SchemaStatements
  readonly #registrations = new Map<string, number>()

  constructor(statements: SchemaStatements) {
    super()
    this.statements = statements
    for (const { uri, registration } of statements.registrations.all()) {
      this.#registrations.set(uri, registration)
    }
  }

  of(uri: string): number | null {
    return this.#registrations.get(uri) ?? null
  }

  /** Inside a write: what holds after it. */
  note(uri: string, registration: number | null): void {
    this.notes.add({ uri, registration })
  }

  protected override apply(changes: readonly Change[]): void {
    for (const { uri, registration } of changes) {
      if (registration === null) this.#registrations.delete(uri)
      else this.#registrations.set(uri, registration)
    }
  }
}
