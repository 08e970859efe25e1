/** Registered schemas, in a table of their own. */
import type { KeyedRequest } from '../../idempotency.ts'
import type { KnownSchemas } from '../../known.ts'
import type { SchemaReads } from '../../reads.ts'
import type { SchemaInserted, SchemaLedger, SchemaRecord, SchemaSummary } from '../../schemas.ts'
import type { Access } from '../commit/access.ts'
import { type Database, onlyRow } from '../sql/driver.ts'
import type { Statements } from '../sql/statements.ts'
import { unlessRemembered } from './idempotency.ts'

export class SqliteSchemas implements SchemaLedger, SchemaReads, KnownSchemas {
  readonly #access: Access
  readonly #keys: Statements
  readonly #statements: ReturnType<typeof prepareSchemaStatements>

  constructor(access: Access, db: Database, keys: Statements) {
    this.#access = access
    this.#keys = keys
    this.#statements = prepareSchemaStatements(db)
  }

  insert(schema: SchemaRecord, max: number, request?: KeyedRequest): Promise<SchemaInserted> {
    const { uri, createdAt } = schema
    const answerOf = ({ outcome }: SchemaInserted) =>
      outcome === 'inserted' ? { ids: [uri], existing: [] } : null
    return this.#access.writeMany(1, () =>
      unlessRemembered(
        this.#keys,
        { request, now: createdAt },
        () => this.#insert(schema, max),
        answerOf,
      ),
    )
  }

  delete(uri: string): Promise<boolean> {
    return this.#access.write(() => this.#statements.delete.run(uri).changes === 1)
  }

  find(uri: string): Promise<SchemaRecord | null> {
    return this.#access.ask(() => this.#find(uri))
  }

  registration(uri: string): number | null {
    return this.#access.read(() => this.#statements.registration.get(uri)?.registration ?? null)
  }

  content(uri: string): string | null {
    return this.#access.read(() => this.#find(uri)?.content ?? null)
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
    this.#statements.insert.run(uri, type, number, text, content, createdAt)
    return { outcome: 'inserted' }
  }

  #find(uri: string): SchemaRecord | null {
    return this.#statements.find.get(uri) ?? null
  }

  #count(): number {
    return onlyRow(this.#statements.count.get()).count
  }
}

export function prepareSchemaStatements(db: Database) {
  return {
    insert: db.prepare<
      [uri: string, type: string, version: number, text: string | null, content: string, at: number]
    >(`INSERT INTO schemas (uri, type, version, version_text, content, created_at)
      VALUES (?, ?, ?, ?, ?, ?)`),
    delete: db.prepare<[uri: string]>('DELETE FROM schemas WHERE uri = ?'),
    find: db.prepare<
      [uri: string],
      SchemaRecord
    >(`SELECT uri, type, ifnull(version_text, version) AS version, content, created_at AS createdAt
      FROM schemas WHERE uri = ?`),
    registration: db.prepare<[uri: string], { registration: number }>(
      'SELECT registration FROM schemas WHERE uri = ?',
    ),
    count: db.prepare<[], { count: number }>('SELECT count(*) AS count FROM schemas'),
    page: db.prepare<
      [limit: number, offset: number],
      SchemaSummary
    >(`SELECT uri, type, ifnull(version_text, version) AS version, created_at AS createdAt
      FROM schemas ORDER BY registration LIMIT ? OFFSET ?`),
  }
}
