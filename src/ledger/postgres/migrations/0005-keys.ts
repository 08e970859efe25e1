/**
 * Unique keys and concurrency keys. The conflict test looks for rows of a key in some states and of some age; a key that is used often
 * has any number of ended rows, so the index has all three. Only unique jobs have entries in it.
 *
 * `kept_keys`: the keys of jobs that retention has deleted while the period of their policy goes on. A key has at
 * most one row for each state that a deleted job can have.
 */
export const sql = `
ALTER TABLE %S.jobs ADD COLUMN unique_key text COLLATE "C";
CREATE INDEX jobs_unique ON %S.jobs (unique_key, state, created_at) WHERE unique_key IS NOT NULL;

CREATE TABLE %S.kept_keys (
  key text COLLATE "C",
  state text,
  job_id text NOT NULL,
  created_at bigint NOT NULL,
  until bigint NOT NULL,
  PRIMARY KEY (key, state)
);
CREATE INDEX kept_keys_until ON %S.kept_keys (until);
CREATE INDEX kept_keys_created ON %S.kept_keys (created_at);

ALTER TABLE %S.jobs ADD COLUMN concurrency_key text COLLATE "C";
-- The lines of a key, each in its order.
CREATE INDEX jobs_keyed ON %S.jobs (holder, concurrency_key, queue, priority DESC, enqueued_at, seq)
  WHERE concurrency_key IS NOT NULL AND state = 'available';

-- How many jobs of a key run.
CREATE TABLE %S.concurrency (
  key text COLLATE "C" PRIMARY KEY,
  active bigint NOT NULL
) WITH (fillfactor = 50);
`
