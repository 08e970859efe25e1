/** Every statement of the ledger, prepared once. */
import {
  IN_EXCHANGE,
  type JobRow,
  type JobState,
  type OwedMessage,
  type RowState,
} from '../../../job/job.ts'
import type { QueueRecord, RetryQueue } from '../../known.ts'
import { prepareAudit } from './audit.ts'
import { prepareBulk } from './bulk.ts'
import { prepareConcurrency } from './concurrency.ts'
import { prepareCron } from './cron.ts'
import type { Database, Flag } from './driver.ts'
import { prepareEnds, WITHDRAWN } from './end.ts'
import { prepareHistory, recorded } from './history.ts'
import { prepareKeptKeys } from './kept-keys.ts'
import { LEASED, prepareLeases } from './lease.ts'
import { prepareNative } from './native.ts'
import { prepareProgress } from './progress.ts'
import { prepareQueues } from './queue.ts'
import { prepareResults } from './results.ts'
import { JOB_COLUMNS, type RawRow, type RawStanding, STANDING_COLUMNS } from './rows.ts'
import { prepareSearch } from './search.ts'
import { prepareTraffic } from './traffic.ts'
import { prepareUnique } from './unique.ts'
import { prepareRecentKeys } from './unique-keys.ts'

export type Statements = ReturnType<typeof prepareStatements>

/**
 * What `state_counts` counts: the states, and three subsets. `dead_letter`: the `discarded` jobs that are
 * listed as dead letters. `with_native`: the `available` jobs whose only job message is a native worker's
 * (`isWaitingWithNative`). `held`: the `available` jobs that their concurrency key holds back (`isHeldByKey`).
 */
export type Counted = JobState | 'dead_letter' | 'with_native' | 'held'

export interface CountRow {
  queue: string
  state: Counted | 'withdrawn'
  count: number
}

export interface DueRow {
  seq: number
  lateMs: number
  state: 'retryable' | 'scheduled'
  queue: string
  outbox: number | null
  retryQueueMs: number | null
}

/** Parameters of `insert` and `insertAgain`. */
export type NewRow = [
  id: string,
  type: string,
  queue: string,
  priority: number,
  maxAttempts: number,
  visibilityTimeoutMs: number | null,
  timeoutMs: number,
  expiresAt: number | null,
  createdAt: number,
  carry: string | null,
  envelope: string,
  enqueuedAt: number,
  generation: number,
  attempt: number,
  outbox: number | null,
  state: JobState,
  dueAt: number | null,
  uniqueKey: string | null,
  crowded: Flag,
  history: string,
]

/** Selects the rows of a queue with `after` < seq <= `upTo`: those that a page of `rearm` may look at. */
type Span = [queue: string, after: number, upTo: number]

/** A row whose job message was in a lost queue or retry queue. */
export interface WaitingRow extends Pick<JobRow, 'queue' | 'state' | 'holder'> {
  seq: number
}

/** Prepares all statements. Throws if the schema is not the current one: migrate first. */
export function prepareStatements(db: Database) {
  return {
    ...prepareReads(db),
    ...prepareDueReads(db),
    ...prepareEnqueues(db),
    ...prepareDue(db),
    ...prepareLost(db),
    ...prepareLeases(db),
    ...prepareEnds(db),
    ...prepareNative(db),
    ...prepareCron(db),
    ...prepareQueues(db),
    ...prepareTraffic(db),
    ...prepareUnique(db),
    ...prepareRecentKeys(db),
    ...prepareKeptKeys(db),
    ...prepareHistory(db),
    ...prepareProgress(db),
    ...prepareResults(db),
    ...prepareSearch(db),
    ...prepareAudit(db),
    ...prepareBulk(db),
    ...prepareConcurrency(db),
    ...prepareBookkeeping(db),
  }
}

