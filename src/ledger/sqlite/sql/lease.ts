/** Statements that start attempts, and extend, end and hand over leases. */
import type { RowState } from '../../../job/job.ts'
import type { ExtendedLease } from '../../leases.ts'
import type { Database, Flag } from './driver.ts'
import { recorded } from './history.ts'
import { JOB_COLUMNS, type RawRow } from './rows.ts'

/** Columns that every end of a lease sets. */
export const END_LEASE = 'lease_ms = NULL, lease_expires_at = NULL, timeout_at = NULL'

/** The length that the last heartbeat to name one gave the lease, or else its first. */
const LENGTH = 'coalesce(extended_ms, lease_ms)'

/** Columns that a heartbeat sets. ?2: now; ?3: the length that it names, or NULL. */
export const EXTEND_LEASE = `lease_expires_at = ?2 + coalesce(?3, ${LENGTH}),
  extended_ms = coalesce(?3, extended_ms)`

/** Parameters of every start of an attempt. `leaseMs`: from FETCH or the heartbeat; null: the job's own. */
type Start = [workerId: string | null, leaseMs: number | null, defaultLeaseMs: number, now: number]

/** Parameters that start `attempt`, which must be the row's own attempt + 1. */
export type StartNext<Generation> = [...Start, id: string, generation: Generation, attempt: number]

/** Parameters that start any attempt of a row that was read before. `enqueuedAt` null: unchanged. */
type StartAny = [
  ...Start,
  id: string,
  generation: number,
  stateRead: RowState,
  attemptRead: number,
  attempt: number,
  enqueuedAt: number | null,
  error: string | null,
  errors: string | null,
  line: string,
]

/** Parameters of a heartbeat. `leaseMs` null: the lease is as long as it was. */
export type Extension = [id: string, now: number, leaseMs: number | null, workerId: string]

/** One attempt of one generation of a job. */
export type OfAttempt = [id: string, generation: number, attempt: number]

/** The first parameters of every statement that ends an attempt without success. */
export type Fenced = [...OfAttempt, error: string | null, errors: string | null]

/** A lease, and whether it is that of the worker that was asked about. */
export interface LeaseEnd {
  id: string
  isOwn: Flag
  endsAt: number
}

/**
 * The columns of a start, from the parameters `Start`. The holder has the job message, so it is out, and in
 * no retry queue. A native worker watches the execution timeout itself, so `timeout_at` stays NULL: once
 * past, it would keep the row at the head of the index `jobs_lease` for as long as the job runs.
 */
export function startAs(holder: 'gateway' | 'native'): string {
  const timeoutAt = holder === 'native' ? 'NULL' : 'iif(timeout_ms > 0, ?4 + timeout_ms, NULL)'
  return `state = 'active', holder = '${holder}', worker_id = ?1, outbox = NULL, token_out = 1,
  rung_ms = NULL, lease_ms = coalesce(?2, visibility_timeout_ms, ?3),
  lease_expires_at = ?4 + coalesce(?2, visibility_timeout_ms, ?3), extended_ms = NULL,
  timeout_at = ${timeoutAt}, started_at = ?4`
}

/** The expression of the index `jobs_lease`. SQLite uses the index only if it is the same word for word. */
const LEASE_END = 'min(lease_expires_at, coalesce(timeout_at, lease_expires_at))'

/** Condition for every lease. The range on the indexed expression makes SQLite search `jobs_lease`. */
export const LEASED = `lease_expires_at IS NOT NULL AND ${LEASE_END} > 0`

/** The most that a lease was extended by at once. */
const LONGEST = 'max(lease_ms, coalesce(extended_ms, 0))'

/** Statements that start an attempt, change its lease, or end it without success. */
export function prepareLeases(db: Database) {
  return { ...prepareClaims(db), ...prepareHolders(db), ...prepareFailures(db) }
}

