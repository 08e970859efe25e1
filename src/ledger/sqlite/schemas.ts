import type { SchemaInserted, SchemaLedger, SchemaRecord, SchemaSummary } from '../schemas.ts'
import type { Access } from './access.ts'
import { type Database, onlyRow } from './driver.ts'

/** Registered schemas, in a table of their own. */
export class SqliteSchemas implements SchemaLedger {
  readonly #access: Access
  readonly #statements: ReturnType<typeof prepareSchemaStatements>

  constructor(access: Access, db: Database) {
    this.#access = access
    this.#statements = prepareSchemaStatements(db)
  }

  insert(schema: SchemaRecord, max: number): Promise<SchemaInserted> {
    const { uri, type, version, content, createdAt } = schema
    return this.#access.write((): SchemaInserted => {
      const existing = this.#find(uri)
      if (existing) return { outcome: 'taken', existing }
      if (this.#count() >= max) return { outcome: 'full' }
      this.#statements.insert.run(uri, type, version, content, createdAt)
      return { outcome: 'inserted' }
    })
  }

  delete(uri: string): Promise<boolean> {
    return this.#access.write(() => this.#statements.delete.run(uri).changes === 1)
  }

  find(uri: string): SchemaRecord | null {
    return this.#access.read(() => this.#find(uri))
  }

  registration(uri: string): number | null {
    return this.#access.read(() => this.#statements.registration.get(uri)?.registration ?? null)
  }

  list(limit: number, offset: number): { schemas: SchemaSummary[]; total: number } {
    return this.#access.read(() => {
      return { schemas: this.#statements.page.all(limit, offset), total: this.#count() }
    })
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
      [uri: string, type: string, version: number, content: string, createdAt: number]
    >(`INSERT INTO schemas (uri, type, version, content, created_at)
      VALUES (?, ?, ?, ?, ?)`),
    delete: db.prepare<[uri: string]>('DELETE FROM schemas WHERE uri = ?'),
    find: db.prepare<
      [uri: string],
      SchemaRecord
    >(`SELECT uri, type, version, content, created_at AS createdAt
      FROM schemas WHERE uri = ?`),
    registration: db.prepare<[uri: string], { registration: number }>(
      'SELECT registration FROM schemas WHERE uri = ?',
    ),
    count: db.prepare<[], { count: number }>('SELECT count(*) AS count FROM schemas'),
    page: db.prepare<
      [limit: number, offset: number],
      SchemaSummary
    >(`SELECT uri, type, version, created_at AS createdAt
      FROM schemas ORDER BY registration LIMIT ? OFFSET ?`),
  }
}
