import type { Database } from './driver.ts'
import { JOB_COLUMNS } from './rows.ts'

/** How many states a policy may name: all of them. The rest of the parameters are NULL. */
export const STATE_PARAMETERS = 8

/** As `jobs_unique` has them: by their beginnings. */
const OF_KEY = 'substr(unique_key, 1, 10) = substr(?1, 1, 10) AND unique_key = ?1'

/** Unique keys, and the keys of requests. */
export function prepareUnique(db: Database) {
  const states = Array.from({ length: STATE_PARAMETERS }, (_, i) => `substr(?${i + 5}, 1, 2)`)
  return {
    /** The usual answer is no, at a seventieth of the price of the next statement. */
    isKeyKnown: db.prepare(`SELECT 1 FROM jobs WHERE ${OF_KEY} LIMIT 1`),
    /**
     * ?1 key, ?2 created after, ?3 another id, ?4 at most so many, ?5 to ?12 in one of these. ?13 wall:
     * what has expired by then is as good as discarded, as `expired` has it; null: that counts too.
     */
    holdersOfKey: db.prepare(
      `SELECT ${JOB_COLUMNS} FROM jobs
       WHERE ${OF_KEY} AND substr(state, 1, 2) IN (${states.join(', ')}) AND created_at > ?2
         AND id <> ?3
         AND NOT coalesce(expires_at <= ?13 AND ended_at IS NULL AND state <> 'active', 0)
       LIMIT ?4`,
    ),
    uniqueKey: db.prepare('SELECT unique_key AS key FROM jobs WHERE id = ?'),
    /** REPLACE: a key that is too old starts over, behind all others. */
    rememberKey: db.prepare(
      `INSERT OR REPLACE INTO idempotency_keys (key, fingerprint, jobs, existing, created_at)
       VALUES (?1, ?2, ?3, ?4, ?5)`,
    ),
    rememberedKey: db.prepare(
      `SELECT fingerprint, jobs, existing FROM idempotency_keys WHERE key = ?1 AND created_at > ?2`,
    ),
    /** Those at the end that are later than ?1: their process's clock was ahead of ours. */
    boundKeys: db.prepare(
      `UPDATE idempotency_keys SET created_at = ?1
       WHERE seq > coalesce(
         (SELECT seq FROM idempotency_keys WHERE created_at <= ?1 ORDER BY seq DESC LIMIT 1), 0)`,
    ),
    forgetKey: db.prepare('DELETE FROM idempotency_keys WHERE key = ?'),
    /** ?1 created before, ?2 how many may stay, ?3 at most so many. */
    pruneKeys: db.prepare(
      `DELETE FROM idempotency_keys
       WHERE seq IN (SELECT seq FROM idempotency_keys ORDER BY seq LIMIT ?3)
         AND (created_at <= ?1 OR seq <= (SELECT max(seq) FROM idempotency_keys) - ?2)`,
    ),
  }
}
