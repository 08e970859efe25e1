/** Statements for the table of unique keys, and for rows whose keys are not in it yet. */
import type { Database } from './driver.ts'

/** The part of a key that `unique_keys` has. Among a million keys, one pair at most looks equal in it. */
export const BEGINNING_DIGITS = 10
/** The beginning of a row's key, as indexes have it. */
const BEGINNING = beginningOf('unique_key')

/** A row that may have a key which begins like this. */
export interface KeyedRow {
  beginning: string
  seq: number
}

export function prepareRecentKeys(db: Database) {
  return {
    keyed: db.prepare<[beginning: string], KeyedRow>(
      'SELECT beginning, seq FROM unique_keys WHERE beginning = ?',
    ),
    isCrowded: db.prepare<[beginning: string]>(
      `SELECT 1 FROM jobs
       WHERE crowded = 1 AND unique_key IS NOT NULL AND ${BEGINNING} = ? LIMIT 1`,
    ),
    hasCrowded: db.prepare<[]>(
      'SELECT 1 FROM jobs WHERE crowded = 1 AND unique_key IS NOT NULL LIMIT 1',
    ),
    keyedAfter: db.prepare<[after: number], KeyedRow>(
      `SELECT ${BEGINNING} AS beginning, seq FROM jobs
       WHERE seq > ? AND unique_key IS NOT NULL AND crowded = 0`,
    ),
    /** Skips rows that were erased or deleted meanwhile. */
    moveKeys: db.prepare<[seqs: string]>(
      `INSERT OR IGNORE INTO unique_keys SELECT ${BEGINNING}, seq FROM jobs
       WHERE seq IN (SELECT value FROM json_each(?1)) AND unique_key IS NOT NULL AND crowded = 0`,
    ),
    keysMovedTo: db.prepare<[], { seq: number }>(
      `SELECT value AS seq FROM settings WHERE name = 'unique_keys_to'`,
    ),
    setKeysMovedTo: db.prepare<[seq: number]>(
      `UPDATE settings SET value = ? WHERE name = 'unique_keys_to'`,
    ),
  }
}

/** In SQL: the beginning of a key. */
export function beginningOf(key: string): string {
  return `substr(${key}, 1, ${BEGINNING_DIGITS})`
}
