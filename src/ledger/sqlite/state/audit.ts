/** Audit records: a ring of rows. */
import type { AuditLedger, AuditReads, AuditRecord } from '../../audit.ts'
import type { Access } from '../commit/access.ts'
import { onlyRow } from '../sql/driver.ts'
import type { Statements } from '../sql/statements.ts'

/** Some 250 bytes each. */
const KEPT = 10_000

/** See `AuditLedger`. */
export class SqliteAudit implements AuditLedger, AuditReads {
  readonly #statements: Statements
  readonly #access: Access

  constructor(statements: Statements, access: Access) {
    this.#statements = statements
    this.#access = access
  }

  append(record: AuditRecord): Promise<void> {
    const { at, requestId, key, role, address, method, route, path, status } = record
    return this.#access.writeMany(1, () => {
      const { addAudit, pruneAudit } = this.#statements
      addAudit.run(at, requestId, key, role, address, method, route, path, status)
      pruneAudit.run(KEPT)
    })
  }

  async list(...[{ before, limit, key }]: Parameters<AuditReads['list']>) {
    await this.#access.written()
    const { audit, auditOfKey, auditCount, auditCountOfKey } = this.#statements
    const end = before ?? Number.MAX_SAFE_INTEGER
    return this.#access.read(() => ({
      records: key === null ? audit.all(end, limit) : auditOfKey.all(key, end, limit),
      total: onlyRow(key === null ? auditCount.get() : auditCountOfKey.get(key)).count,
    }))
  }
}
