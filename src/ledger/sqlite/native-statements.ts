import type { ExtendedLease } from '../leases.ts'
import type { CancelledToken } from '../native.ts'
import type { Database } from './driver.ts'
import {
  END_LEASE,
  EXTEND_LEASE,
  type Extension,
  type OfAttempt,
  type StartAny,
  type StartNext,
  startAs,
} from './lease-statements.ts'
import { JOB_COLUMNS, type RawRow } from './rows.ts'

/** An attempt that has succeeded. `generation` null: the worker names none. */
type Done = [
  id: string,
  generation: number | null,
  attempt: number,
  now: number,
  result: string | null,
]

/** What was cancelled, and when. */
export interface CancelledRow extends CancelledToken {
  at: number
}

/** What native workers say of their jobs, and what they must not run. */
export function prepareNative(db: Database) {
  return {
    ...prepareStarts(db),
    ...prepareReportedEnds(db),
    ...prepareBeats(db),
    ...prepareTombstones(db),
  }
}

/** As `claimNext` and `claim`. */
function prepareStarts(db: Database) {
  return {
    /**
     * It must never change a row that `decideReport` would treat otherwise. The worker may name no
     * generation.
     */
    nativeNext: db.prepare<StartNext<number | null>, RawRow>(
      `UPDATE jobs SET attempt = ?7, ${startAs('native')}
       WHERE id = ?5 AND generation = coalesce(?6, generation) AND state = 'available'
         AND holder IS NULL AND attempt = ?7 - 1 AND (outbox IS NULL OR worker_id IS NULL)
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** Of a job that was just adopted. */
    noteErrors: db.prepare<[id: string, error: string | null, errors: string | null]>(
      'UPDATE jobs SET error = ?2, errors = ?3 WHERE id = ?1',
    ),
    nativeStart: db.prepare<StartAny, RawRow>(
      `UPDATE jobs SET attempt = ?9, ${startAs('native')}, due_at = NULL,
         enqueued_at = coalesce(?10, enqueued_at), error = ?11, errors = ?12
       WHERE id = ?5 AND generation = ?6 AND state = ?7 AND attempt = ?8
       RETURNING ${JOB_COLUMNS}`,
    ),
  }
}

function prepareReportedEnds(db: Database) {
  const done = `state = 'completed', result = ?5, error = NULL, completed_at = ?4, ended_at = ?4,
         outbox = NULL, holder = NULL`
  return {
    /**
     * The delivery of a lease that is the gateway's is the gateway's to settle. `elapsedMs`, where the
     * worker says it: the word of its start was on its way for longer than that of its end. The worker
     * is who did it, whosever the lease was.
     */
    nativeDone: db.prepare<[...Done, elapsedMs: number | null, workerId: string | null], RawRow>(
      `UPDATE jobs SET ${done}, token_out = iif(holder = 'gateway', token_out, 0), ${END_LEASE},
         started_at = min(started_at, max(enqueued_at, ?4 - coalesce(?6, 0))), worker_id = ?7
       WHERE id = ?1 AND generation = coalesce(?2, generation) AND state = 'active' AND attempt = ?3
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** Start and end in one: what reports of short jobs are. */
    nativeNextDone: db.prepare<[...Done, workerId: string, elapsedMs: number], RawRow>(
      `UPDATE jobs SET ${done}, attempt = ?3, worker_id = ?6, rung_ms = NULL,
         started_at = max(enqueued_at, ?4 - ?7), token_out = 0
       WHERE id = ?1 AND generation = coalesce(?2, generation) AND state = 'available'
         AND holder IS NULL AND attempt = ?3 - 1
       RETURNING ${JOB_COLUMNS}`,
    ),
    /**
     * As `release`. A token that is older than the attempt would be dropped as old news: the row stays
     * its (native) holder's, whose token counts whatever its number.
     */
    nativeRelease: db.prepare<
      [...OfAttempt, workerId: string, nonce: number, tokenAttempt: number],
      RawRow
    >(
      `UPDATE jobs SET state = 'available', attempt = attempt - 1, started_at = NULL,
         worker_id = iif(holder = 'ledger', worker_id, NULL),
         outbox = iif(holder = 'ledger', ?5, NULL), token_out = 1,
         holder = iif(holder = 'native' AND ?6 < attempt, 'native', NULL), ${END_LEASE}
       WHERE id = ?1 AND generation = ?2 AND attempt = ?3 AND worker_id = ?4
         AND state = 'active' AND holder IN ('native', 'ledger')
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** `error`: where it is the last one. */
    amendErrors: db.prepare<[...OfAttempt, error: string | null, errors: string]>(
      `UPDATE jobs SET errors = ?5, error = iif(error IS NULL, NULL, coalesce(?4, error))
       WHERE id = ?1 AND generation = ?2 AND attempt = ?3`,
    ),
  }
}

function prepareBeats(db: Database) {
  return {
    extendNative: db.prepare<Extension, ExtendedLease>(
      `UPDATE jobs SET ${EXTEND_LEASE},
         worker_id = coalesce(worker_id, ?4)
       WHERE id = ?1 AND state = 'active'
         AND (worker_id = ?4 OR worker_id IS NULL AND holder = 'native')
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
    cancelledTokens: db.prepare<[queue: string, limit: number], CancelledRow>(
      `SELECT id, generation, cancelled_at AS at FROM jobs
       WHERE queue = ?1 AND cancelled_at IS NOT NULL AND token_out = 1
       ORDER BY cancelled_at DESC LIMIT ?2`,
    ),
    tombstonesOf: db.prepare<[queue: string, limit: number], CancelledRow>(
      `SELECT id, 0 AS generation, cancelled_at AS at FROM tombstones
       WHERE queue = ?1 ORDER BY cancelled_at DESC LIMIT ?2`,
    ),
    isKnown: db.prepare<[id: string]>('SELECT 1 FROM jobs WHERE id = ?'),
    tombstone: db.prepare<[id: string], { queue: string }>(
      'SELECT queue FROM tombstones WHERE id = ?',
    ),
    countTombstones: db.prepare<[], { count: number }>('SELECT count(*) AS count FROM tombstones'),
    recordTombstone: db.prepare<[id: string, queue: string, cancelledAt: number]>(
      'INSERT INTO tombstones (id, queue, cancelled_at) VALUES (?, ?, ?)',
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
