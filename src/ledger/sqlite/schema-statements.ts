import type { SchemaRecord, SchemaSummary } from '../schemas.ts'
import type { Database } from './driver.ts'

export type SchemaStatements = ReturnType<typeof prepareSchemaStatements>

/** The statements of `schemas.ts`. */
export function prepareSchemaStatements(db: Pick<Database, 'prepare'>) {
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
