/** Statements for jobs with a concurrency key. Only such jobs run them. */
import type { Database } from './driver.ts'
import { recorded } from './history.ts'
import { JOB_COLUMNS, type RawRow } from './rows.ts'

/** The condition of the index, word for word. */
const WAITING = "concurrency_key IS NOT NULL AND state = 'available'"
const HELD = `FROM jobs INDEXED BY jobs_keyed WHERE ${WAITING} AND holder = 'ledger'`

/** Conditions on the first column of the index, for jobs that wait; those that are held back come first. */
const HOLDERS = ["holder = 'ledger'", 'holder IS NULL', "holder = 'native'"]

function nextOf(holder: string): string {
  return `SELECT concurrency_key AS key FROM jobs INDEXED BY jobs_keyed
    WHERE ${WAITING} AND ${holder} AND concurrency_key > ?1 ORDER BY concurrency_key LIMIT 1`
}

function firstOf(holder: string): string {
  return `SELECT carry FROM jobs INDEXED BY jobs_keyed
    WHERE ${WAITING} AND ${holder} AND concurrency_key = ?1
    ORDER BY queue, priority DESC, enqueued_at LIMIT 1`
}

export function prepareConcurrency(db: Database) {
  return {
    ...prepareKeys(db),
    setKey: db.prepare<[id: string, key: string]>(
      'UPDATE jobs SET concurrency_key = ?2 WHERE id = ?1',
    ),
    activeOfKey: db.prepare<[key: string], { active: number }>(
      'SELECT active FROM concurrency WHERE key = ?',
    ),
    oneMoreActive: db.prepare<[key: string]>(
      `INSERT INTO concurrency (key, active) VALUES (?, 1)
       ON CONFLICT (key) DO UPDATE SET active = active + 1`,
    ),
    oneLessActive: db.prepare<[key: string]>(
      'UPDATE concurrency SET active = active - 1 WHERE key = ?',
    ),
    forgetIdleKey: db.prepare<[key: string]>(
      'DELETE FROM concurrency WHERE key = ? AND active <= 0',
    ),
    /** A job that owes a message, or whose message cannot be there. */
    holdBack: db.prepare<[id: string], RawRow>(
      `UPDATE jobs SET holder = 'ledger', outbox = NULL, rung_ms = NULL, token_out = 0
       WHERE id = ?1 AND ${WAITING}
       RETURNING ${JOB_COLUMNS}`,
    ),
    /**
     * A job whose message has come, and is about to be acknowledged. `attempt`: before the one that the message
     * would have caused.
     */
    holdArrived: db.prepare<
      [
        id: string,
        now: number,
        attempt: number,
        error: string | null,
        errors: string | null,
        line: string,
      ],
      RawRow
    >(
      `UPDATE jobs SET enqueued_at = iif(state = 'available', enqueued_at, ?2), state = 'available',
         due_at = NULL, holder = 'ledger', worker_id = NULL, outbox = NULL, rung_ms = NULL, token_out = 1,
         attempt = ?3, error = ?4, errors = ?5, ${recorded('?6')}
       WHERE id = ?1
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** It owes its message from now on. */
    letGo: db.prepare<[id: string, nonce: number], RawRow>(
      `UPDATE jobs SET holder = NULL, outbox = ?2, token_out = 1 WHERE id = ?1
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** The queue after this one in which jobs of the key are held back. */
    nextLineOfKey: db.prepare<[key: string, after: string], { queue: string }>(
      `SELECT queue ${HELD} AND concurrency_key = ?1 AND queue > ?2 ORDER BY queue LIMIT 1`,
    ),
    nextHeldKey: db.prepare<[after: string], { key: string }>(
      `SELECT concurrency_key AS key ${HELD} AND concurrency_key > ?1
       ORDER BY concurrency_key LIMIT 1`,
    ),
    firstInLine: db.prepare<[key: string, queue: string], { id: string; carry: string }>(
      `SELECT id, carry ${HELD} AND concurrency_key = ?1 AND queue = ?2
       ORDER BY priority DESC, enqueued_at, seq LIMIT 1`,
    ),
    /** Are more than `skipped` jobs of the line on their way, with a message or owing one? */
    isOnItsWay: db.prepare<[key: string, queue: string, skipped: number], { one: number }>(
      `SELECT 1 AS one FROM jobs INDEXED BY jobs_keyed
       WHERE ${WAITING} AND holder IS NULL AND concurrency_key = ?1 AND queue = ?2
       LIMIT 1 OFFSET ?3`,
    ),
    /** Was there ever a job with a key? */
    hasKeyed: db.prepare<[], { value: number }>(
      "SELECT value FROM settings WHERE name = 'has_keyed'",
    ),
    noteKeyed: db.prepare<[]>(
      "INSERT OR IGNORE INTO settings (name, value) VALUES ('has_keyed', 1)",
    ),
    activeByKey: db.prepare<[], { key: string; active: number }>(
      'SELECT key, active FROM concurrency ORDER BY key',
    ),
    /** Counts every row; `activeByKey` must always be equal. */
    recountKeys: db.prepare<[], { key: string; active: number }>(
      `SELECT concurrency_key AS key, count(*) AS active FROM jobs
       WHERE concurrency_key IS NOT NULL AND state = 'active' GROUP BY concurrency_key ORDER BY key`,
    ),
  }
}

/** What is told of keys. */
function prepareKeys(db: Database) {
  return {
    /** The next key of active and of available jobs; null: there is none. */
    nextKey: db.prepare<[after: string], { key: string | null }>(
      `SELECT min(key) AS key FROM (
         SELECT * FROM (SELECT key FROM concurrency WHERE key > ?1 ORDER BY key LIMIT 1)
         ${HOLDERS.map((holder) => `UNION ALL SELECT * FROM (${nextOf(holder)})`).join(' ')})`,
    ),
    /** Of the first that waits, in the index; null: none does. */
    limitOfWaiting: db.prepare<[key: string], { carry: string | null }>(
      `SELECT coalesce(${HOLDERS.map((holder) => `(${firstOf(holder)})`).join(', ')}) AS carry`,
    ),
    heldOfKey: db.prepare<[key: string, atMost: number], { count: number }>(
      `SELECT count(*) AS count FROM (SELECT 1 ${HELD} AND concurrency_key = ?1 LIMIT ?2)`,
    ),
    /** Of the active jobs whose leases end first. */
    activePolicies: db.prepare<[keys: string, leases: number], { carry: string }>(
      `SELECT j.carry FROM (
         SELECT seq FROM jobs INDEXED BY jobs_lease
         WHERE lease_expires_at IS NOT NULL AND min(lease_expires_at, coalesce(timeout_at, lease_expires_at)) > 0
         ORDER BY min(lease_expires_at, coalesce(timeout_at, lease_expires_at)) LIMIT ?2) l
       CROSS JOIN jobs j ON j.seq = l.seq
       WHERE j.concurrency_key IN (SELECT value FROM json_each(?1))`,
    ),
  }
}
