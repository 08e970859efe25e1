import type { RowState } from '../../job/job.ts'
import type { ExtendedLease } from '../leases.ts'
import type { Database, Flag } from './driver.ts'
import { JOB_COLUMNS, type RawRow } from './rows.ts'

/** What every end of a lease does beside its own columns. */
export const END_LEASE = 'lease_ms = NULL, lease_expires_at = NULL, timeout_at = NULL'

/** Of a heartbeat, whose length is the third parameter. */
export const EXTEND_LEASE = 'lease_expires_at = ?2 + coalesce(?3, lease_ms), extended_ms = ?3'

/** How every attempt starts. `leaseMs`: named by FETCH or by the heartbeat; null: the job's own. */
type Start = [workerId: string | null, leaseMs: number | null, defaultLeaseMs: number, now: number]

/** The attempt after the one that the row has counted. */
export type StartNext<Generation> = [...Start, id: string, generation: Generation, attempt: number]

/** Any attempt, of a row that was read. `enqueuedAt` null: as it was. */
export type StartAny = [
  ...Start,
  id: string,
  generation: number,
  stateRead: RowState,
  attemptRead: number,
  attempt: number,
  enqueuedAt: number | null,
  error: string | null,
  errors: string | null,
]

/** `leaseMs` null: its own length once more. */
export type Extension = [id: string, now: number, leaseMs: number | null, workerId: string]

/** One attempt of one life. */
export type OfAttempt = [id: string, generation: number, attempt: number]

/**
 * What every statement begins with that ends an attempt without success. `workerId` and `overdueAt`
 * where they are part of the fence.
 */
export type Fenced = [
  ...OfAttempt,
  workerId: string | null,
  overdueAt: number | null,
  error: string | null,
  errors: string | null,
]

/**
 * Of the parameters `Start`. The token is in the holder's hands, so it is out for certain, and in no
 * rung. A native worker watches the execution time itself: as a column, it would stand at the head of
 * `jobs_lease` for as long as the job runs.
 */
export function startAs(holder: 'gateway' | 'native'): string {
  const timeoutAt = holder === 'native' ? 'NULL' : 'iif(timeout_ms > 0, ?4 + timeout_ms, NULL)'
  return `state = 'active', holder = '${holder}', worker_id = ?1, outbox = NULL, token_out = 1,
  rung_ms = NULL, lease_ms = coalesce(?2, visibility_timeout_ms, ?3),
  lease_expires_at = ?4 + coalesce(?2, visibility_timeout_ms, ?3), extended_ms = NULL,
  timeout_at = ${timeoutAt}, started_at = ?4`
}

const START = startAs('gateway')

/** The expression of the index `jobs_lease`, word for word. */
const LEASE_END = 'min(lease_expires_at, coalesce(timeout_at, lease_expires_at))'

/** Every lease, by `jobs_lease`: an expression is indexed, so that only a range on it is a search. */
export const LEASED = `lease_expires_at IS NOT NULL AND ${LEASE_END} > 0`

/** How long a lease lasts at most, from its start or last extension: a restart may have given it `lease_ms`. */
const LONGEST = 'max(lease_ms, coalesce(extended_ms, 0))'

/** How an attempt starts, what becomes of its lease, and how it ends without success. */
export function prepareLeases(db: Database) {
  return { ...prepareClaims(db), ...prepareHolders(db), ...prepareFailures(db) }
}

