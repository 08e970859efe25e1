/** Who did what: keeps a record of each request that steers something, and lists them. */
import type { AuditPage, AuditRecord } from '../ledger/audit.ts'
import type { Deps } from './deps.ts'

export type { AuditRecord }

/** Most records that wait for their commit; beyond it they are only logged. */
const MAX_WAITING = 1_000

/**
 * Returns a function that stores a record and does not wait for it: the request has been answered. Where the
 * ledger cannot be written, the log alone has the record.
 */
export function auditTrail({
  ledger,
  logger,
}: Pick<Deps, 'ledger' | 'logger'>): (record: AuditRecord) => void {
  let waiting = 0
  return (record) => {
    if (waiting >= MAX_WAITING) {
      logger.warn({ requestId: record.requestId }, 'audit record not stored: too many wait')
      return
    }
    waiting += 1
    ledger.audit
      .append(record)
      .catch((error: unknown) => {
        logger.warn({ err: error, requestId: record.requestId }, 'audit record not stored')
      })
      .finally(() => {
        waiting -= 1
      })
  }
}

/** Newest first. Throws 503. */
export function listAudit({ ledger }: Pick<Deps, 'ledger'>, page: AuditPage) {
  return ledger.read.audit.list(page)
}
