/** Statements that find jobs. */
import type { JobState } from '../../../job/job.ts'
import type { CheckedRow } from '../../lists/comparing.ts'
import { type Key, sortValue } from '../../lists/order.ts'
import type { JobOrder } from '../../search.ts'
import type { Database, Flag } from './driver.ts'
import { JOB_COLUMNS, type RawRow, STANDING_COLUMNS } from './rows.ts'

/** What a row must have; null: anything. See `mayMatch`. */
export type Needles = [
  workerId: string | null,
  enqueuedFrom: number,
  enqueuedUntil: number,
  endedFrom: number | null,
  endedUntil: number | null,
  states: string | null,
  queues: string | null,
  priority: number | null,
  carry: string | null,
  error: string | null,
  envelope: string | null,
]

/** Which texts a `CheckedRow` comes with. */
export type Texts = [withCarry: Flag, withError: Flag, withEnvelope: Flag]

const CHECKED_COLUMNS = `seq, id, state, queue, type, worker_id AS workerId, created_at AS createdAt,
         enqueued_at AS enqueuedAt, ended_at AS endedAt, priority, due_at AS dueAt,
         dead_letter AS isDeadLetter, holder, started_at AS startedAt, iif(?13, carry, NULL) AS carry,
         iif(?14, error, NULL) AS error, iif(?15, envelope, NULL) AS envelope`

type FoundRow = {
  short: string
  carry: string | null
  error: string | null
  workflowId: string | null
}

/** Between which places: `from` inclusive; at `at` only rows beyond `seq`. */
type Bounds = [from: number, at: number, seq: number, limit: number]
type OfRange = [queue: string, state: JobState, type: string, isLate: Flag]

/** The fourth column of the index `jobs_search`, word for word. */
const IS_LATE = 'abs(enqueued_at - created_at) > 1000'
const RANGE = `FROM jobs INDEXED BY jobs_search
       WHERE queue = ?1 AND state = ?2 AND type = ?3 AND (${IS_LATE}) = ?4`

type EndedIn = [state: JobState, isDeadLetter: Flag, from: number, until: number]

const ENDED = `FROM jobs INDEXED BY jobs_prunable WHERE ended_at IS NOT NULL AND token_out = 0
       AND state = ?1 AND dead_letter = ?2 AND ended_at >= ?3 AND ended_at < ?4`
const STRAYS = `FROM jobs INDEXED BY jobs_stray
       WHERE queue = ?1 AND ended_at IS NOT NULL AND token_out = 1`

/** Both directions of a list that is ordered by `column`, then by row. ?n: the first of `Bounds`. */
function ordered(column: string, where: string, n: number) {
  const [from, at, seq, limit] = [n, n + 1, n + 2, n + 3]
  const select = `SELECT seq, ${column} AS at ${where}`
  return {
    /** Up to the place (`at`, `seq`), which is not included, and not below `from`. */
    down: `${select} AND ${column} >= ?${from} AND ${column} <= ?${at}
       AND (${column} < ?${at} OR seq < ?${seq}) ORDER BY ${column} DESC, seq DESC LIMIT ?${limit}`,
    /** After the place, and below `from`. */
    up: `${select} AND ${column} < ?${from} AND ${column} >= ?${at}
       AND (${column} > ?${at} OR seq > ?${seq}) ORDER BY ${column}, seq LIMIT ?${limit}`,
  }
}

function mayContain(column: string, n: number): string {
  return `(?${n} IS NULL OR instr(${column}, ?${n}) > 0 OR instr(${column}, '\\') > 0)`
}

/** `?n`: a JSON array; NULL: anything. */
function isAmong(column: string, n: number): string {
  return `(?${n} IS NULL OR ${column} IN (SELECT value FROM json_each(?${n})))`
}

/** Prepares the statements that find jobs. Every one goes by an index, in its order. */
export function prepareSearch(db: Database) {
  return { ...prepareLists(db), ...prepareRanges(db), ...prepareFound(db), ...prepareOldest(db) }
}

