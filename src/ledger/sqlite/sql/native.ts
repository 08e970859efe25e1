/** Statements for what native workers report, and for cancelled jobs. */
import type { ExtendedLease } from '../../leases.ts'
import type { CancelledMessage } from '../../native.ts'
import type { Database, Flag } from './driver.ts'
import { recorded } from './history.ts'
import {
  END_LEASE,
  EXTEND_LEASE,
  type Extension,
  type OfAttempt,
  type StartNext,
  startAs,
} from './lease.ts'
import { JOB_COLUMNS, type RawRow } from './rows.ts'

/** Parameters of an attempt that succeeded. `generation` null: the worker did not name it. */
type Done = [
  id: string,
  generation: number | null,
  attempt: number,
  now: number,
  result: string | null,
]

/** A cancelled job or id, and when it was cancelled. */
export interface CancelledRow extends CancelledMessage {
  at: number
}

/** Statements for what native workers report, and for the cancelled jobs that they must not run. */
export function prepareNative(db: Database) {
  return {
    ...prepareStarts(db),
    ...prepareReportedEnds(db),
    ...prepareBeats(db),
    ...prepareTombstones(db),
  }
}

/** Starts by native workers; the counterpart of `claimNext`. */
function prepareStarts(db: Database) {
  return {
    /**
     * The usual start in one statement. Its condition must be such that `decideReport` would start the row
     * too, and never for a row of `isOwedAgain`. `generation` null: the worker did not name it.
     */
    nativeNext: db.prepare<
      [...StartNext<number | null>, ofQueue: string | null, line: string],
      RawRow
    >(
      `UPDATE jobs SET attempt = ?7, ${startAs('native')}, ${recorded('?9')}
       WHERE id = ?5 AND generation = coalesce(?6, generation) AND state = 'available'
         AND holder IS NULL AND attempt = ?7 - 1 AND (outbox IS NULL OR worker_id IS NULL)
         AND queue = coalesce(?8, queue)
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** Stores error records of a job that was just adopted. */
    noteErrors: db.prepare<[id: string, error: string | null, errors: string | null]>(
      'UPDATE jobs SET error = ?2, errors = ?3 WHERE id = ?1',
    ),
  }
}

function prepareReportedEnds(db: Database) {
  const done = `state = 'completed', result = ?5, error = NULL, completed_at = ?4, ended_at = ?4,
         outbox = NULL, holder = NULL`
  return {
    /**
     * Completes an active job, unless another worker has its live lease and is not a native one
     * (`isLeasedElsewhere`). If the holder is the gateway, it has the delivery and settles it, so `token_out`
     * stays. `started_at` is corrected by `elapsedMs`, if given, because the report of the start may have
     * taken longer to arrive than that of the end. `worker_id` becomes the worker that did the job, even if
     * another worker had the lease.
     */
    nativeDone: db.prepare<
      [
        ...Done,
        elapsedMs: number | null,
        workerId: string | null,
        ofQueue: string | null,
        line: string,
      ],
      RawRow
    >(
      `UPDATE jobs SET ${done}, token_out = iif(holder = 'gateway', token_out, 0), ${END_LEASE},
         started_at = min(started_at, max(enqueued_at, ?4 - coalesce(?6, 0))), worker_id = ?7,
         ${recorded('?9')}
       WHERE id = ?1 AND generation = coalesce(?2, generation) AND state = 'active' AND attempt = ?3
         AND (holder = 'native' OR worker_id IS ?7 OR lease_expires_at <= ?4)
         AND queue = coalesce(?8, queue)
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** Start and completion in one statement: the usual report of a short job. */
    nativeNextDone: db.prepare<
      [...Done, workerId: string, elapsedMs: number, ofQueue: string | null, lines: string],
      RawRow
    >(
      `UPDATE jobs SET ${done}, attempt = ?3, worker_id = ?6, rung_ms = NULL,
         started_at = max(enqueued_at, ?4 - ?7), token_out = 0, ${recorded('?9')}
       WHERE id = ?1 AND generation = coalesce(?2, generation) AND state = 'available'
         AND holder IS NULL AND attempt = ?3 - 1 AND queue = coalesce(?8, queue)
       RETURNING ${JOB_COLUMNS}`,
    ),
    /**
     * The counterpart of `release`. A job message with an attempt number below the row's would be dropped as
     * old, so then the holder stays `native`: the message of a native holder counts whatever its number.
     */
    nativeRelease: db.prepare<
      [...OfAttempt, workerId: string, nonce: number, messageAttempt: number, line: string],
      RawRow
    >(
      `UPDATE jobs SET state = 'available', attempt = attempt - 1, started_at = NULL,
         worker_id = iif(holder = 'ledger', worker_id, NULL),
         outbox = iif(holder = 'ledger', ?5, NULL), token_out = 1,
         holder = iif(holder = 'native' AND ?6 < attempt, 'native', NULL), ${END_LEASE},
         ${recorded('?7')}
       WHERE id = ?1 AND generation = ?2 AND attempt = ?3 AND worker_id = ?4
         AND state = 'active' AND holder IN ('native', 'ledger')
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** `error`: set if the amended attempt is the last one; else null. */
    amendErrors: db.prepare<[...OfAttempt, error: string | null, errors: string]>(
      `UPDATE jobs SET errors = ?5, error = iif(error IS NULL, NULL, coalesce(?4, error))
       WHERE id = ?1 AND generation = ?2 AND attempt = ?3`,
    ),
  }
}

function prepareBeats(db: Database) {
  return {
    extendNative: db.prepare<[...Extension, ofQueue: string | null], ExtendedLease>(
      `UPDATE jobs SET ${EXTEND_LEASE},
         worker_id = coalesce(worker_id, ?4)
       WHERE id = ?1 AND state = 'active'
         AND (worker_id = ?4 OR worker_id IS NULL AND holder = 'native')
         AND queue = coalesce(?5, queue)
       RETURNING id, generation, attempt, queue, type, holder, started_at AS startedAt,
         lease_expires_at AS leaseExpiresAt`,
    ),
    handOverAny: db.prepare<OfAttempt>(
      `UPDATE jobs SET holder = 'ledger'
       WHERE id = ?1 AND generation = ?2 AND attempt = ?3 AND state = 'active'`,
    ),
  }
}

function prepareTombstones(db: Database) {
  return {
    cancelledMessages: db.prepare<[queue: string, limit: number], CancelledRow>(
      `SELECT id, generation, cancelled_at AS at FROM jobs
       WHERE queue = ?1 AND cancelled_at IS NOT NULL AND token_out = 1
       ORDER BY cancelled_at DESC LIMIT ?2`,
    ),
    tombstonesOf: db.prepare<[queue: string, limit: number], CancelledRow>(
      `SELECT id, cancelled_at AS at,
         ifnull((SELECT generation - 1 FROM jobs WHERE jobs.id = tombstones.id), 0) AS generation
       FROM tombstones WHERE queue = ?1 ORDER BY cancelled_at DESC LIMIT ?2`,
    ),
    isKnown: db.prepare<[id: string]>('SELECT 1 FROM jobs WHERE id = ?'),
    /** `isScoped`: only a job message of this queue is dropped; else a message of any queue. */
    tombstone: db.prepare<[id: string], { queue: string; isScoped: Flag }>(
      'SELECT queue, is_scoped AS isScoped FROM tombstones WHERE id = ?',
    ),
    countTombstones: db.prepare<[], { count: number }>('SELECT count(*) AS count FROM tombstones'),
    recordTombstone: db.prepare<[id: string, queue: string, cancelledAt: number, isScoped: Flag]>(
      'INSERT INTO tombstones (id, queue, cancelled_at, is_scoped) VALUES (?, ?, ?, ?)',
    ),
    forgetTombstone: db.prepare<[id: string]>('DELETE FROM tombstones WHERE id = ?'),
    forgetOldestTombstone: db.prepare<[]>(
      'DELETE FROM tombstones WHERE seq = (SELECT min(seq) FROM tombstones)',
    ),
    boundTombstones: db.prepare<[now: number, limit: number]>(
      `UPDATE tombstones SET cancelled_at = ?1 WHERE seq IN (
         SELECT seq FROM tombstones WHERE cancelled_at > ?1 LIMIT ?2)`,
    ),
    pruneTombstones: db.prepare<[cancelledBefore: number, limit: number]>(
      `DELETE FROM tombstones WHERE seq IN (
         SELECT seq FROM tombstones WHERE cancelled_at < ?1 ORDER BY cancelled_at LIMIT ?2)`,
    ),
  }
}