function prepareReads(db: Database) {
  return {
    find: db.prepare<[id: string], RawRow>(`SELECT ${JOB_COLUMNS} FROM jobs WHERE id = ?`),
    standing: db.prepare<[id: string], RawStanding>(
      `SELECT ${STANDING_COLUMNS} FROM jobs WHERE id = ?`,
    ),
    standings: db.prepare<[ids: string], RawStanding>(
      `SELECT ${STANDING_COLUMNS} FROM jobs WHERE id IN (SELECT value FROM json_each(?1))`,
    ),
    outboxPage: db.prepare<[after: number, limit: number], OwedMessage>(
      `SELECT id, queue, state, outbox, octet_length(envelope) AS bytes FROM jobs
       WHERE outbox > ? ORDER BY outbox LIMIT ?`,
    ),
    owing: db.prepare<[outbox: number], RawRow>(`SELECT ${JOB_COLUMNS} FROM jobs WHERE outbox = ?`),
    size: db.prepare<[], { bytes: number; freeBytes: number }>(
      `SELECT page_count * page_size AS bytes, freelist_count * page_size AS freeBytes
       FROM pragma_page_count, pragma_page_size, pragma_freelist_count`,
    ),
    owedMessages: db.prepare<[atMost: number], { count: number }>(
      'SELECT count(*) AS count FROM (SELECT 1 FROM jobs WHERE outbox IS NOT NULL LIMIT ?)',
    ),
    owedMessagesOf: db.prepare<
      [look: number, queues: string, ofCancels: number],
      { looked: number; count: number }
    >(
      `SELECT count(*) AS looked, count(*) FILTER (WHERE (state = 'cancelled') = ?3
         AND queue IN (SELECT value FROM json_each(?2))) AS count
       FROM (SELECT queue, state FROM jobs WHERE outbox IS NOT NULL LIMIT ?1)`,
    ),
    lastSeq: db.prepare<[], { seq: number }>('SELECT coalesce(max(seq), 0) AS seq FROM jobs'),
    queues: db.prepare<[], QueueRecord>(
      'SELECT name, created_at AS createdAt FROM queues ORDER BY seq',
    ),
    staleCopies: db.prepare<[], { name: string }>(
      'SELECT name FROM queues WHERE stale_copies = 1 ORDER BY seq',
    ),
    retryQueues: db.prepare<[], RetryQueue>('SELECT queue, delay_ms AS delayMs FROM rungs'),
    stateCounts: db.prepare<[], CountRow>('SELECT queue, state, count FROM state_counts'),
    /** Counts every row; `stateCounts` must always be equal. */
    recount: db.prepare<[], CountRow>(
      `SELECT queue, state, count(*) AS count FROM jobs GROUP BY queue, state
       UNION ALL
       SELECT queue, 'dead_letter', count(*) FROM jobs WHERE dead_letter = 1 GROUP BY queue
       UNION ALL
       SELECT queue, 'with_native', count(*) FROM jobs
       WHERE state = 'available' AND holder = 'native' GROUP BY queue
       UNION ALL
       SELECT queue, 'held', count(*) FROM jobs
       WHERE state = 'available' AND holder = 'ledger' GROUP BY queue`,
    ),
    outboxCeiling: db.prepare<[], { value: number }>(
      `SELECT value FROM settings WHERE name = 'outbox_ceiling'`,
    ),
  }
}

/** What the promoter and expiry look for. Each condition is that of its partial index, word for word. */
function prepareDueReads(db: Database) {
  const earliest = (state: string) =>
    `SELECT min(due_at) FROM jobs
     WHERE state = '${state}' AND due_at IS NOT NULL AND ended_at IS NULL`
  return {
    nextDue: db.prepare<[], { retryable: number | null; scheduled: number | null }>(
      `SELECT (${earliest('retryable')}) AS retryable, (${earliest('scheduled')}) AS scheduled`,
    ),
    /** `now`: clock time for `retryable`, wall time for `scheduled`. */
    due: db.prepare<[state: DueRow['state'], now: number, limit: number], DueRow>(
      `SELECT seq, ?2 - due_at AS lateMs, state, queue, outbox, rung_ms AS retryQueueMs FROM jobs
       WHERE state = ?1 AND due_at IS NOT NULL AND ended_at IS NULL AND due_at <= ?2
       ORDER BY due_at LIMIT ?3`,
    ),
    /**
     * Schedules whose job message the delay plugin neither has nor is owed. The condition is that of the
     * index.
     */
    ahead: db.prepare<[until: number, limit: number], { seq: number }>(
      `SELECT seq FROM jobs INDEXED BY jobs_ahead
       WHERE state = 'scheduled' AND rung_ms IS NULL AND outbox IS NULL AND due_at <= ?1
       ORDER BY due_at LIMIT ?2`,
    ),
    /** Not `active` rows: an attempt that runs is let to its end, even after `expires_at`. */
    expired: db.prepare<[wall: number, limit: number], { id: string; queue: string }>(
      `SELECT id, queue FROM jobs
       WHERE expires_at IS NOT NULL AND ended_at IS NULL AND expires_at <= ?1
         AND state <> 'active'
       ORDER BY expires_at LIMIT ?2`,
    ),
  }
}

