/** Statements for unique keys and idempotency keys. */
import { JOB_STATES, type JobState } from '../../../job/job.ts'
import type { Database } from './driver.ts'
import { JOB_COLUMNS, type RawRow } from './rows.ts'
import { beginningOf } from './unique-keys.ts'

type OneForEach<T> = { -readonly [K in keyof T]: JobState | null }

/** One parameter per state: the states that a policy names, and NULL for the others. */
export type NamedStates = OneForEach<typeof JOB_STATES>

/** The number of the first state's parameter. */
const FIRST_STATE = 5

export interface KeyRow {
  fingerprint: string
  /** JSON texts. */
  jobs: string
  existing: string
}

/**
 * Parameters that select the holders of a key. Waiting jobs whose `expires_at` is past at `wall` are left
 * out, because expiry is about to discard them; `wall` null: they are selected too.
 */
export type Holders = [
  key: string,
  createdAfter: number,
  besidesId: string,
  limit: number,
  ...states: NamedStates,
  wall: number | null,
  /** JSON array of the rows to look at beside the `crowded` ones. */
  seqs: string,
]

export function prepareUnique(db: Database) {
  const states = JOB_STATES.map((_, i) => `substr(?${i + FIRST_STATE}, 1, 2)`)
  const counts = `substr(state, 1, 2) IN (${states.join(', ')}) AND created_at > ?2`
  // CROSS JOIN: SQLite does not choose another order. The beginnings of keys are compared because the index
  // `jobs_crowded` has only those.
  const inTheWay = `(
      SELECT value AS seq FROM json_each(?14)
      UNION ALL
      SELECT seq FROM jobs WHERE crowded = 1 AND unique_key IS NOT NULL
        AND ${beginningOf('unique_key')} = ${beginningOf('?1')} AND ${counts}
    ) AS one CROSS JOIN jobs ON jobs.seq = one.seq
    WHERE unique_key = ?1 AND ${counts} AND id <> ?3
      AND NOT coalesce(expires_at <= ?13 AND ended_at IS NULL AND state <> 'active', 0)`
  return {
    holdersOfKey: db.prepare<Holders, RawRow>(`SELECT ${JOB_COLUMNS} FROM ${inTheWay} LIMIT ?4`),
    /** The number and the size of the rows that `holdersOfKey` would return, without reading them. */
    sizeOfHolders: db.prepare<Holders, { jobs: number; bytes: number }>(
      `SELECT count(*) AS jobs, ifnull(sum(bytes), 0) AS bytes
       FROM (SELECT octet_length(envelope) + ifnull(octet_length(errors), 0) AS bytes
             FROM ${inTheWay} LIMIT ?4)`,
    ),
    uniqueKey: db.prepare<[id: string], { key: string | null }>(
      'SELECT unique_key AS key FROM jobs WHERE id = ?',
    ),
    /** REPLACE: an expired key is stored anew with the highest `seq`, so that `seq` stays in time order. */
    rememberKey: db.prepare<
      [key: string, fingerprint: string, jobs: string, existing: string, createdAt: number]
    >(
      `INSERT OR REPLACE INTO idempotency_keys (key, fingerprint, jobs, existing, created_at)
       VALUES (?1, ?2, ?3, ?4, ?5)`,
    ),
    rememberedKey: db.prepare<[key: string, createdAfter: number], KeyRow>(
      `SELECT fingerprint, jobs, existing FROM idempotency_keys WHERE key = ?1 AND created_at > ?2`,
    ),
    /** Of the rows written last. Several, because the publisher of a native job sets its `created_at`. */
    newestCreated: db.prepare<[], { createdAt: number | null }>(
      `SELECT max(created_at) AS createdAt FROM jobs
       WHERE seq > (SELECT max(seq) FROM jobs) - 1000`,
    ),
    /** Unique jobs created after `now`: their period begins now. Reads the whole table. */
    boundCreated: db.prepare<[now: number]>(
      'UPDATE jobs SET created_at = ?1 WHERE created_at > ?1 AND unique_key IS NOT NULL',
    ),
    /** Idempotency keys created after `now`, by a clock that was ahead: those with the highest `seq`. */
    boundKeys: db.prepare<[now: number]>(
      `UPDATE idempotency_keys SET created_at = ?1
       WHERE seq > coalesce(
         (SELECT seq FROM idempotency_keys WHERE created_at <= ?1 ORDER BY seq DESC LIMIT 1), 0)`,
    ),
    forgetKey: db.prepare<[key: string]>('DELETE FROM idempotency_keys WHERE key = ?'),
    /** `capacity`: how many keys may stay. */
    pruneKeys: db.prepare<[createdBy: number, capacity: number, limit: number]>(
      `DELETE FROM idempotency_keys
       WHERE seq IN (SELECT seq FROM idempotency_keys ORDER BY seq LIMIT ?3)
         AND (created_at <= ?1 OR seq <= (SELECT max(seq) FROM idempotency_keys) - ?2)`,
    ),
  }
}