function prepareClaims(db: Database) {
  return {
    /**
     * The usual claim in one statement: the next attempt of an available job. Its condition must be such that
     * `decideArrival` would claim the row too. `queue`: the queue that the job message came from, if known.
     */
    claimNext: db.prepare<
      [...StartNext<number>, wall: number, queue: string | null, line: string],
      RawRow
    >(
      `UPDATE jobs SET attempt = ?7, ${startAs('gateway')}, ${recorded('?10')}
       WHERE id = ?5 AND generation = ?6 AND state = 'available' AND attempt = ?7 - 1
         AND ?7 <= max(1, max_attempts) AND holder IS NULL
         AND (expires_at IS NULL OR expires_at > ?8) AND queue = coalesce(?9, queue)
         AND concurrency_key IS NULL
       RETURNING ${JOB_COLUMNS}`,
    ),
    claim: prepareStart(db, 'gateway'),
    nativeStart: prepareStart(db, 'native'),
    /**
     * The row gets the nonce unless the job message that goes back counts for this attempt. A message that
     * came from a native worker may have the number of an earlier attempt; such a message counts only while
     * that worker is the holder. `worker_id` stays when a message is owed, for `isOwedAgain`.
     */
    release: db.prepare<
      [...OfAttempt, nonce: number, messageAttempt: number | null, line: string],
      RawRow
    >(
      `UPDATE jobs SET state = 'available', attempt = attempt - 1,
         worker_id = iif(holder = 'gateway' AND ?5 IS attempt, NULL, worker_id),
         outbox = iif(holder = 'gateway' AND ?5 IS attempt, NULL, ?4),
         started_at = NULL, holder = NULL, ${END_LEASE}, ${recorded('?6')}
       WHERE id = ?1 AND generation = ?2 AND attempt = ?3 AND state = 'active'
       RETURNING ${JOB_COLUMNS}`,
    ),
  }
}

/** Starts any attempt of a row that was read before. */
function prepareStart(db: Database, holder: 'gateway' | 'native') {
  return db.prepare<StartAny, RawRow>(
    `UPDATE jobs SET attempt = ?9, ${startAs(holder)}, due_at = NULL,
       enqueued_at = coalesce(?10, enqueued_at), error = ?11, errors = ?12, ${recorded('?13')}
     WHERE id = ?5 AND generation = ?6 AND state = ?7 AND attempt = ?8
     RETURNING ${JOB_COLUMNS}`,
  )
}

function prepareHolders(db: Database) {
  return {
    handOver: db.prepare<OfAttempt>(
      `UPDATE jobs SET holder = 'ledger'
       WHERE id = ?1 AND generation = ?2 AND attempt = ?3 AND state = 'active'
         AND holder = 'gateway'`,
    ),
    /**
     * If the job has ended meanwhile, that cleared `token_out` (holder `ledger`): RabbitMQ has the job
     * message.
     */
    handBack: db.prepare<OfAttempt>(
      `UPDATE jobs SET holder = iif(state = 'active', 'gateway', NULL), token_out = 1
       WHERE id = ?1 AND generation = ?2 AND attempt = ?3
         AND (state = 'active' AND holder = 'ledger' OR ended_at IS NOT NULL)`,
    ),
    /** Extends the execution timeout too: in that time, no worker could have acknowledged its job. */
    extendLeases: db.prepare<[now: number]>(
      `UPDATE jobs SET lease_expires_at = max(lease_expires_at, ?1 + ${LENGTH}),
         timeout_at = max(timeout_at, ?1 + lease_ms)
       WHERE ${LEASED}
         AND (lease_expires_at < ?1 + ${LENGTH} OR timeout_at < ?1 + lease_ms)`,
    ),
    /**
     * Shortens leases that start in the future, or whose lease or execution timeout ends later than their
     * lengths allow. `extended_ms` is tested last, because that column is behind the row's large texts.
     */
    boundLeases: db.prepare<[now: number]>(
      `UPDATE jobs SET lease_expires_at = min(lease_expires_at, ?1 + ${LONGEST}),
         timeout_at = min(timeout_at, ?1 + max(timeout_ms, lease_ms))
       WHERE ${LEASED}
         AND (started_at > ?1 OR timeout_at > ?1 + max(timeout_ms, lease_ms)
           OR lease_expires_at > ?1 + lease_ms AND lease_expires_at > ?1 + coalesce(extended_ms, 0))`,
    ),
    /** Retries due later than `now` + their delay. The condition is that of the index, word for word. */
    boundRetries: db.prepare<[now: number]>(
      `UPDATE jobs SET due_at = ?1 + retry_delay_ms
       WHERE state = 'retryable' AND due_at IS NOT NULL AND ended_at IS NULL AND due_at > ?1
         AND due_at > ?1 + retry_delay_ms`,
    ),
    extend: db.prepare<
      [...Extension, attempt: number | null, generation: number | null],
      ExtendedLease
    >(
      `UPDATE jobs SET ${EXTEND_LEASE}
       WHERE id = ?1 AND state = 'active' AND (worker_id IS NULL OR worker_id = ?4)
         AND (?5 IS NULL OR attempt = ?5) AND (?6 IS NULL OR generation = ?6)
       RETURNING id, generation, attempt, queue, type, holder, started_at AS startedAt,
         lease_expires_at AS leaseExpiresAt`,
    ),
    activeByWorker: db.prepare<
      [lookedAt: number],
      { worker: string; jobs: number; queues: string; since: number; until: number }
    >(
      `SELECT worker_id AS worker, count(*) AS jobs, group_concat(DISTINCT queue) AS queues,
         min(begun) AS since, max(begun) AS until
       FROM (SELECT worker_id, queue, coalesce(started_at, enqueued_at) AS begun FROM jobs WHERE ${LEASED} ORDER BY ${LEASE_END} LIMIT ?1)
       WHERE worker_id IS NOT NULL GROUP BY worker_id`,
    ),
    leasesFrom: db.prepare<[workerId: string, from: number, to: number, limit: number], LeaseEnd>(
      `SELECT id, worker_id IS ?1 AS isOwn, ${LEASE_END} AS endsAt FROM jobs
       WHERE lease_expires_at IS NOT NULL AND ${LEASE_END} >= ?2 AND ${LEASE_END} < ?3
       ORDER BY ${LEASE_END} LIMIT ?4`,
    ),
    /** For a native holder only the lease counts: the worker watches the execution timeout itself. */
    overdue: db.prepare<[now: number, limit: number, isNativeToo: Flag], { id: string }>(
      `SELECT id FROM jobs
       WHERE lease_expires_at IS NOT NULL AND ${LEASE_END} <= ?1 AND state = 'active'
         AND (holder IS NOT 'native' OR ?3 AND lease_expires_at <= ?1)
       ORDER BY ${LEASE_END} LIMIT ?2`,
    ),
  }
}

