/**
 * Workflows and their nodes (OJS workflows). A node is a step with a job, or a join of steps (`type` null). Its key is
 * the id of the workflow and its place in the plan (`nodeKey`), so that the nodes of a workflow are a range. What
 * changes, and what is written once, are apart; so are the errors, which may be large.
 *
 * The row of a job names its step: the end of a job that is none costs nothing. Such rows are not prunable; when the
 * workflow is pruned, its jobs become jobs like others.
 */
export const sql = `
CREATE TABLE %S.workflows (
  seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  id text COLLATE "C" PRIMARY KEY,
  type text NOT NULL CHECK (type IN ('dag', 'chain', 'group', 'batch')),
  state text NOT NULL CHECK (state IN ('running', 'completed', 'failed', 'cancelled')),
  total bigint NOT NULL,
  open bigint NOT NULL CHECK (open >= 0),
  completed bigint NOT NULL,
  failed bigint NOT NULL,
  created_at bigint NOT NULL,
  ended_at bigint,
  name text,
  settings text NOT NULL,
  -- How many nodes it has.
  nodes bigint NOT NULL
);
CREATE INDEX workflows_state ON %S.workflows (state, seq);
CREATE INDEX workflows_ended ON %S.workflows (ended_at, seq) WHERE ended_at IS NOT NULL;

CREATE TABLE %S.workflow_steps (
  key text COLLATE "C" PRIMARY KEY,
  progress text NOT NULL
    CHECK (progress IN ('waiting', 'started', 'completed', 'failed', 'cancelled')),
  rule text NOT NULL,
  pending bigint NOT NULL CHECK (pending >= 0),
  completed bigint NOT NULL,
  failed bigint NOT NULL,
  cancelled bigint NOT NULL,
  is_callback boolean NOT NULL,
  type text,
  step_id text,
  job_id text COLLATE "C",
  -- What the step keeps of its job's end.
  job_state text,
  started_at bigint,
  attempt bigint,
  ended_at bigint
) WITH (fillfactor = 70);

-- JSON: the nodes that wait for a node, so that its end touches those rows and no others.
CREATE TABLE %S.workflow_feeds (key text COLLATE "C" PRIMARY KEY, feeds text NOT NULL);

-- JSON: what a step is made from.
CREATE TABLE %S.workflow_sources (
  key text COLLATE "C" PRIMARY KEY,
  depends_on text NOT NULL,
  inputs text NOT NULL,
  request text NOT NULL
);

-- How steps have failed.
CREATE TABLE %S.workflow_errors (key text COLLATE "C" PRIMARY KEY, error text NOT NULL);

ALTER TABLE %S.jobs ADD COLUMN step text COLLATE "C";
DROP INDEX %S.jobs_prunable;
CREATE INDEX jobs_prunable ON %S.jobs (state, is_dead_letter, ended_at)
  WHERE ended_at IS NOT NULL AND NOT message_out AND step IS NULL;
`
