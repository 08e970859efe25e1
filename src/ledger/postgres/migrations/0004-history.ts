/**
 * Beside the jobs, in tables of their own because most jobs have none of it: what running jobs say of themselves,
 * results that go before their jobs do, and operations on many jobs (`BulkOperation`; `terms` is JSON).
 */
export const sql = `
CREATE TABLE %S.progress (
  job_id text COLLATE "C" PRIMARY KEY,
  generation bigint NOT NULL,
  attempt bigint NOT NULL,
  progress float8,
  data text,
  message text,
  updated_at bigint NOT NULL,
  told_at bigint NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE %S.checkpoints (
  job_id text COLLATE "C" PRIMARY KEY,
  state text NOT NULL,
  sequence bigint NOT NULL,
  created_at bigint NOT NULL
) WITH (fillfactor = 70);

-- completed_at: of the completion that the entry is about, because a job may be retried and end again.
CREATE TABLE %S.result_ends (
  job_id text COLLATE "C" PRIMARY KEY,
  ends_at bigint NOT NULL,
  completed_at bigint NOT NULL
);
CREATE INDEX result_ends_at ON %S.result_ends (ends_at);

CREATE TABLE %S.bulk_operations (
  id text COLLATE "C" PRIMARY KEY,
  seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  state text NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  ended_at bigint,
  place_at bigint,
  place_row bigint,
  matched bigint NOT NULL,
  succeeded bigint NOT NULL,
  failed bigint NOT NULL,
  has_more boolean NOT NULL,
  refused text NOT NULL,
  terms text NOT NULL
);
CREATE INDEX bulk_running ON %S.bulk_operations (seq) WHERE ended_at IS NULL;
`
