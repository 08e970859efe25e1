import type { Database } from './driver.ts'

export type SchemaStatements = ReturnType<typeof prepareSchemaStatements>

/** The statements of `schemas.ts`. */
export function prepareSchemaStatements(db: Pick<Database, 'prepare'>) {
  return {
    insert: db.prepare(`INSERT INTO schemas (uri, type, version, content, created_at)
      VALUES (?, ?, ?, ?, ?)`),
    delete: db.prepare('DELETE FROM schemas WHERE uri = ?'),
    find: db.prepare(`SELECT uri, type, version, content, created_at AS createdAt
      FROM schemas WHERE uri = ?`),
    registration: db.prepare('SELECT registration FROM schemas WHERE uri = ?'),
    count: db.prepare('SELECT count(*) AS count FROM schemas'),
    page: db.prepare(`SELECT uri, type, version, created_at AS createdAt
      FROM schemas ORDER BY registration LIMIT ? OFFSET ?`),
  }
}
