/** Statements for operations on many jobs. */
import type { BulkOperation } from '../../bulk.ts'
import type { Database, Flag } from './driver.ts'

export interface OperationRow {
  id: string
  state: BulkOperation['state']
  createdAt: number
  terms: string
  placeAt: number | null
  placeRow: number | null
  matched: number
  succeeded: number
  failed: number
  refused: string
  hasMore: Flag
  updatedAt: number
  endedAt: number | null
}

const COLUMNS = `id, state, created_at AS createdAt, terms, place_at AS placeAt,
  place_row AS placeRow, matched, succeeded, failed, refused, has_more AS hasMore,
  updated_at AS updatedAt, ended_at AS endedAt`

export function prepareBulk(db: Database) {
  return {
    beginBulk: db.prepare<[id: string, createdAt: number, terms: string]>(
      'INSERT INTO bulk_operations (id, created_at, updated_at, terms) VALUES (?1, ?2, ?2, ?3)',
    ),
    findBulk: db.prepare<[id: string], OperationRow>(
      `SELECT ${COLUMNS} FROM bulk_operations WHERE id = ?`,
    ),
    bulkRunning: db.prepare<[], OperationRow>(
      `SELECT ${COLUMNS} FROM bulk_operations INDEXED BY bulk_running
       WHERE ended_at IS NULL ORDER BY seq`,
    ),
    bulkList: db.prepare<[limit: number, offset: number], OperationRow>(
      `SELECT ${COLUMNS} FROM bulk_operations ORDER BY seq DESC LIMIT ? OFFSET ?`,
    ),
    /** Of a thousand rows and some. */
    bulkCounts: db.prepare<[], { all: number; running: number }>(
      `SELECT count(*) AS "all", count(*) FILTER (WHERE ended_at IS NULL) AS running
       FROM bulk_operations`,
    ),
    pruneBulk: db.prepare<[kept: number]>(
      `DELETE FROM bulk_operations WHERE seq IN (
         SELECT seq FROM bulk_operations WHERE ended_at IS NOT NULL
         ORDER BY seq DESC LIMIT -1 OFFSET ?)`,
    ),
    keepBulk: db.prepare<
      [
        id: string,
        state: BulkOperation['state'],
        placeAt: number | null,
        placeRow: number | null,
        matched: number,
        succeeded: number,
        failed: number,
        refused: string,
        hasMore: Flag,
        updatedAt: number,
        endedAt: number | null,
      ]
    >(
      `UPDATE bulk_operations SET state = ?2, place_at = ?3, place_row = ?4, matched = ?5,
         succeeded = ?6, failed = ?7, refused = ?8, has_more = ?9, updated_at = ?10, ended_at = ?11
       WHERE id = ?1`,
    ),
  }
}
