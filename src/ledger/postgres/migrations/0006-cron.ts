/**
 * Recurring jobs. A `seq` is never used twice, so that the jobs of a deleted entry are not taken for those of a
 * later entry with the same name; they grow in the order of registration. A template may be large, and no tick
 * writes it.
 *
 * `cron_runs`: the newest runs of each entry. `state`, `started_at`, `ended_at`: how its job ended, kept when the
 * job's row is deleted or erased; until then the row tells.
 */
export const sql = `
CREATE TABLE %S.cron_jobs (
  name text COLLATE "C" PRIMARY KEY,
  seq bigint NOT NULL UNIQUE,
  next_run_at bigint,
  last_run_at bigint,
  last_job_id text,
  run_count bigint NOT NULL,
  -- Ticks that wait: a JSON array of times, or NULL.
  queued text,
  is_enabled boolean NOT NULL,
  expression text NOT NULL,
  timezone text NOT NULL,
  overlap text NOT NULL CHECK (overlap IN ('skip', 'allow', 'cancel_previous', 'enqueue')),
  created_at bigint NOT NULL,
  description text
);
CREATE INDEX cron_jobs_due ON %S.cron_jobs (next_run_at) WHERE next_run_at IS NOT NULL;
CREATE INDEX cron_jobs_queued ON %S.cron_jobs (name) WHERE queued IS NOT NULL;

CREATE TABLE %S.cron_templates (
  name text COLLATE "C" PRIMARY KEY,
  template text NOT NULL,
  -- Of the jobs that it makes: that queue is in use.
  queue text COLLATE "C" NOT NULL
);
CREATE INDEX cron_templates_queue ON %S.cron_templates (queue);

ALTER TABLE %S.jobs ADD COLUMN cron_entry bigint;
-- The jobs of an entry that are not over.
CREATE INDEX jobs_cron ON %S.jobs (cron_entry, seq) WHERE cron_entry IS NOT NULL AND ended_at IS NULL;

CREATE TABLE %S.cron_runs (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  entry bigint NOT NULL,
  scheduled_at bigint NOT NULL,
  is_manual boolean NOT NULL,
  job_id text COLLATE "C",
  reason text,
  state text,
  started_at bigint,
  ended_at bigint
);
CREATE INDEX cron_runs_entry ON %S.cron_runs (entry, seq);
CREATE INDEX cron_runs_job ON %S.cron_runs (job_id) WHERE job_id IS NOT NULL;
`
