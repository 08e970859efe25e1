/** Statements for audit records. */
import type { AuditRecord } from '../../audit.ts'
import type { Database } from './driver.ts'

type Stored = AuditRecord & { number: number }

const COLUMNS = `number, at, request_id AS requestId, key, role, address, method, route, path, status`

export function prepareAudit(db: Database) {
  return {
    addAudit: db.prepare<
      [
        at: number,
        requestId: string,
        key: string | null,
        role: string | null,
        address: string | null,
        method: string,
        route: string,
        path: string,
        status: number,
      ]
    >(
      `INSERT INTO audit (at, request_id, key, role, address, method, route, path, status)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    /** Removes one row at each insert, but all that are too many if fewer are kept than before. */
    pruneAudit: db.prepare<[kept: number]>(
      'DELETE FROM audit WHERE number <= (SELECT max(number) FROM audit) - ?',
    ),
    audit: db.prepare<[before: number, limit: number], Stored>(
      `SELECT ${COLUMNS} FROM audit WHERE number < ? ORDER BY number DESC LIMIT ?`,
    ),
    auditOfKey: db.prepare<[key: string, before: number, limit: number], Stored>(
      `SELECT ${COLUMNS} FROM audit INDEXED BY audit_of_key
       WHERE key = ? AND number < ? ORDER BY number DESC LIMIT ?`,
    ),
    auditCount: db.prepare<[], { count: number }>(
      `SELECT coalesce((SELECT max(number) FROM audit) - (SELECT min(number) FROM audit) + 1, 0)
         AS count`,
    ),
    auditCountOfKey: db.prepare<[key: string], { count: number }>(
      'SELECT count(*) AS count FROM audit INDEXED BY audit_of_key WHERE key = ?',
    ),
  }
}
