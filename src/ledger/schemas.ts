/** What clients have registered for `args` (seed 001 §15). */
export interface SchemaRecord {
  uri: string
  /** The job type that it is meant for. */
  type: string
  version: number
  /** The JSON Schema as JSON text. */
  content: string
  createdAt: number
}

export type SchemaSummary = Omit<SchemaRecord, 'content'>

export type SchemaInserted =
  | { outcome: 'inserted' }
  /** Stored already, with this or another content. */
  | { outcome: 'taken'; existing: SchemaRecord }
  /** There are as many as may be. */
  | { outcome: 'full' }

/** The part of the ledger that keeps registered schemas. Writes and reads as `Ledger` has them. */
export interface SchemaLedger {
  /** Fence: no schema of this uri. `max`: how many there may be. */
  insert(schema: SchemaRecord, max: number): Promise<SchemaInserted>

  /** False: there was none. */
  delete(uri: string): Promise<boolean>

  find(uri: string): SchemaRecord | null

  /**
   * A number that no other registration has or ever will have, also of the same uri; null: there
   * is none. Cheap: every PUSH that names a schema asks.
   */
  registration(uri: string): number | null

  /** One page, oldest first. */
  list(limit: number, offset: number): { schemas: SchemaSummary[]; total: number }
}
