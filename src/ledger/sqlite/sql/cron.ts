/** Statements for cron entries and their live jobs. */
import type { CronEntry, CronStanding } from '../../../job/cron/entry.ts'
import type { CronRun } from '../../cron.ts'
import type { Database, Flag } from './driver.ts'

/** An entry as `COLUMNS` selects it. `queued` and `template` are JSON texts. */
export type RawEntry = Omit<CronEntry, 'isEnabled' | 'queued' | 'template'> & {
  enabled: Flag
  queued: string | null
  template: string
}

type RawRun = Omit<CronRun, 'isManual'> & { manual: Flag }

/** What a definition sets. `template` is a JSON text. */
export type DefinitionColumns = [
  name: string,
  enabled: Flag,
  expression: string,
  timezone: string,
  overlap: CronEntry['overlap'],
  description: string | null,
  template: string,
]

/** The columns of an entry, with the names of `RawEntry`. */
const COLUMNS = `seq, name, next_run_at AS nextRunAt, last_run_at AS lastRunAt,
  last_job_id AS lastJobId, run_count AS runCount, queued, enabled, expression, timezone, overlap,
  created_at AS createdAt, description, template`

/** The condition of the index `jobs_cron`, word for word. */
const LIVE = 'cron_entry IS NOT NULL AND ended_at IS NULL'

const DUE = `FROM cron_jobs
       WHERE next_run_at IS NOT NULL AND next_run_at <= ? ORDER BY next_run_at LIMIT ?`

const RELEASABLE = `FROM cron_jobs AS entry
       WHERE queued IS NOT NULL AND name > ? AND enabled = 1
         AND NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_cron
         WHERE ${LIVE} AND cron_entry = entry.seq)
       ORDER BY name LIMIT ?`

export function prepareCron(db: Database) {
  return {
    ...prepareRuns(db),
    cronInsert: db.prepare<
      [...DefinitionColumns, nextRunAt: number | null, createdAt: number],
      RawEntry
    >(
      `INSERT INTO cron_jobs (name, enabled, expression, timezone, overlap, description, template,
         next_run_at, created_at)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
       RETURNING ${COLUMNS}`,
    ),
    cronReplace: db.prepare<
      [...DefinitionColumns, nextRunAt: number | null, queued: string | null],
      RawEntry
    >(
      `UPDATE cron_jobs SET enabled = ?2, expression = ?3, timezone = ?4, overlap = ?5,
         description = ?6, template = ?7, next_run_at = ?8, queued = ?9
       WHERE name = ?1
       RETURNING ${COLUMNS}`,
    ),
    cronFind: db.prepare<[name: string], RawEntry>(
      `SELECT ${COLUMNS} FROM cron_jobs WHERE name = ?`,
    ),
    /** The sizes of the rows that `cronList` returns, in the same order. */
    cronSizes: db.prepare<[limit: number, offset: number], { bytes: number }>(
      `SELECT octet_length(template) AS bytes FROM cron_jobs ORDER BY seq LIMIT ? OFFSET ?`,
    ),
    cronList: db.prepare<[limit: number, offset: number], RawEntry>(
      `SELECT ${COLUMNS} FROM cron_jobs ORDER BY seq LIMIT ? OFFSET ?`,
    ),
    /** Counts by an index. That is cheap, because registration limits the number of entries. */
    cronCount: db.prepare<[], { count: number }>('SELECT count(*) AS count FROM cron_jobs'),
    cronRemove: db.prepare<[name: string]>('DELETE FROM cron_jobs WHERE name = ?'),
    cronDue: db.prepare<[wall: number, limit: number], RawEntry & { nextRunAt: number }>(
      `SELECT ${COLUMNS} ${DUE}`,
    ),
    /** The sizes of the rows that `cronDue` returns, in the same order. */
    cronDueSizes: db.prepare<[wall: number, limit: number], { bytes: number }>(
      `SELECT octet_length(template) AS bytes ${DUE}`,
    ),
    /** Pages by `seq`, because the times change while the pages are worked on. */
    cronAhead: db.prepare<[afterSeq: number, wall: number, limit: number], CronStanding>(
      `SELECT seq, name, expression, timezone, next_run_at AS nextRunAt FROM cron_jobs
       WHERE seq > ?1 AND next_run_at > ?2 ORDER BY seq LIMIT ?3`,
    ),
    cronReset: db.prepare<[seq: number, tick: number, nextRunAt: number]>(
      'UPDATE cron_jobs SET next_run_at = ?3 WHERE seq = ?1 AND next_run_at = ?2',
    ),
    cronReleasable: db.prepare<[afterName: string, limit: number], RawEntry>(
      `SELECT ${COLUMNS} ${RELEASABLE}`,
    ),
    /** The sizes of the rows that `cronReleasable` returns, in the same order. */
    cronReleasableSizes: db.prepare<[afterName: string, limit: number], { bytes: number }>(
      `SELECT octet_length(template) AS bytes ${RELEASABLE}`,
    ),
    /** Jobs of an entry that are not over, oldest first. */
    cronLive: db.prepare<[seq: number, limit: number], { id: string }>(
      `SELECT id FROM jobs WHERE ${LIVE} AND cron_entry = ? ORDER BY seq LIMIT ?`,
    ),
    /** Ends a tick: sets the time of the next one, and the queued ticks. */
    cronMove: db.prepare<[seq: number, nextRunAt: number | null, queued: string | null]>(
      'UPDATE cron_jobs SET next_run_at = ?2, queued = ?3 WHERE seq = ?1',
    ),
    cronRan: db.prepare<[seq: number, jobId: string, tick: number]>(
      `UPDATE cron_jobs SET last_job_id = ?2, last_run_at = ?3, run_count = run_count + 1
       WHERE seq = ?1`,
    ),
    cronOwn: db.prepare<[jobId: string, seq: number]>(
      'UPDATE jobs SET cron_entry = ?2 WHERE id = ?1',
    ),
  }
}

