/**
 * What finds jobs. `jobs_search` contains `state`, so every transition writes it; for that, every list by state,
 * queue and type is a range of it in the order of creation. Its fourth column keeps apart the rows that came
 * into their queue long after they were created (retries, schedules), so that the oldest of the others is the
 * first of a range; those rows have `jobs_late`, which plain jobs never enter.
 *
 * Lists are ordered by row number where they are equal, however many are: it is a part of each index.
 */
export const sql = `
-- Types are found by how they begin.
ALTER TABLE %S.jobs ALTER COLUMN type TYPE text COLLATE "C", ALTER COLUMN state TYPE text COLLATE "C",
  -- Of the last error; '': none. See group/error-codes.ts.
  ADD COLUMN error_code text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS cron_entry bigint;
CREATE INDEX jobs_search ON %S.jobs
  (queue, state, type, (abs(enqueued_at - created_at) > 1000), created_at, seq);
CREATE INDEX jobs_late ON %S.jobs (queue, enqueued_at)
  WHERE state = 'available' AND abs(enqueued_at - created_at) > 1000;
CREATE INDEX jobs_of_cron ON %S.jobs (cron_entry, created_at, seq) WHERE cron_entry IS NOT NULL;
CREATE INDEX jobs_error ON %S.jobs (error_code, created_at, seq) WHERE error_code <> '';
CREATE INDEX jobs_died ON %S.jobs (discarded_at, seq) WHERE is_dead_letter;
DROP INDEX %S.jobs_dead;
CREATE INDEX jobs_dead ON %S.jobs (queue, discarded_at, seq) WHERE is_dead_letter;
DROP INDEX %S.jobs_due;
CREATE INDEX jobs_due ON %S.jobs (state, due_at, seq) WHERE due_at IS NOT NULL AND ended_at IS NULL;
`
