/**
 * The jobs, the queues, and the counts per state, which are kept so that they need not be counted.
 *
 * Every index is partial, and none of the conditions names `state`: SQLite rewrites an index entry
 * whenever a column of its condition is assigned, so conditions on columns that change once per
 * life (`ended_at`, `lease_expires_at`, `outbox`) keep a claim and an ack at two index writes each.
 * `ended_at` is set exactly when the row becomes terminal (`withdrawn` included).
 *
 * Big texts come last: a read of the short columns then never follows an overflow page.
 */
export const sql = `
CREATE TABLE jobs (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  generation INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('available', 'scheduled', 'pending', 'active', 'retryable',
    'completed', 'cancelled', 'discarded', 'withdrawn')),
  attempt INTEGER NOT NULL CHECK (attempt >= 0),
  queue TEXT NOT NULL,
  type TEXT NOT NULL,
  priority INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  visibility_timeout_ms INTEGER,
  timeout_ms INTEGER NOT NULL,
  outbox INTEGER,
  token_out INTEGER NOT NULL,
  holder TEXT CHECK (holder IN ('gateway', 'ledger', 'native')),
  worker_id TEXT,
  lease_ms INTEGER,
  lease_expires_at INTEGER,
  timeout_at INTEGER,
  due_at INTEGER,
  expires_at INTEGER,
  created_at INTEGER NOT NULL,
  enqueued_at INTEGER NOT NULL,
  started_at INTEGER,
  completed_at INTEGER,
  cancelled_at INTEGER,
  discarded_at INTEGER,
  ended_at INTEGER,
  dead_letter_copied INTEGER NOT NULL,
  carry TEXT,
  error TEXT,
  errors TEXT,
  result TEXT,
  envelope TEXT NOT NULL
) STRICT;

-- The relay's list of tokens that are owed.
CREATE UNIQUE INDEX jobs_outbox ON jobs (outbox) WHERE outbox IS NOT NULL;
-- Everything that is not over, by queue, in order of arrival.
CREATE INDEX jobs_live ON jobs (queue) WHERE ended_at IS NULL;
-- Active jobs by the end of their lease.
CREATE INDEX jobs_lease ON jobs (lease_expires_at) WHERE lease_expires_at IS NOT NULL;
-- Scheduled and retryable jobs by the time they become claimable.
CREATE INDEX jobs_due ON jobs (due_at) WHERE due_at IS NOT NULL AND ended_at IS NULL;
-- Dead letters, newest first when read backwards.
CREATE INDEX jobs_discarded ON jobs (discarded_at) WHERE discarded_at IS NOT NULL;
-- What retention may delete; a row whose token is still out is not among it (docs/architecture.md §7).
CREATE INDEX jobs_prunable ON jobs (state, ended_at) WHERE ended_at IS NOT NULL AND token_out = 0;
-- Ended rows whose token has not come back.
CREATE INDEX jobs_stray ON jobs (queue) WHERE ended_at IS NOT NULL AND token_out = 1;

CREATE TABLE queues (
  seq INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE state_counts (
  queue TEXT NOT NULL,
  state TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (queue, state)
) STRICT, WITHOUT ROWID;

-- outbox_ceiling: no nonce above it has been given out. probe: see group-commit.ts.
CREATE TABLE settings (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO settings VALUES ('outbox_ceiling', 0), ('probe', 0);
`