/** Lists of rows in both directions. */
function prepareLists(db: Database) {
  const range = ordered('created_at', RANGE, 5)
  const cron = ordered(
    'created_at',
    `FROM jobs INDEXED BY jobs_of_cron
       WHERE cron_entry IS NOT NULL AND cron_entry = ?1`,
    2,
  )
  const error = ordered(
    'created_at',
    `FROM jobs INDEXED BY jobs_error
       WHERE error IS NOT NULL AND substr(error, 1, instr(error, '","')) = ?1`,
    2,
  )
  /** The index has nothing of an error that is its code alone. */
  const loneError = ordered(
    'created_at',
    `FROM jobs INDEXED BY jobs_error
       WHERE error IS NOT NULL AND substr(error, 1, instr(error, '","')) = '' AND error = ?1`,
    2,
  )
  const dead = (index: string, more: string, n: number) =>
    ordered(
      'discarded_at',
      `FROM jobs INDEXED BY ${index}
       WHERE dead_letter = 1 AND discarded_at IS NOT NULL ${more}`,
      n,
    )
  const died = dead('jobs_dead', '', 1)
  const diedIn = dead('jobs_dead_queue', 'AND queue = ?1', 2)
  const due = ordered(
    'due_at',
    `FROM jobs INDEXED BY jobs_due
       WHERE state = ?1 AND due_at IS NOT NULL AND ended_at IS NULL`,
    2,
  )
  return {
    searchDown: db.prepare<[...OfRange, ...Bounds], Key>(range.down),
    searchUp: db.prepare<[...OfRange, ...Bounds], Key>(range.up),
    searchCronDown: db.prepare<[entry: number, ...Bounds], Key>(cron.down),
    searchCronUp: db.prepare<[entry: number, ...Bounds], Key>(cron.up),
    searchErrorDown: db.prepare<[beginning: string, ...Bounds], Key>(error.down),
    searchErrorUp: db.prepare<[beginning: string, ...Bounds], Key>(error.up),
    searchLoneErrorDown: db.prepare<[error: string, ...Bounds], Key>(loneError.down),
    searchLoneErrorUp: db.prepare<[error: string, ...Bounds], Key>(loneError.up),
    searchDeadDown: db.prepare<[...Bounds], Key>(died.down),
    searchDeadUp: db.prepare<[...Bounds], Key>(died.up),
    searchDeadInDown: db.prepare<[queue: string, ...Bounds], Key>(diedIn.down),
    searchDeadInUp: db.prepare<[queue: string, ...Bounds], Key>(diedIn.up),
    searchDueDown: db.prepare<[state: JobState, ...Bounds], Key>(due.down),
    searchDueUp: db.prepare<[state: JobState, ...Bounds], Key>(due.up),
  }
}

function prepareRanges(db: Database) {
  return {
    /** The types of a queue's jobs in a state, one after the other, by seeks in the index. */
    typeAfter: db.prepare<[queue: string, state: JobState, after: string], { type: string }>(
      `SELECT type FROM jobs INDEXED BY jobs_search
       WHERE queue = ?1 AND state = ?2 AND type > ?3 ORDER BY type LIMIT 1`,
    ),
    typeFrom: db.prepare<[queue: string, state: JobState, from: string], { type: string }>(
      `SELECT type FROM jobs INDEXED BY jobs_search
       WHERE queue = ?1 AND state = ?2 AND type >= ?3 ORDER BY type LIMIT 1`,
    ),
    countRange: db.prepare<
      [...OfRange, from: number, until: number, atMost: number],
      { count: number }
    >(
      `SELECT count(*) AS count FROM (SELECT 1 ${RANGE}
         AND created_at >= ?5 AND created_at < ?6 LIMIT ?7)`,
    ),
    /** Of ended jobs whose message has come back, and of those whose message has not. */
    countEnded: db.prepare<[...EndedIn, atMost: number], { count: number }>(
      `SELECT count(*) AS count FROM (SELECT 1 ${ENDED} LIMIT ?5)`,
    ),
    endedKeys: db.prepare<EndedIn, Key>(`SELECT seq, created_at AS at ${ENDED}`),
    countStrays: db.prepare<[queue: string, atMost: number], { count: number }>(
      `SELECT count(*) AS count FROM (SELECT 1 ${STRAYS} LIMIT ?2)`,
    ),
    strayKeys: db.prepare<[queue: string, from: number, until: number], Key>(
      `SELECT seq, created_at AS at ${STRAYS} AND ended_at >= ?2 AND ended_at < ?3`,
    ),
    seqOfId: db.prepare<[id: string], Key>('SELECT seq, created_at AS at FROM jobs WHERE id = ?'),
    isOfCron: db.prepare<[seq: number, entry: number], { seq: number }>(
      'SELECT seq FROM jobs WHERE seq = ? AND cron_entry = ?',
    ),
    seqsOfWorkflow: db.prepare<[workflowId: string], Key>(
      `SELECT j.seq, j.created_at AS at FROM workflows w
       CROSS JOIN workflow_steps s ON s.workflow = w.seq
       CROSS JOIN jobs j ON j.id = s.job_id
       WHERE w.id = ?1`,
    ),
  }
}

