import type { Database } from './driver.ts'
import { JOB_COLUMNS } from './rows.ts'

/** What every end of a life does beside its own columns (law 3: the outbox goes with it). */
const END_LEASE = `outbox = NULL, holder = NULL, lease_ms = NULL, lease_expires_at = NULL,
  timeout_at = NULL`

/**
 * ?1 worker, ?2 lease named by FETCH, ?3 default lease, ?4 now. The token is in our hands, so it
 * is out for certain.
 */
const START = `state = 'active', holder = 'gateway', worker_id = ?1, outbox = NULL, token_out = 1,
  lease_ms = coalesce(?2, visibility_timeout_ms, ?3),
  lease_expires_at = ?4 + coalesce(?2, visibility_timeout_ms, ?3),
  timeout_at = iif(timeout_ms > 0, ?4 + timeout_ms, NULL), started_at = ?4`

/** Every statement of the ledger, prepared once. Parameters are listed where they are not plain. */
export type Statements = ReturnType<typeof prepareStatements>

export function prepareStatements(db: Database) {
  return {
    ...prepareReads(db),
    ...prepareEnqueues(db),
    ...prepareClaims(db),
    ...prepareEnds(db),
    ...prepareBookkeeping(db),
  }
}

function prepareReads(db: Database) {
  return {
    find: db.prepare(`SELECT ${JOB_COLUMNS} FROM jobs WHERE id = ?`),
    outboxPage: db.prepare(
      `SELECT ${JOB_COLUMNS} FROM jobs WHERE outbox > ? ORDER BY outbox LIMIT ?`,
    ),
    owedTokens: db.prepare(
      'SELECT count(*) AS count FROM (SELECT 1 FROM jobs WHERE outbox IS NOT NULL LIMIT ?)',
    ),
    lastSeq: db.prepare('SELECT coalesce(max(seq), 0) AS seq FROM jobs'),
    /** The rows of a queue whose token was in it, from the oldest. ?2 after and ?3 up to a seq. */
    rearmable: db.prepare(
      `SELECT seq FROM jobs INDEXED BY jobs_live
       WHERE queue = ?1 AND ended_at IS NULL AND seq > ?2 AND seq <= ?3
         AND state = 'available' AND holder IS NOT 'native'
       ORDER BY seq LIMIT ?4`,
    ),
    queues: db.prepare('SELECT name, created_at AS createdAt FROM queues ORDER BY seq'),
    stateCounts: db.prepare('SELECT queue, state, count FROM state_counts'),
    /** What `stateCounts` must always say. Reads every row. */
    recount: db.prepare('SELECT queue, state, count(*) AS count FROM jobs GROUP BY queue, state'),
    outboxCeiling: db.prepare(`SELECT value FROM settings WHERE name = 'outbox_ceiling'`),
  }
}

function prepareEnqueues(db: Database) {
  return {
    /** ?1 to ?11 as named, ?12 now, ?13 generation, ?14 attempt, ?15 outbox. */
    insert: db.prepare(
      `INSERT INTO jobs (id, type, queue, priority, max_attempts, visibility_timeout_ms,
         timeout_ms, expires_at, created_at, carry, envelope, enqueued_at,
         generation, attempt, outbox, state, token_out, dead_letter_copied)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
         'available', 1, 0)
       ON CONFLICT (id) DO NOTHING`,
    ),
    /** The next life of an id whose PUSH was withdrawn; parameters as of `insert`, ?13 unused. */
    insertAgain: db.prepare(
      `UPDATE jobs SET type = ?2, queue = ?3, priority = ?4, max_attempts = ?5,
         visibility_timeout_ms = ?6, timeout_ms = ?7, expires_at = ?8, created_at = ?9,
         carry = ?10, envelope = ?11, enqueued_at = ?12, generation = generation + 1,
         attempt = ?14, outbox = ?15, state = 'available', token_out = 1, holder = NULL,
         due_at = NULL, ended_at = NULL
       WHERE id = ?1 AND state = 'withdrawn'
       RETURNING generation`,
    ),
    confirmed: db.prepare('UPDATE jobs SET outbox = NULL WHERE outbox = ?2 AND id = ?1'),
    withdraw: db.prepare(
      `UPDATE jobs SET state = 'withdrawn', outbox = NULL, ended_at = enqueued_at
       WHERE id = ?1 AND outbox = ?2 AND state = 'available' AND attempt = 0
       RETURNING queue`,
    ),
    handOverQueue: db.prepare(
      `UPDATE jobs SET holder = 'ledger' WHERE seq IN (
         SELECT seq FROM jobs INDEXED BY jobs_live
         WHERE queue = ?1 AND ended_at IS NULL AND seq <= ?2
           AND state = 'active' AND holder = 'gateway')`,
    ),
    rearm: db.prepare('UPDATE jobs SET outbox = ?2 WHERE seq = ?1'),
    /** The tokens of ended rows were in the lost queue too, unless they waited elsewhere. */
    forgetStrays: db.prepare(
      `UPDATE jobs SET token_out = 0 WHERE seq IN (
         SELECT seq FROM jobs INDEXED BY jobs_stray
         WHERE queue = ?1 AND ended_at IS NOT NULL AND token_out = 1 AND due_at IS NULL
         LIMIT ?2)`,
    ),
  }
}

