/** The part of the ledger's contract for audit records: who did what, the newest of them. */

/** One request that may have changed something, or that was refused. */
export interface AuditRecord {
  /** Instant, ms. */
  at: number
  requestId: string
  /** The name and role of the API key; null: it had none. */
  key: string | null
  role: string | null
  /** Of the client, as its connection showed it; null: unknown. */
  address: string | null
  method: string
  /** The route's path template. */
  route: string
  /** What was asked for: path and query, perhaps cut. */
  path: string
  /** Status of the answer; 0: the client left before it. */
  status: number
}

export interface AuditPage {
  /** Only records with a smaller number; null: from the newest on. */
  before: number | null
  limit: number
  /** Only of this key; null: all. */
  key: string | null
}

export interface AuditLedger {
  /** Stores a record under the next number, and forgets those beyond the newest 10,000. */
  append(record: AuditRecord): Promise<void>
}

export interface AuditReads {
  /** Newest first, with all writes that were requested before. `total` counts all records of the key. By index. */
  list(page: AuditPage): Promise<{ records: (AuditRecord & { number: number })[]; total: number }>
}