function prepareEnqueues(db: Database) {
  return {
    insert: db.prepare<NewRow>(
      `INSERT INTO jobs (id, type, queue, priority, max_attempts, visibility_timeout_ms,
         timeout_ms, expires_at, created_at, carry, envelope, enqueued_at,
         generation, attempt, outbox, state, due_at, token_out, dead_letter_copied, unique_key,
         crowded, history)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
         ?15 IS NOT NULL, 0, ?18, ?19, ?20)
       ON CONFLICT (id) DO NOTHING`,
    ),
    /**
     * Stores a new job under the id of an erased row: overwrites all columns, with the next generation.
     */
    insertAgain: db.prepare<NewRow, { seq: number; generation: number }>(
      `UPDATE jobs SET type = ?2, queue = ?3, priority = ?4, max_attempts = ?5,
         visibility_timeout_ms = ?6, timeout_ms = ?7, expires_at = ?8, created_at = ?9,
         carry = ?10, envelope = ?11, enqueued_at = ?12, generation = generation + 1,
         attempt = ?14, outbox = ?15, state = ?16, due_at = ?17, token_out = ?15 IS NOT NULL,
         holder = NULL, worker_id = NULL, rung_ms = NULL, retry_delay_ms = NULL,
         activated_at = NULL, started_at = NULL, completed_at = NULL, cancelled_at = NULL,
         discarded_at = NULL, ended_at = NULL, dead_letter = 0, dead_letter_copied = 0,
         cron_entry = NULL, error = NULL, errors = NULL, result = NULL, unique_key = ?18,
         concurrency_key = NULL,
         crowded = ?19, history = ?20
       WHERE id = ?1 AND state = 'withdrawn'
       RETURNING seq, generation`,
    ),
    /** Clears a range of nonces, both ends included. Safe, because no nonce is given out twice. */
    confirmed: db.prepare<[firstNonce: number, lastNonce: number]>(
      'UPDATE jobs SET outbox = NULL WHERE outbox BETWEEN ?1 AND ?2',
    ),
    /**
     * The confirm for the retry queue came after the job was due: the retry queue has its job message after
     * all.
     */
    confirmedInRetryQueue: db.prepare<[nonce: number, retryQueueMs: number]>(
      'UPDATE jobs SET outbox = NULL, rung_ms = ?2 WHERE outbox = ?1',
    ),
    withdraw: db.prepare<[id: string, nonce: number], { queue: string; key: string | null }>(
      `UPDATE jobs SET ${WITHDRAWN}
       WHERE id = ?1 AND outbox = ?2 AND state = 'available' AND attempt = 0
       RETURNING queue, concurrency_key AS key`,
    ),
    withdrawUnstarted: db.prepare<[id: string, generation: number, stateRead: RowState]>(
      `UPDATE jobs SET ${WITHDRAWN}
       WHERE id = ?1 AND generation = ?2 AND state = ?3 AND attempt = 0`,
    ),
  }
}

