/** Statements for operations on many jobs. */
import type { JobRow, RowState } from '../../../job/job.ts'
import type { BulkOperation } from '../../bulk.ts'
import type { Database, Flag } from './driver.ts'
import { recorded } from './history.ts'
import { JOB_COLUMNS, type RawRow } from './rows.ts'

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

type Prioritized = [
  id: string,
  stateRead: RowState,
  generation: number,
  attempt: number,
  priority: number,
  envelope: JobRow['envelope'],
  line: string,
]

const PRIORITY = `priority = ?5, envelope = ?6, ${recorded('?7')}`
const AS_READ = 'id = ?1 AND state = ?2 AND generation = ?3 AND attempt = ?4'

export function prepareBulk(db: Database) {
  return {
    prioritize: db.prepare<Prioritized, RawRow>(
      `UPDATE jobs SET ${PRIORITY} WHERE ${AS_READ} RETURNING ${JOB_COLUMNS}`,
    ),
    /** The message before is void: a scheduled job has none from now on. */
    prioritizeAnew: db.prepare<[...Prioritized, nonce: number | null], RawRow>(
      `UPDATE jobs SET ${PRIORITY}, generation = generation + 1, outbox = ?8, token_out = 1,
         holder = NULL, worker_id = NULL, rung_ms = NULL
       WHERE ${AS_READ} RETURNING ${JOB_COLUMNS}`,
    ),
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
