/** The part of the ledger's contract for registered schemas (seed 001 §15). */
import type { AnsweredBefore, KeyedRequest } from './idempotency.ts'

/** A JSON Schema that a client has registered for the `args` of a job type (seed 001 §15). */
export interface SchemaRecord {
  uri: string
  /** The job type that it is meant for. */
  type: string
  /** As it was sent. A number and its digits name the same version. */
  version: number | string
  /** The JSON Schema as JSON text. */
  content: string
  createdAt: number
}

export type SchemaSummary = Omit<SchemaRecord, 'content'>

export type SchemaInserted =
  | { outcome: 'inserted' }
  /** This uri is registered already, with the same or another content. */
  | { outcome: 'taken'; existing: SchemaRecord }
  /** There are `max` schemas already. */
  | { outcome: 'full' }
  | AnsweredBefore

/** The part of the ledger's contract that keeps registered schemas. */
export interface SchemaLedger {
  /**
   * Fence: no schema of this uri. `max`: how many there may be. Remembers `request`, or stores nothing if it was remembered.
   */
  insert(schema: SchemaRecord, max: number, request?: KeyedRequest): Promise<SchemaInserted>

  /** False: there was none. */
  delete(uri: string): Promise<boolean>
}
