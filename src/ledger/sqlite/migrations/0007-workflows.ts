/**
 * Workflows and their steps (OJS workflows). A node is a step with a job, or a join of steps (`type` null).
 * `feeds` lists the nodes that wait for a node, so that its end touches those rows and no others.
 *
 * `workflow` is the rowid of the workflow. An index on `state` is an exception to the rule of 0001:
 * it changes once in the life of a workflow, and lists are filtered by it.
 */
export const sql = `
CREATE TABLE workflows (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  type TEXT NOT NULL CHECK (type IN ('dag', 'chain', 'group', 'batch')),
  state TEXT NOT NULL CHECK (state IN ('running', 'completed', 'failed', 'cancelled')),
  total INTEGER NOT NULL,
  open INTEGER NOT NULL CHECK (open >= 0),
  completed INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  name TEXT,
  settings TEXT NOT NULL
) STRICT;
CREATE INDEX workflows_state ON workflows (state);
CREATE INDEX workflows_ended ON workflows (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE workflow_steps (
  workflow INTEGER NOT NULL,
  node INTEGER NOT NULL,
  progress TEXT NOT NULL
    CHECK (progress IN ('waiting', 'started', 'completed', 'failed', 'cancelled')),
  rule TEXT NOT NULL,
  pending INTEGER NOT NULL CHECK (pending >= 0),
  completed INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  is_callback INTEGER NOT NULL,
  job_id TEXT,
  job_state TEXT,
  ended_at INTEGER,
  type TEXT,
  id TEXT,
  error TEXT,
  depends_on TEXT,
  feeds TEXT NOT NULL,
  inputs TEXT,
  request TEXT,
  UNIQUE (workflow, node)
) STRICT;
CREATE UNIQUE INDEX workflow_steps_job ON workflow_steps (job_id) WHERE job_id IS NOT NULL;
`