function prepareFound(db: Database) {
  return {
    /**
     * Those rows of a JSON array of `seq` that may match, by their short columns and by texts that they must
     * contain unless these have a backslash (`?10`: the carry, `?11`: the error, `?12`: the envelope); NULL: any.
     */
    mayMatch: db.prepare<[seqs: string, ...Needles, ...Texts], CheckedRow>(
      `SELECT ${CHECKED_COLUMNS} FROM jobs WHERE seq IN (SELECT value FROM json_each(?1))
         AND (?2 IS NULL OR worker_id = ?2) AND enqueued_at >= ?3 AND enqueued_at < ?4
         AND (?5 IS NULL OR ended_at >= ?5) AND (?6 IS NULL OR ended_at < ?6)
         AND ${isAmong('state', 7)} AND ${isAmong('queue', 8)} AND (?9 IS NULL OR priority = ?9)
         AND ${mayContain('carry', 10)} AND ${mayContain('error', 11)}
         AND ${mayContain('envelope', 12)}`,
    ),
    /** Rows by the value of an order. `last`: that of rows without one. */
    sortKeys: db.prepare<[seqs: string, order: JobOrder, last: number], Key>(
      `SELECT seq, coalesce(${sortValue('?2')}, ?3) AS at
       FROM jobs WHERE seq IN (SELECT value FROM json_each(?1))`,
    ),
    /** How much `mayMatch` reads of such rows if it looks for a text in their envelopes. */
    bytesOf: db.prepare<[seqs: string], { bytes: number }>(
      `SELECT coalesce(sum(octet_length(envelope)), 0) AS bytes FROM jobs
       WHERE seq IN (SELECT value FROM json_each(?1))`,
    ),
    foundRow: db.prepare<[seq: number], FoundRow>(
      `SELECT ${STANDING_COLUMNS}, carry, error,
         (SELECT w.id FROM workflow_steps s JOIN workflows w ON w.seq = s.workflow
          WHERE s.job_id = jobs.id) AS workflowId
       FROM jobs WHERE seq = ?1`,
    ),
    /** What statistics of dead letters look at; without errors that are very large. */
    deadFacts: db.prepare<[seq: number], { queue: string; type: string; error: string | null }>(
      `SELECT queue, type, iif(octet_length(error) < 65536, error, NULL) AS error
       FROM jobs WHERE seq = ?1`,
    ),
    rowOfSeq: db.prepare<[seq: number], RawRow>(`SELECT ${JOB_COLUMNS} FROM jobs WHERE seq = ?`),
  }
}

function prepareOldest(db: Database) {
  return {
    /** The first row of a range, which was enqueued when it was created. */
    oldestOfRange: db.prepare<[...OfRange], { at: number }>(
      `SELECT enqueued_at AS at ${RANGE} ORDER BY created_at LIMIT 1`,
    ),
    oldestLate: db.prepare<[queue: string], { at: number }>(
      `SELECT enqueued_at AS at FROM jobs INDEXED BY jobs_late
       WHERE queue = ?1 AND state = 'available' AND ${IS_LATE} ORDER BY enqueued_at LIMIT 1`,
    ),
    overdueOf: db.prepare<
      [state: JobState, until: number, after: number, seq: number, limit: number],
      Key & { queue: string }
    >(
      `SELECT seq, due_at AS at, queue FROM jobs INDEXED BY jobs_due
       WHERE state = ?1 AND due_at IS NOT NULL AND ended_at IS NULL AND due_at <= ?2
         AND due_at >= ?3 AND (due_at > ?3 OR seq > ?4)
       ORDER BY due_at, seq LIMIT ?5`,
    ),
  }
}