/**
 * Statements that end an attempt without success. They decide by the holder at the time of the write whether
 * a message is owed, because the delivery may have been acknowledged since the row was read.
 */
function prepareFailures(db: Database) {
  const record = `error = ?4, errors = ?5, ${END_LEASE}`
  const fence = `id = ?1 AND generation = ?2 AND attempt = ?3 AND state = 'active'`
  return {
    /** `retryQueueMs` null: the ledger holds the job. Only then does `isMessageBack` matter. */
    failToRetry: db.prepare<
      [
        ...Fenced,
        nonce: number | null,
        dueAt: number,
        delayMs: number,
        retryQueueMs: number | null,
        isMessageBack: Flag,
        line: string,
      ],
      RawRow
    >(
      `UPDATE jobs SET state = 'retryable', due_at = ?7, retry_delay_ms = ?8, rung_ms = ?9,
         token_out = CASE WHEN ?9 IS NOT NULL THEN 1
           WHEN holder = 'ledger' OR ?10 = 1 THEN 0 ELSE token_out END,
         outbox = ?6, holder = NULL, worker_id = NULL, started_at = NULL, ${record},
         ${recorded('?11')}
       WHERE ${fence}
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** A native holder still has the delivery: it stays the holder, and no new job message is owed. */
    failToAvailable: db.prepare<[...Fenced, nonce: number, line: string], RawRow>(
      `UPDATE jobs SET state = 'available', outbox = iif(holder = 'native', NULL, ?6),
         token_out = iif(holder = 'native', token_out, 1), holder = iif(holder = 'native', 'native', NULL),
         worker_id = NULL, started_at = NULL, ${record}, ${recorded('?7')}
       WHERE ${fence}
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** Where the copy is published, there is no delivery to nack, so no job message is out. */
    failToDiscarded: db.prepare<
      [
        ...Fenced,
        nonce: number,
        now: number,
        isDeadLetter: Flag,
        isCopyPublished: Flag,
        line: string,
      ],
      RawRow
    >(
      `UPDATE jobs SET state = 'discarded', discarded_at = ?7, completed_at = ?7, ended_at = ?7,
         dead_letter = ?8, dead_letter_copied = 0, holder = NULL,
         outbox = iif(?9 OR holder = 'ledger', ?6, NULL),
         token_out = iif(?9 OR holder = 'ledger', 0, token_out), ${record}, ${recorded('?10')}
       WHERE ${fence}
       RETURNING ${JOB_COLUMNS}`,
    ),
  }
}
