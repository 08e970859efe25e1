/**
 * Recurring jobs. A `seq` is never used twice, so that the jobs of a deleted entry are not taken for those of
 * a later entry with the same name.
 *
 * `cron_entry` comes after the big texts (see 0001). In a plain job it is a NULL that costs nothing to read,
 * because an UPDATE reads the whole row anyway. The columns of the index condition change once per life, and
 * never for plain jobs.
 */
export const sql = `
CREATE TABLE cron_jobs (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  next_run_at INTEGER,
  last_run_at INTEGER,
  last_job_id TEXT,
  run_count INTEGER NOT NULL DEFAULT 0,
  queued TEXT,
  enabled INTEGER NOT NULL,
  expression TEXT NOT NULL,
  timezone TEXT NOT NULL,
  overlap TEXT NOT NULL CHECK (overlap IN ('skip', 'allow', 'cancel_previous', 'enqueue')),
  created_at INTEGER NOT NULL,
  description TEXT,
  template TEXT NOT NULL
) STRICT;

-- By the time of the next tick.
CREATE INDEX cron_jobs_due ON cron_jobs (next_run_at) WHERE next_run_at IS NOT NULL;
-- Those with ticks that wait: a JSON array of times, or NULL.
CREATE INDEX cron_jobs_queued ON cron_jobs (name) WHERE queued IS NOT NULL;

ALTER TABLE jobs ADD COLUMN cron_entry INTEGER;
-- The jobs of an entry that are not over.
CREATE INDEX jobs_cron ON jobs (cron_entry) WHERE cron_entry IS NOT NULL AND ended_at IS NULL;
`
