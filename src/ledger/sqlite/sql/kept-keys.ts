/** Statements for the unique keys of pruned jobs. */
import type { JobRow, JobState, RowState } from '../../../job/job.ts'
import type { Database } from './driver.ts'

export interface KeptRow extends Pick<JobRow, 'id' | 'createdAt'> {
  state: JobState
}

/** A row that is about to be pruned, with what its policy says in JSON. */
export interface PolicyRow extends Pick<JobRow, 'id' | 'createdAt'> {
  key: string
  terms: string
}

export function prepareKeptKeys(db: Database) {
  return {
    keptKeys: db.prepare<[key: string, now: number], KeptRow>(
      `SELECT job_id AS id, state, created_at AS createdAt FROM kept_keys
       WHERE key = ? AND until > ?`,
    ),
    /** Of two jobs of a key, the one whose period ends later. */
    keepKey: db.prepare<
      [key: string, state: RowState, id: string, createdAt: number, until: number]
    >(
      `INSERT INTO kept_keys (key, state, job_id, created_at, until) VALUES (?1, ?2, ?3, ?4, ?5)
       ON CONFLICT (key, state) DO UPDATE
       SET job_id = excluded.job_id, created_at = excluded.created_at, until = excluded.until
       WHERE excluded.until >= until`,
    ),
    policyOf: db.prepare<[seq: number], PolicyRow>(
      `SELECT id, unique_key AS key, created_at AS createdAt,
         json_object('unique', json_extract(envelope, '$.unique'),
           'unique_extra', json_extract(envelope, '$.unique_extra')) AS terms
       FROM jobs WHERE seq = ? AND unique_key IS NOT NULL`,
    ),
    countKeptKeys: db.prepare<[], { count: number }>(
      `SELECT value AS count FROM settings WHERE name = 'kept_keys'`,
    ),
    pruneKeptKeys: db.prepare<[until: number, limit: number]>(
      `DELETE FROM kept_keys WHERE (key, state) IN (
         SELECT key, state FROM kept_keys WHERE until <= ?1 ORDER BY until LIMIT ?2)`,
    ),
    /** Keys of jobs created after `now`, by a clock that was ahead: their period begins now. */
    boundKeptKeys: db.prepare<[now: number]>(
      `UPDATE kept_keys SET until = until - (created_at - ?1), created_at = ?1
       WHERE until > ?1 AND created_at > ?1`,
    ),
  }
}