function prepareRuns(db: Database) {
  return {
    cronRunInsert: db.prepare<
      [
        entry: number,
        scheduledAt: number,
        manual: Flag,
        jobId: string | null,
        reason: string | null,
      ]
    >('INSERT INTO cron_runs (entry, scheduled_at, manual, job_id, reason) VALUES (?, ?, ?, ?, ?)'),
    /** Forgets all runs of the entry but the newest. */
    cronRunTrim: db.prepare<[entry: number, kept: number]>(
      `DELETE FROM cron_runs WHERE entry = ?1 AND seq <= (
         SELECT seq FROM cron_runs WHERE entry = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)`,
    ),
    cronRunForget: db.prepare<[entry: number]>('DELETE FROM cron_runs WHERE entry = ?'),
    /** Before the row of a job is deleted or erased: how it ended. */
    cronRunEnd: db.prepare<[jobId: string]>(
      `UPDATE cron_runs SET (state, started_at, ended_at) =
         (SELECT state, started_at, ended_at FROM jobs WHERE id = ?1)
       WHERE job_id = ?1`,
    ),
    cronRunCount: db.prepare<[entry: number], { count: number }>(
      'SELECT count(*) AS count FROM cron_runs WHERE entry = ?',
    ),
    cronRuns: db.prepare<[entry: number, limit: number, offset: number], RawRun>(
      `SELECT scheduled_at AS scheduledAt, manual, job_id AS jobId, reason,
         iif(job.state IS NULL OR job.state = 'withdrawn', run.state, job.state) AS state,
         iif(job.state IS NULL OR job.state = 'withdrawn', run.started_at, job.started_at) AS startedAt,
         iif(job.state IS NULL OR job.state = 'withdrawn', run.ended_at, job.ended_at) AS endedAt
       FROM cron_runs AS run LEFT JOIN jobs AS job ON job.id = run.job_id
       WHERE entry = ? ORDER BY run.seq DESC LIMIT ? OFFSET ?`,
    ),
  }
}