function prepareClaims(db: Database) {
  return {
    /**
     * The claim that nearly every token leads to: the next attempt of an available job. It must
     * never change a row that `decideArrival` would treat otherwise. `queue`: that of the token, where
     * it is known.
     */
    claimNext: db.prepare<[...StartNext<number>, wall: number, queue: string | null], RawRow>(
      `UPDATE jobs SET attempt = ?7, ${START}
       WHERE id = ?5 AND generation = ?6 AND state = 'available' AND attempt = ?7 - 1
         AND ?7 <= max(1, max_attempts) AND holder IS NOT 'native'
         AND (expires_at IS NULL OR expires_at > ?8) AND queue = coalesce(?9, queue)
       RETURNING ${JOB_COLUMNS}`,
    ),
    claim: db.prepare<StartAny, RawRow>(
      `UPDATE jobs SET attempt = ?9, ${START}, due_at = NULL,
         enqueued_at = coalesce(?10, enqueued_at), error = ?11, errors = ?12
       WHERE id = ?5 AND generation = ?6 AND state = ?7 AND attempt = ?8
       RETURNING ${JOB_COLUMNS}`,
    ),
    /**
     * The nonce is for the row without a token that counts. The token that is put back may have the
     * number of an earlier attempt where it was a native worker's, and counts only while that worker is
     * the holder. The worker stays where a token is owed: `isOwedAgain`.
     */
    release: db.prepare<
      [...OfAttempt, workerId: string | null, nonce: number, tokenAttempt: number | null],
      RawRow
    >(
      `UPDATE jobs SET state = 'available', attempt = attempt - 1,
         worker_id = iif(holder = 'gateway' AND ?6 IS attempt, NULL, worker_id),
         outbox = iif(holder = 'gateway' AND ?6 IS attempt, NULL, ?5),
         started_at = NULL, holder = NULL, ${END_LEASE}
       WHERE id = ?1 AND generation = ?2 AND attempt = ?3 AND (?4 IS NULL OR worker_id = ?4)
         AND state = 'active'
       RETURNING ${JOB_COLUMNS}`,
    ),
  }
}

