/** Statements that end jobs, and for rows that have ended: discard, cancel, copies, prune. */
import type { RowState } from '../../../job/job.ts'
import type { Database, Flag } from './driver.ts'
import { recorded } from './history.ts'
import { END_LEASE } from './lease.ts'
import { JOB_COLUMNS, type RawRow } from './rows.ts'

/** Columns that the end of a job sets. Law 3: a terminal transition clears the outbox. */
const END_LIFE = `outbox = NULL, holder = NULL, ${END_LEASE}`

/** Keeps the worker of an active job. In a waiting row, `worker_id` is only the mark of `isOwedAgain`. */
const LAST_WORKER = `worker_id = iif(state = 'active', worker_id, NULL)`

/** Columns that erase a row: see `isErased`. */
const EMPTY = `state = 'withdrawn', dead_letter = 0, outbox = NULL, carry = NULL, error = NULL,
  errors = NULL, result = NULL, envelope = '{}', unique_key = NULL, history = ''`

/** Columns that withdraw a refused job: cancelled and erased, because RabbitMQ may have its message after all. */
export const WITHDRAWN = `${EMPTY}, ended_at = enqueued_at, cancelled_at = enqueued_at`

/** `isCopied`: the copy in the DLX queue has been made, or none is owed. */
type Discarded = [
  id: string,
  generation: number,
  stateRead: RowState,
  attemptRead: number,
  now: number,
  completedAt: number | null,
  isCopied: Flag,
  error: string | null,
  errors: string | null,
  isDeadLetter: Flag,
  attempt: number,
  isJobMessageOut: Flag,
  line: string,
]

/** The row of a copy that has been recorded. */
export interface CopiedRow {
  queue: string
  isDeadLetter: Flag
}

/** Selects the rows of a kind with `endedFrom` <= ended_at < `endedBefore`. */
type Ended = [state: RowState, isDeadLetter: Flag, endedBefore: number, endedFrom: number]

export interface PrunableRow {
  seq: number
  id: string
  queue: string
  isCopied: Flag
  isUnique: Flag
  /** In an earlier generation. */
  hasLived: Flag
  bytes: number
}

/** Statements that end a job, for dead letters, and for retention. */
export function prepareEnds(db: Database) {
  return { ...prepareTerminal(db), ...prepareDeadLetters(db), ...preparePruning(db) }
}

function prepareTerminal(db: Database) {
  return {
    /** `attempt`, `workerId` and `generation`: null when they are no part of the fence. */
    complete: db.prepare<
      [
        id: string,
        attempt: number | null,
        workerId: string | null,
        generation: number | null,
        now: number,
        result: string | null,
        line: string,
      ],
      RawRow
    >(
      `UPDATE jobs SET state = 'completed', result = ?6, error = NULL, completed_at = ?5,
         ended_at = ?5, token_out = iif(holder = 'ledger', 0, token_out), ${END_LIFE},
         ${recorded('?7')}
       WHERE id = ?1 AND state = 'active' AND (?2 IS NULL OR attempt = ?2)
         AND (?3 IS NULL OR worker_id IS NULL OR worker_id = ?3)
         AND (?4 IS NULL OR generation = ?4)
       RETURNING ${JOB_COLUMNS}`,
    ),
    /**
     * The row takes the nonce if its workers must be told: a job message may be out, or the job runs. A lease
     * with the holder `ledger` has no message, but a native worker may be running the job.
     */
    cancel: db.prepare<
      [id: string, stateRead: RowState, now: number, nonce: number, line: string],
      RawRow
    >(
      `UPDATE jobs SET state = 'cancelled', cancelled_at = ?3, ended_at = ?3, ${LAST_WORKER},
         token_out = iif(holder = 'ledger', 0, token_out),
         outbox = iif(token_out = 1 OR state = 'active', ?4, NULL), holder = NULL, ${END_LEASE},
         ${recorded('?5')}
       WHERE id = ?1 AND state = ?2
       RETURNING ${JOB_COLUMNS}`,
    ),
    discard: db.prepare<Discarded, RawRow>(
      `UPDATE jobs SET state = 'discarded', discarded_at = ?5, ended_at = ?5, completed_at = ?6,
         dead_letter_copied = ?7, error = ?8, errors = ?9, dead_letter = ?10, attempt = ?11,
         token_out = ?12, ${LAST_WORKER}, ${END_LIFE}, ${recorded('?13')}
       WHERE id = ?1 AND generation = ?2 AND state = ?3 AND attempt = ?4
       RETURNING ${JOB_COLUMNS}`,
    ),
    /**
     * See `Ledger.messageReturned`. The job message of a retry that the ledger holds was that of the attempt
     * before: the next one is not out. If the next message is in a retry queue (`rung_ms`), only a message
     * ahead of the row's attempt is that message. `messageAttempt` null: the message that is out.
     */
    messageReturned: db.prepare<[id: string, generation: number, messageAttempt: number | null]>(
      `UPDATE jobs SET token_out = 0
       WHERE id = ?1 AND generation = ?2 AND token_out = 1
         AND (rung_ms IS NULL OR ?3 IS NULL OR ?3 > attempt)
         AND (ended_at IS NOT NULL
           OR (state = 'retryable' AND rung_ms IS NULL AND outbox IS NULL)
           OR (state = 'available' AND holder = 'ledger'))`,
    ),
  }
}

