/**
 * The newest runs of each cron entry. `state`, `started_at`, `ended_at`: how its job ended, kept when the job's
 * row is deleted or erased; until then the row tells.
 */
export const sql = `
CREATE TABLE cron_runs (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  entry INTEGER NOT NULL,
  scheduled_at INTEGER NOT NULL,
  manual INTEGER NOT NULL,
  job_id TEXT,
  reason TEXT,
  state TEXT,
  started_at INTEGER,
  ended_at INTEGER
) STRICT;
CREATE INDEX cron_runs_entry ON cron_runs (entry, seq);
CREATE INDEX cron_runs_job ON cron_runs (job_id) WHERE job_id IS NOT NULL;
`
