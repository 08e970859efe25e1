/** Registered schemas, in a table of their own. */
import type { KeyedRequest } from '../../idempotency.ts'
import type { KnownSchemas } from '../../known.ts'
import type { SchemaReads } from '../../reads.ts'
import type { SchemaInserted, SchemaLedger, SchemaRecord, SchemaSummary } from '../../schemas.ts'
import { unlessRemembered } from '../../writes/remembered.ts'
import type { Access } from '../commit/access.ts'
import { onlyRow } from '../sql/driver.ts'
import type { SchemaStatements } from '../sql/schemas.ts'
import type { Statements } from '../sql/statements.ts'
import type { SchemaRegistrations } from '../state/schemas.ts'
import { keysOf } from './idempotency.ts'

export class SqliteSchemas implements SchemaLedger, SchemaReads, KnownSchemas {
  readonly #access: Access
  readonly #keys: Statements
  readonly #statements: SchemaStatements
  readonly #registrations: SchemaRegistrations

  constructor(access: Access, keys: Statements, registrations: SchemaRegistrations) {
    this.#access = access
    this.#keys = keys
    this.#statements = registrations.statements
    this.#registrations = registrations
  }

  insert(schema: SchemaRecord, max: number, request?: KeyedRequest): Promise<SchemaInserted> {
    const { uri, createdAt } = schema
    const answerOf = ({ outcome }: SchemaInserted) =>
      outcome === 'inserted' ? { ids: [uri], existing: [] } : null
    return this.#access.writeMany(1, () =>
      unlessRemembered(
        keysOf(this.#keys),
        { request, now: createdAt },
        () => this.#insert(schema, max),
        answerOf,
      ),
    )
  }

  delete(uri: string): Promise<boolean> {
    return this.#access.write(() => {
      const isDeleted = this.#statements.delete.run(uri).changes === 1
      if (isDeleted) this.#registrations.note(uri, null)
      return isDeleted
    })
  }

  find(uri: string): Promise<SchemaRecord | null> {
    return this.#access.ask(() => this.#find(uri))
  }

  registration(uri: string): number | null {
    return this.#registrations.of(uri)
  }

  content(registration: number): Promise<string | null> {
    return this.#access.ask(() => this.#statements.content.get(registration)?.content ?? null)
  }

  list(limit: number, offset: number): Promise<{ schemas: SchemaSummary[]; total: number }> {
    return this.#access.ask(() => {
      return { schemas: this.#statements.page.all(limit, offset), total: this.#count() }
    })
  }

  #insert({ uri, type, version, content, createdAt }: SchemaRecord, max: number): SchemaInserted {
    const existing = this.#find(uri)
    if (existing) return { outcome: 'taken', existing }
    if (this.#count() >= max) return { outcome: 'full' }
    const [number, text] = typeof version === 'number' ? [version, null] : [0, version]
    const { lastInsertRowid } = this.#statements.insert.run(
      uri,
      type,
      number,
      text,
      content,
      createdAt,
    )
    this.#registrations.note(uri, Number(lastInsertRowid))
    return { outcome: 'inserted' }
  }

  #find(uri: string): SchemaRecord | null {
    return this.#statements.find.get(uri) ?? null
  }

  #count(): number {
    return onlyRow(this.#statements.count.get()).count
  }
}