/** Statements for what happens when a time comes. `nonce`: given to the row if it needs a job message. */
function prepareDue(db: Database) {
  return {
    activate: db.prepare<
      [
        id: string,
        now: number,
        wall: number,
        nonce: number,
        toAvailable: string,
        toScheduled: string,
      ],
      RawRow
    >(
      `UPDATE jobs SET activated_at = ?2,
         state = iif(due_at > ?3, 'scheduled', 'available'),
         outbox = iif(due_at > ?3, NULL, ?4), token_out = iif(due_at > ?3, 0, 1),
         enqueued_at = iif(due_at > ?3, enqueued_at, ?2), due_at = iif(due_at > ?3, due_at, NULL),
         ${recorded('iif(due_at > ?3, ?6, ?5)')}
       WHERE id = ?1 AND state = 'pending'
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** `nonce` null: the job message waits in a retry queue, and comes by itself. */
    promote: db.prepare<[seq: number, now: number, nonce: number | null, line: string], RawRow>(
      `UPDATE jobs SET state = 'available', enqueued_at = ?2, due_at = NULL, token_out = 1,
         outbox = ?3, rung_ms = iif(?3 IS NULL, rung_ms, NULL), ${recorded('?4')}
       WHERE seq = ?1
       RETURNING ${JOB_COLUMNS}`,
    ),
    sendAhead: db.prepare<[seq: number, nonce: number]>(
      `UPDATE jobs SET outbox = ?2, rung_ms = ${IN_EXCHANGE}, token_out = 1 WHERE seq = ?1`,
    ),
  }
}

/** Statements for a queue or a retry queue that is gone from the broker. */
function prepareLost(db: Database) {
  const live = `SELECT seq, queue, state, holder FROM jobs INDEXED BY jobs_live
       WHERE queue = ?1 AND ended_at IS NULL AND seq > ?2 AND seq <= ?3`
  return {
    /** The `seq` of the row behind the first `skipped` rows of the queue. Reads the index alone. */
    liveAfter: db.prepare<[...Span, skipped: number], { seq: number }>(
      `SELECT seq FROM jobs INDEXED BY jobs_live
       WHERE queue = ?1 AND ended_at IS NULL AND seq > ?2 AND seq <= ?3
       ORDER BY seq LIMIT 1 OFFSET ?4`,
    ),
    /**
     * The rows of a lost queue whose job message was in it, oldest first. A retry's message counts as in the
     * queue if it left its retry queue by `leftBy`. `available` includes rows whose message a native worker
     * still has after its lease: that delivery went with the queue. `active` finds leases that began after
     * `handOverQueue` ran.
     */
    rearmable: db.prepare<[...Span, limit: number, leftBy: number], WaitingRow>(
      `${live}
         AND (state = 'available' AND holder IS NOT 'ledger'
           OR state = 'active' AND holder IN ('gateway', 'native')
           OR state = 'scheduled' AND rung_ms IS NOT NULL AND outbox IS NULL
           OR state = 'retryable' AND rung_ms IS NOT NULL AND outbox IS NULL
             AND due_at - coalesce(retry_delay_ms, rung_ms) + rung_ms <= ?5)
       ORDER BY seq LIMIT ?4`,
    ),
    /** The rows of a queue whose job message RabbitMQ should have, by when they became available. */
    lostMessages: db.prepare<
      [...Span, limit: number, after: number, before: number],
      WaitingRow & { id: string }
    >(
      `SELECT seq, id, queue, state, holder FROM jobs INDEXED BY jobs_live
       WHERE queue = ?1 AND ended_at IS NULL AND seq > ?2 AND seq <= ?3
         AND state = 'available' AND outbox IS NULL AND holder IS NULL
         AND enqueued_at > ?5 AND enqueued_at <= ?6
       ORDER BY seq LIMIT ?4`,
    ),
    /** The rows whose job message was in a lost retry queue, or is owed to it. */
    rearmableOfRetryQueue: db.prepare<[...Span, limit: number, retryQueueMs: number], WaitingRow>(
      `${live}
         AND rung_ms = ?5 AND (state = 'retryable' OR state = 'available' AND outbox IS NULL)
       ORDER BY seq LIMIT ?4`,
    ),
    /**
     * Clears the holder, because the delivery of a native worker went with the queue. (`handOverQueue` and
     * `handOverRow` see to the leases.) `isMessageGone`: the job message was in the lost queue, so that
     * RabbitMQ cannot deliver it again to a native worker that has started the job and reports so only now. A
     * `worker_id` that is not NULL marks the row for that (`isOwedAgain`).
     */
    rearm: db.prepare<[seq: number, nonce: number | null, isMessageGone: Flag]>(
      `UPDATE jobs SET outbox = ?2, rung_ms = NULL, holder = NULL,
         worker_id = iif(?3, coalesce(worker_id, ''), worker_id)
       WHERE seq = ?1`,
    ),
    handOverRow: db.prepare<[seq: number]>(`UPDATE jobs SET holder = 'ledger' WHERE seq = ?1`),
    rearmArrived: db.prepare<[id: string, nonce: number], RawRow>(
      `UPDATE jobs SET outbox = ?2, rung_ms = NULL WHERE id = ?1 RETURNING ${JOB_COLUMNS}`,
    ),
    handOverQueue: db.prepare<[queue: string, upTo: number]>(
      `UPDATE jobs SET holder = 'ledger' WHERE seq IN (
         SELECT seq FROM jobs INDEXED BY jobs_lease
         WHERE ${LEASED} AND queue = ?1 AND seq <= ?2
           AND state = 'active' AND holder IN ('gateway', 'native'))`,
    ),
    /**
     * Ended rows stop waiting for a job message in the lost queue. With `due_at` ahead, it is in a retry
     * queue.
     */
    forgetStrays: db.prepare<[...Span, now: number]>(
      `UPDATE jobs SET token_out = 0 WHERE seq IN (
         SELECT seq FROM jobs INDEXED BY jobs_stray
         WHERE queue = ?1 AND ended_at IS NOT NULL AND token_out = 1 AND seq > ?2 AND seq <= ?3
           AND (due_at IS NULL OR due_at <= ?4))`,
    ),
    /** As `liveAfter`, for ended rows whose job message is out. */
    strayAfter: db.prepare<[...Span, skipped: number], { seq: number }>(
      `SELECT seq FROM jobs INDEXED BY jobs_stray
       WHERE queue = ?1 AND ended_at IS NOT NULL AND token_out = 1 AND seq > ?2 AND seq <= ?3
       ORDER BY seq LIMIT 1 OFFSET ?4`,
    ),
    /**
     * Ended rows whose job message went to the lost retry queue. It was still there if its `due_at` is after
     * `now`.
     */
    forgetRetryQueueStrays: db.prepare<[...Span, retryQueueMs: number, now: number]>(
      `UPDATE jobs SET token_out = iif(due_at > ?5, 0, 1), due_at = NULL, rung_ms = NULL
       WHERE seq IN (
         SELECT seq FROM jobs INDEXED BY jobs_stray
         WHERE queue = ?1 AND ended_at IS NOT NULL AND token_out = 1 AND seq > ?2 AND seq <= ?3
           AND rung_ms = ?4)`,
    ),
  }
}

function prepareBookkeeping(db: Database) {
  return {
    recordQueue: db.prepare<[name: string, createdAt: number]>(
      'INSERT INTO queues (name, created_at) VALUES (?, ?) ON CONFLICT (name) DO NOTHING',
    ),
    recordRetryQueue: db.prepare<[queue: string, delayMs: number]>(
      'INSERT INTO rungs (queue, delay_ms) VALUES (?, ?) ON CONFLICT DO NOTHING',
    ),
    identity: db.prepare<[name: string], { identity: string | null }>(
      'SELECT marker AS identity FROM queues WHERE name = ?',
    ),
    recordIdentity: db.prepare<[name: string, identity: string]>(
      'UPDATE queues SET marker = ?2 WHERE name = ?1',
    ),
    lostQueues: db.prepare<[], { name: string }>(
      'SELECT name FROM queues WHERE lost_at IS NOT NULL ORDER BY seq',
    ),
    markLost: db.prepare<[name: string, now: number]>(
      'UPDATE queues SET lost_at = ?2 WHERE name = ?1',
    ),
    unwrittenQueues: db.prepare<[], { name: string }>('SELECT name FROM unwritten_queues'),
    markUnwritten: db.prepare<[name: string]>(
      'INSERT INTO unwritten_queues VALUES (?) ON CONFLICT DO NOTHING',
    ),
    markWritten: db.prepare<[name: string]>('DELETE FROM unwritten_queues WHERE name = ?'),
    /** Forgets what is known of a queue in the broker, before it is declared anew. */
    forgetPresence: db.prepare<[name: string]>(
      'UPDATE queues SET marker = NULL, lost_at = NULL WHERE name = ?1',
    ),
    keepStaleCopies: db.prepare<[name: string, isStale: Flag]>(
      'UPDATE queues SET stale_copies = ?2 WHERE name = ?1',
    ),
    keepCount: db.prepare<[queue: string, state: Counted, count: number]>(
      `INSERT INTO state_counts (queue, state, count) VALUES (?, ?, ?)
       ON CONFLICT (queue, state) DO UPDATE SET count = excluded.count`,
    ),
    raiseCeiling: db.prepare<[ceiling: number]>(
      `UPDATE settings SET value = ? WHERE name = 'outbox_ceiling'`,
    ),
    epochs: db.prepare<[], { value: number }>(
      `SELECT value FROM settings WHERE name IN ('epoch', 'epoch_before') AND value > 0
       ORDER BY name`,
    ),
    setSetting: db.prepare<[name: string, value: number]>(
      'UPDATE settings SET value = ?2 WHERE name = ?1',
    ),
    /** In a ledger of an earlier build, the last time that its newest rows tell. */
    seenAt: db.prepare<[], { seenAt: number | null }>(
      `SELECT coalesce(nullif(value, 0), (SELECT max(
           max(created_at), max(ifnull(ended_at, 0)),
           ifnull((SELECT max(at) FROM traffic WHERE span_ms = 60000), 0) * 60000)
         FROM jobs WHERE seq > (SELECT max(seq) FROM jobs) - 1000)) AS seenAt
       FROM settings WHERE name = 'seen_at'`,
    ),
    probe: db.prepare<[]>(`UPDATE settings SET value = value + 1 WHERE name = 'probe'`),
  }
}
