/** Statements for registered schemas. */
import type { SchemaRecord, SchemaSummary } from '../../schemas.ts'
import type { Database } from './driver.ts'

export type SchemaStatements = ReturnType<typeof prepareSchemas>

/** A registered uri, and the number of its registration. */
interface Registration {
  uri: string
  registration: number
}

export function prepareSchemas(db: Database) {
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
    registrations: db.prepare<[], Registration>('SELECT uri, registration FROM schemas'),
    content: db.prepare<[registration: number], { content: string }>(
      'SELECT content FROM schemas WHERE registration = ?',
    ),
    count: db.prepare<[], { count: number }>('SELECT count(*) AS count FROM schemas'),
    page: db.prepare<
      [limit: number, offset: number],
      SchemaSummary
    >(`SELECT uri, type, ifnull(version_text, version) AS version, created_at AS createdAt
      FROM schemas ORDER BY registration LIMIT ? OFFSET ?`),
  }
}