function prepareClaims(db: Database) {
  return {
    /**
     * The claim that nearly every token leads to: the next attempt of an available job. It must
     * never change a row that `decideArrival` would treat otherwise. ?5 id, ?6 generation, ?7 the
     * token's attempt, ?8 wall time.
     */
    claimNext: db.prepare(
      `UPDATE jobs SET attempt = ?7, ${START}
       WHERE id = ?5 AND generation = ?6 AND state = 'available' AND attempt = ?7 - 1
         AND ?7 <= max(1, max_attempts)
         AND (expires_at IS NULL OR expires_at > ?8)
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** ?5 id; ?6 generation, ?7 state and ?8 attempt as they were read; ?9 the new attempt. */
    claim: db.prepare(
      `UPDATE jobs SET attempt = ?9, ${START}, due_at = NULL,
         enqueued_at = coalesce(?10, enqueued_at), error = ?11, errors = ?12
       WHERE id = ?5 AND generation = ?6 AND state = ?7 AND attempt = ?8
       RETURNING ${JOB_COLUMNS}`,
    ),
    handOver: db.prepare(
      `UPDATE jobs SET holder = 'ledger'
       WHERE id = ?1 AND generation = ?2 AND attempt = ?3 AND state = 'active'
         AND holder = 'gateway'`,
    ),
    handOverAny: db.prepare(
      `UPDATE jobs SET holder = 'ledger' WHERE id = ?1 AND state = 'active'
       RETURNING ${JOB_COLUMNS}`,
    ),
    handOverAll: db.prepare(
      `UPDATE jobs SET holder = 'ledger'
       WHERE lease_expires_at IS NOT NULL AND state = 'active' AND holder = 'gateway'`,
    ),
    rearmArrived: db.prepare(`UPDATE jobs SET outbox = ?2 WHERE id = ?1 RETURNING ${JOB_COLUMNS}`),
    /** ?4 a nonce for the row that has no token any more. */
    release: db.prepare(
      `UPDATE jobs SET state = 'available', attempt = attempt - 1, worker_id = NULL,
         outbox = iif(holder = 'ledger', ?4, outbox), started_at = NULL, holder = NULL,
         lease_ms = NULL, lease_expires_at = NULL, timeout_at = NULL
       WHERE id = ?1 AND generation = ?2 AND attempt = ?3 AND state = 'active'
       RETURNING ${JOB_COLUMNS}`,
    ),
    extendLeases: db.prepare(
      `UPDATE jobs SET lease_expires_at = ?1 + lease_ms
       WHERE lease_expires_at IS NOT NULL AND lease_expires_at < ?1 + lease_ms`,
    ),
  }
}

function prepareEnds(db: Database) {
  return {
    /** ?2 attempt and ?3 worker, where given; ?4 now, ?5 result. */
    complete: db.prepare(
      `UPDATE jobs SET state = 'completed', result = ?5, error = NULL, completed_at = ?4,
         ended_at = ?4, token_out = iif(holder = 'ledger', 0, token_out), ${END_LEASE}
       WHERE id = ?1 AND state = 'active' AND (?2 IS NULL OR attempt = ?2)
         AND (?3 IS NULL OR worker_id = ?3)
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** A lease that the ledger alone held had no token. ?2 state as it was read, ?3 now. */
    cancel: db.prepare(
      `UPDATE jobs SET state = 'cancelled', cancelled_at = ?3, ended_at = ?3,
         token_out = iif(holder = 'ledger', 0, token_out), ${END_LEASE}
       WHERE id = ?1 AND state = ?2
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** ?2 generation, ?3 state and ?4 attempt as they were read; ?5 now, ?6 completed at. */
    discard: db.prepare(
      `UPDATE jobs SET state = 'discarded', discarded_at = ?5, ended_at = ?5, completed_at = ?6,
         dead_letter_copied = ?7, error = ?8, errors = ?9, ${END_LEASE}
       WHERE id = ?1 AND generation = ?2 AND state = ?3 AND attempt = ?4
       RETURNING ${JOB_COLUMNS}`,
    ),
    tokenReturned: db.prepare(
      `UPDATE jobs SET token_out = 0
       WHERE id = ? AND generation = ? AND ended_at IS NOT NULL AND token_out = 1`,
    ),
    deadLetterCopied: db.prepare(
      `UPDATE jobs SET dead_letter_copied = 1
       WHERE id = ? AND generation = ? AND state = 'discarded' AND dead_letter_copied = 0`,
    ),
  }
}

function prepareBookkeeping(db: Database) {
  return {
    recordQueue: db.prepare(
      'INSERT INTO queues (name, created_at) VALUES (?, ?) ON CONFLICT (name) DO NOTHING',
    ),
    keepCount: db.prepare(
      `INSERT INTO state_counts (queue, state, count) VALUES (?, ?, ?)
       ON CONFLICT (queue, state) DO UPDATE SET count = excluded.count`,
    ),
    raiseCeiling: db.prepare(`UPDATE settings SET value = ? WHERE name = 'outbox_ceiling'`),
    probe: db.prepare(`UPDATE settings SET value = value + 1 WHERE name = 'probe'`),
  }
}
