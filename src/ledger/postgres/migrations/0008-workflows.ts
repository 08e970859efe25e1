/**
 * Workflows and their steps (OJS workflows). A node is a step with a job, or a join of steps (`type` null).
 * `feeds` lists the nodes that wait for a node, so that its end touches those rows and no others.
 *
 * The row of a job says which node of which workflow it is: the end of a job that is none costs nothing. What
 * of a node is written once and needed once (`workflow_plans`) is apart from what changes.
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
  settings text NOT NULL
);
CREATE INDEX workflows_state ON %S.workflows (state, seq);
CREATE INDEX workflows_ended ON %S.workflows (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE %S.workflow_steps (
  workflow bigint,
  node bigint,
  progress text NOT NULL
    CHECK (progress IN ('waiting', 'started', 'completed', 'failed', 'cancelled')),
  rule text NOT NULL,
  pending bigint NOT NULL CHECK (pending >= 0),
  completed bigint NOT NULL,
  failed bigint NOT NULL,
  cancelled bigint NOT NULL,
  is_callback boolean NOT NULL,
  type text,
  id text,
  feeds text NOT NULL,
  job_id text COLLATE "C",
  -- What the step keeps of its job's end.
  job_state text,
  started_at bigint,
  attempt bigint,
  ended_at bigint,
  error text,
  PRIMARY KEY (workflow, node)
) WITH (fillfactor = 70);

CREATE TABLE %S.workflow_plans (
  workflow bigint,
  node bigint,
  depends_on text,
  inputs text,
  request text,
  PRIMARY KEY (workflow, node)
);

ALTER TABLE %S.jobs ADD COLUMN workflow bigint, ADD COLUMN node bigint;
`
