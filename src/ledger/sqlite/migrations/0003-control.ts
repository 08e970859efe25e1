/**
 * What native workers must not run: cancelled jobs whose job message is still out, newest first for each
 * queue, and cancelled ids that the ledger does not know.
 *
 * The rule of 0001 holds: no condition on `state`, so that neither a claim nor an ack writes to the
 * new index.
 */
export const sql = `
CREATE INDEX jobs_cancelled ON jobs (queue, cancelled_at, id, generation)
  WHERE cancelled_at IS NOT NULL AND token_out = 1;

-- In order of time by seq: an id that is cancelled again is stored anew.
CREATE TABLE tombstones (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  queue TEXT NOT NULL,
  cancelled_at INTEGER NOT NULL
) STRICT;
CREATE INDEX tombstones_queue ON tombstones (queue, cancelled_at, id);
CREATE INDEX tombstones_time ON tombstones (cancelled_at);
`
