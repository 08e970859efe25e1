import type { Database } from './driver.ts'
import { END_LEASE, startAs } from './lease-statements.ts'
import { JOB_COLUMNS } from './rows.ts'

/** What native workers say of their jobs, and what they must not run. */
export function prepareNative(db: Database) {
  return {
    ...prepareStarts(db),
    ...prepareReportedEnds(db),
    ...prepareBeats(db),
    ...prepareTombstones(db),
  }
}

/** Parameters as of `claimNext` and `claim`; ?6 null where the worker names no generation. */
function prepareStarts(db: Database) {
  return {
    /** It must never change a row that `decideReport` would treat otherwise. */
    nativeNext: db.prepare(
      `UPDATE jobs SET attempt = ?7, ${startAs('native')}
       WHERE id = ?5 AND generation = coalesce(?6, generation) AND state = 'available'
         AND holder IS NULL AND attempt = ?7 - 1 AND (outbox IS NULL OR worker_id IS NULL)
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** Of a job that was just adopted. */
    noteErrors: db.prepare('UPDATE jobs SET error = ?2, errors = ?3 WHERE id = ?1'),
    nativeStart: db.prepare(
      `UPDATE jobs SET attempt = ?9, ${startAs('native')}, due_at = NULL,
         enqueued_at = coalesce(?10, enqueued_at), error = ?11, errors = ?12
       WHERE id = ?5 AND generation = ?6 AND state = ?7 AND attempt = ?8
       RETURNING ${JOB_COLUMNS}`,
    ),
  }
}

/** ?2 generation or null, ?3 attempt, ?4 now, ?5 result; how long it took: by its worker, or null. */
function prepareReportedEnds(db: Database) {
  const done = `state = 'completed', result = ?5, error = NULL, completed_at = ?4, ended_at = ?4,
         outbox = NULL, holder = NULL`
  return {
    /**
     * The delivery of a lease that is the gateway's is the gateway's to settle. ?6 how long it took:
     * the word of its start was on its way for longer than that of its end. ?7 the worker, whosever
     * the lease was.
     */
    nativeDone: db.prepare(
      `UPDATE jobs SET ${done}, token_out = iif(holder = 'gateway', token_out, 0), ${END_LEASE},
         started_at = min(started_at, max(enqueued_at, ?4 - coalesce(?6, 0))), worker_id = ?7
       WHERE id = ?1 AND generation = coalesce(?2, generation) AND state = 'active' AND attempt = ?3
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** Start and end in one, ?6 the worker, ?7 how long it took: what reports of short jobs are. */
    nativeNextDone: db.prepare(
      `UPDATE jobs SET ${done}, attempt = ?3, worker_id = ?6, rung_ms = NULL,
         started_at = max(enqueued_at, ?4 - ?7), token_out = 0
       WHERE id = ?1 AND generation = coalesce(?2, generation) AND state = 'available'
         AND holder IS NULL AND attempt = ?3 - 1
       RETURNING ${JOB_COLUMNS}`,
    ),
    /**
     * As `release`, ?4 the worker, ?5 a nonce for the row that has no token, ?6 the attempt of the
     * token that the worker puts back. One that is older than the attempt would be dropped as old
     * news: the row stays its (native) holder's, whose token counts whatever its number. The worker
     * stays where a token is owed: `isOwedAgain`.
     */
    nativeRelease: db.prepare(
      `UPDATE jobs SET state = 'available', attempt = attempt - 1, started_at = NULL,
         worker_id = iif(holder = 'ledger', worker_id, NULL),
         outbox = iif(holder = 'ledger', ?5, NULL), token_out = 1,
         holder = iif(holder = 'native' AND ?6 < attempt, 'native', NULL), ${END_LEASE}
       WHERE id = ?1 AND generation = ?2 AND attempt = ?3 AND worker_id = ?4
         AND state = 'active' AND holder IN ('native', 'ledger')
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** ?2 generation and ?3 attempt as they were read; ?4 the error where it is the last one. */
    amendErrors: db.prepare(
      `UPDATE jobs SET errors = ?5, error = iif(error IS NULL, NULL, coalesce(?4, error))
       WHERE id = ?1 AND generation = ?2 AND attempt = ?3`,
    ),
  }
}

function prepareBeats(db: Database) {
  return {
    /** ?2 now, ?3 the new length where one is named, ?4 worker. */
    extendNative: db.prepare(
      `UPDATE jobs SET lease_expires_at = ?2 + coalesce(?3, lease_ms),
         worker_id = coalesce(worker_id, ?4)
       WHERE id = ?1 AND state = 'active'
         AND (worker_id = ?4 OR worker_id IS NULL AND holder = 'native')
       RETURNING id, generation, attempt, queue, type, holder, started_at AS startedAt,
         lease_expires_at AS leaseExpiresAt`,
    ),
    handOverAny: db.prepare(
      `UPDATE jobs SET holder = 'ledger'
       WHERE id = ?1 AND generation = ?2 AND attempt = ?3 AND state = 'active'`,
    ),
  }
}

function prepareTombstones(db: Database) {
  return {
    /** ?1 queue, ?2 at most. */
    cancelledTokens: db.prepare(
      `SELECT id, generation, cancelled_at AS at FROM jobs
       WHERE queue = ?1 AND cancelled_at IS NOT NULL AND token_out = 1
       ORDER BY cancelled_at DESC LIMIT ?2`,
    ),
    tombstonesOf: db.prepare(
      `SELECT id, 0 AS generation, cancelled_at AS at FROM tombstones
       WHERE queue = ?1 ORDER BY cancelled_at DESC LIMIT ?2`,
    ),
    isKnown: db.prepare('SELECT 1 FROM jobs WHERE id = ?'),
    tombstone: db.prepare('SELECT queue FROM tombstones WHERE id = ?'),
    countTombstones: db.prepare('SELECT count(*) AS count FROM tombstones'),
    recordTombstone: db.prepare(
      'INSERT INTO tombstones (id, queue, cancelled_at) VALUES (?, ?, ?)',
    ),
    forgetTombstone: db.prepare('DELETE FROM tombstones WHERE id = ?'),
    forgetOldestTombstone: db.prepare(
      'DELETE FROM tombstones WHERE seq = (SELECT min(seq) FROM tombstones)',
    ),
    /** ?1 cancelled before, ?2 at most. */
    pruneTombstones: db.prepare(
      `DELETE FROM tombstones WHERE seq IN (
         SELECT seq FROM tombstones WHERE cancelled_at < ?1 ORDER BY cancelled_at LIMIT ?2)`,
    ),
  }
}
