import type { SchemaInserted, SchemaLedger, SchemaRecord, SchemaSummary } from '../schemas.ts'
import type { Access } from './access.ts'
import { type Database, onlyRow } from './driver.ts'
import { prepareSchemaStatements, type SchemaStatements } from './schema-statements.ts'

/** Registered schemas, in a table of their own. */
export class SqliteSchemas implements SchemaLedger {
  readonly #access: Access
  readonly #statements: SchemaStatements

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