function prepareHolders(db: Database) {
  return {
    handOver: db.prepare<OfAttempt>(
      `UPDATE jobs SET holder = 'ledger'
       WHERE id = ?1 AND generation = ?2 AND attempt = ?3 AND state = 'active'
         AND holder = 'gateway'`,
    ),
    /** The claim has read the row in the same transaction, so its state is fence enough. */
    handOverArrived: db.prepare<[id: string], RawRow>(
      `UPDATE jobs SET holder = 'ledger' WHERE id = ?1 AND state = 'active'
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** Where the job has ended meanwhile, its end took the token for gone: it is out. */
    handBack: db.prepare<OfAttempt>(
      `UPDATE jobs SET holder = iif(state = 'active', 'gateway', NULL), token_out = 1
       WHERE id = ?1 AND generation = ?2 AND attempt = ?3
         AND (state = 'active' AND holder = 'ledger' OR ended_at IS NOT NULL)`,
    ),
    /** The time in which nobody could acknowledge does not count for the execution either. */
    extendLeases: db.prepare<[now: number]>(
      `UPDATE jobs SET lease_expires_at = max(lease_expires_at, ?1 + lease_ms),
         timeout_at = max(timeout_at, ?1 + lease_ms)
       WHERE ${LEASED}
         AND (lease_expires_at < ?1 + lease_ms OR timeout_at < ?1 + lease_ms)`,
    ),
    /**
     * An attempt that starts in the future, or may run or be silent longer than anything allows it to. What
     * is behind the large texts of a row is read last.
     */
    boundLeases: db.prepare<[now: number]>(
      `UPDATE jobs SET lease_expires_at = min(lease_expires_at, ?1 + ${LONGEST}),
         timeout_at = min(timeout_at, ?1 + max(timeout_ms, lease_ms))
       WHERE ${LEASED}
         AND (started_at > ?1 OR timeout_at > ?1 + max(timeout_ms, lease_ms)
           OR lease_expires_at > ?1 + lease_ms AND lease_expires_at > ?1 + coalesce(extended_ms, 0))`,
    ),
    /** The condition of its index, word for word; each is due its delay after its start. */
    boundRetries: db.prepare<[now: number]>(
      `UPDATE jobs SET due_at = ?1 + retry_delay_ms
       WHERE state = 'retryable' AND due_at IS NOT NULL AND ended_at IS NULL AND due_at > ?1
         AND due_at > ?1 + retry_delay_ms`,
    ),
    extend: db.prepare<[...Extension, attempt: number | null], ExtendedLease>(
      `UPDATE jobs SET ${EXTEND_LEASE}
       WHERE id = ?1 AND state = 'active' AND (worker_id IS NULL OR worker_id = ?4)
         AND (?5 IS NULL OR attempt = ?5)
       RETURNING id, generation, attempt, queue, type, holder, started_at AS startedAt,
         lease_expires_at AS leaseExpiresAt`,
    ),
    activeByWorker: db.prepare<[lookedAt: number], { worker: string; jobs: number }>(
      `SELECT worker_id AS worker, count(*) AS jobs
       FROM (SELECT worker_id FROM jobs WHERE ${LEASED} ORDER BY ${LEASE_END} LIMIT ?1)
       WHERE worker_id IS NOT NULL GROUP BY worker_id`,
    ),
    /** The execution time of a native worker's attempt is its own affair. */
    overdue: db.prepare<[now: number, limit: number, isNativeToo: Flag], { id: string }>(
      `SELECT id FROM jobs
       WHERE lease_expires_at IS NOT NULL AND ${LEASE_END} <= ?1 AND state = 'active'
         AND (holder IS NOT 'native' OR ?3 AND lease_expires_at <= ?1)
       ORDER BY ${LEASE_END} LIMIT ?2`,
    ),
  }
}

/**
 * Whether a message is owed goes by the holder as this is written: the token may have been acknowledged
 * since the row was read.
 */
function prepareFailures(db: Database) {
  const record = `error = ?6, errors = ?7, ${END_LEASE}`
  const fence = `id = ?1 AND generation = ?2 AND attempt = ?3
         AND (?4 IS NULL OR worker_id = ?4) AND (?5 IS NULL OR ${LEASE_END} <= ?5)
         AND state = 'active'`
  return {
    /** `rungMs` null: the ledger holds the job; only then it matters whether the old token is back. */
    failToRetry: db.prepare<
      [
        ...Fenced,
        nonce: number | null,
        dueAt: number,
        delayMs: number,
        rungMs: number | null,
        isTokenBack: Flag,
      ],
      RawRow
    >(
      `UPDATE jobs SET state = 'retryable', due_at = ?9, retry_delay_ms = ?10, rung_ms = ?11,
         token_out = CASE WHEN ?11 IS NOT NULL THEN 1
           WHEN holder = 'ledger' OR ?12 = 1 THEN 0 ELSE token_out END,
         outbox = ?8, holder = NULL, worker_id = NULL, started_at = NULL, ${record}
       WHERE ${fence}
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** A native holder still has the delivery, and the row stays its own. */
    failToAvailable: db.prepare<[...Fenced, nonce: number], RawRow>(
      `UPDATE jobs SET state = 'available', outbox = iif(holder = 'native', NULL, ?8),
         token_out = iif(holder = 'native', token_out, 1), holder = iif(holder = 'native', 'native', NULL),
         worker_id = NULL, started_at = NULL, ${record}
       WHERE ${fence}
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** Where a copy is to be published there is no token: nothing could be nacked. */
    failToDiscarded: db.prepare<
      [...Fenced, nonce: number, now: number, isDeadLetter: Flag, isCopyPublished: Flag],
      RawRow
    >(
      `UPDATE jobs SET state = 'discarded', discarded_at = ?9, completed_at = ?9, ended_at = ?9,
         dead_letter = ?10, dead_letter_copied = 0, holder = NULL,
         outbox = iif(?11 OR holder = 'ledger', ?8, NULL),
         token_out = iif(?11 OR holder = 'ledger', 0, token_out), ${record}
       WHERE ${fence}
       RETURNING ${JOB_COLUMNS}`,
    ),
  }
}