function prepareDeadLetters(db: Database) {
  return {
    deadLetterCopied: db.prepare<[id: string, generation: number], CopiedRow>(
      `UPDATE jobs SET dead_letter_copied = 1, outbox = NULL
       WHERE id = ? AND generation = ? AND state = 'discarded' AND dead_letter_copied = 0
       RETURNING queue, dead_letter AS isDeadLetter`,
    ),
    /** For a dead letter whose job message was acknowledged, so that no nack will make its copy. */
    oweCopy: db.prepare<[id: string, generation: number, nonce: number]>(
      `UPDATE jobs SET outbox = ?3
       WHERE id = ?1 AND generation = ?2 AND state = 'discarded' AND dead_letter = 1
         AND dead_letter_copied = 0 AND outbox IS NULL`,
    ),
    /** The broker has confirmed a copy that was published. */
    copyConfirmed: db.prepare<[id: string, nonce: number], CopiedRow>(
      `UPDATE jobs SET outbox = NULL, dead_letter_copied = 1
       WHERE outbox = ?2 AND id = ?1 AND state = 'discarded'
       RETURNING queue, dead_letter AS isDeadLetter`,
    ),
    /**
     * `stateRead`: in which it was read. A `retryable` row keeps its attempts, and a holder of its last
     * delivery loses it: that message is of the generation before.
     */
    revive: db.prepare<
      [
        id: string,
        generation: number,
        now: number,
        nonce: number,
        line: string,
        stateRead: RowState,
      ],
      RawRow
    >(
      `UPDATE jobs SET state = 'available', generation = generation + 1,
         attempt = iif(state = 'retryable', attempt, 0), error = iif(state = 'retryable', error, NULL),
         outbox = ?4, token_out = 1, holder = NULL, worker_id = NULL, due_at = NULL, rung_ms = NULL,
         retry_delay_ms = NULL, enqueued_at = ?3, started_at = NULL, completed_at = NULL,
         cancelled_at = NULL, discarded_at = NULL, ended_at = NULL, dead_letter = 0,
         dead_letter_copied = 0, result = NULL, ${recorded('?5')}
       WHERE id = ?1 AND generation = ?2 AND state = ?6
       RETURNING ${JOB_COLUMNS}`,
    ),
    /** Unlike `erase`, also a dead letter that is a step: its workflow has what it needs of it. */
    eraseEnded: db.prepare<[id: string, now: number, stateRead: RowState]>(
      `UPDATE jobs SET ${EMPTY}, ended_at = ?2 WHERE id = ?1 AND state = ?3`,
    ),
    setCarry: db.prepare<[id: string, carry: string]>('UPDATE jobs SET carry = ?2 WHERE id = ?1'),
  }
}

/** A workflow step's job is kept as long as its workflow: later steps need its result, and so do readers. */
function preparePruning(db: Database) {
  const ended = `FROM jobs INDEXED BY jobs_prunable
         WHERE ended_at IS NOT NULL AND token_out = 0 AND state = ?1 AND dead_letter = ?2
           AND ended_at < ?3 AND ended_at >= ?4`
  return {
    /** When the row behind the first `skipped` rows ended. Reads the index alone. */
    prunableAfter: db.prepare<[...Ended, skipped: number], { endedAt: number }>(
      `SELECT ended_at AS endedAt ${ended} ORDER BY ended_at LIMIT 1 OFFSET ?5`,
    ),
    prunable: db.prepare<[...Ended, limit: number], PrunableRow>(
      `SELECT seq, id, queue, dead_letter_copied AS isCopied, unique_key IS NOT NULL AS isUnique,
         generation > 0 AS hasLived, octet_length(envelope) + ifnull(octet_length(result), 0) AS bytes ${ended}
         AND NOT EXISTS (SELECT 1 FROM workflow_steps WHERE job_id = jobs.id)
       ORDER BY ended_at LIMIT ?5`,
    ),
    /** The oldest dead letters of a queue whose message is back, of the oldest `lookedAt`. */
    oldestDeadLetters: db.prepare<[queue: string, lookedAt: number, limit: number], PrunableRow>(
      `SELECT seq, id, queue, isCopied, isUnique, hasLived, bytes FROM (
         SELECT seq, id, queue, dead_letter_copied AS isCopied, unique_key IS NOT NULL AS isUnique,
           generation > 0 AS hasLived, octet_length(envelope) + ifnull(octet_length(result), 0) AS bytes, discarded_at, token_out
         FROM jobs INDEXED BY jobs_dead_queue WHERE queue = ?1 AND dead_letter = 1
         ORDER BY discarded_at LIMIT ?2) AS oldest
       WHERE token_out = 0
         AND NOT EXISTS (SELECT 1 FROM workflow_steps WHERE job_id = oldest.id)
       ORDER BY discarded_at LIMIT ?3`,
    ),
    /** Rows that ended after `now`, by a clock that was ahead: their retention would begin only then. */
    boundEnds: db.prepare<[state: RowState, isDeadLetter: Flag, now: number, limit: number]>(
      `UPDATE jobs SET ended_at = ?3 WHERE seq IN (
         SELECT seq FROM jobs INDEXED BY jobs_prunable
         WHERE ended_at IS NOT NULL AND token_out = 0 AND state = ?1 AND dead_letter = ?2
           AND ended_at > ?3
         LIMIT ?4)`,
    ),
    prune: db.prepare<[seq: number]>('DELETE FROM jobs WHERE seq = ?'),
    /** Of a row that has ended. */
    erase: db.prepare<[id: string, now: number]>(
      `UPDATE jobs SET ${EMPTY}, ended_at = ?2 WHERE id = ?1 AND ended_at IS NOT NULL
         AND NOT EXISTS (SELECT 1 FROM workflow_steps WHERE job_id = jobs.id)`,
    ),
    /** Erases instead of deleting: what may still come from RabbitMQ is recognized by the row. */
    pruneToErased: db.prepare<[seq: number, now: number]>(
      `UPDATE jobs SET ${EMPTY}, ended_at = ?2 WHERE seq = ?1`,
    ),
  }
}
