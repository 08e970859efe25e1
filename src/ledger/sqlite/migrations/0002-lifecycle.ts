/**
 * Retries, schedules, timeouts, dead letters and retention. The table is built anew, because added
 * columns would come after the big texts (see 0001).
 *
 * The rule of 0001 holds: index conditions are on columns that change once per life, so that a
 * claim and an ack still write two index entries each. `jobs_lease` remains the one index for leases; it is
 * ordered by the end of the lease or of the execution timeout, whichever is first.
 */
export const sql = `
CREATE TABLE jobs_anew (
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
  rung_ms INTEGER,
  retry_delay_ms INTEGER,
  expires_at INTEGER,
  created_at INTEGER NOT NULL,
  enqueued_at INTEGER NOT NULL,
  activated_at INTEGER,
  started_at INTEGER,
  completed_at INTEGER,
  cancelled_at INTEGER,
  discarded_at INTEGER,
  ended_at INTEGER,
  dead_letter INTEGER NOT NULL DEFAULT 0,
  dead_letter_copied INTEGER NOT NULL,
  carry TEXT,
  error TEXT,
  errors TEXT,
  result TEXT,
  envelope TEXT NOT NULL
) STRICT;

INSERT INTO jobs_anew (seq, id, generation, state, attempt, queue, type, priority, max_attempts,
  visibility_timeout_ms, timeout_ms, outbox, token_out, holder, worker_id, lease_ms,
  lease_expires_at, timeout_at, due_at, expires_at, created_at, enqueued_at, started_at,
  completed_at, cancelled_at, discarded_at, ended_at, dead_letter, dead_letter_copied, carry,
  error, errors, result, envelope)
SELECT seq, id, generation, state, attempt, queue, type, priority, max_attempts,
  visibility_timeout_ms, timeout_ms, outbox, token_out, holder, worker_id, lease_ms,
  lease_expires_at, timeout_at, due_at, expires_at, created_at, enqueued_at, started_at,
  completed_at, cancelled_at, discarded_at, ended_at, state = 'discarded', dead_letter_copied,
  carry, error, errors, result, envelope
FROM jobs ORDER BY seq;

DROP TABLE jobs;
ALTER TABLE jobs_anew RENAME TO jobs;

-- The relay's list of messages that are owed.
CREATE UNIQUE INDEX jobs_outbox ON jobs (outbox) WHERE outbox IS NOT NULL;
-- Everything that is not over, by queue, in order of arrival.
CREATE INDEX jobs_live ON jobs (queue) WHERE ended_at IS NULL;
-- Active jobs by the end of their lease or their execution time, whichever is first.
CREATE INDEX jobs_lease ON jobs (min(lease_expires_at, coalesce(timeout_at, lease_expires_at)))
  WHERE lease_expires_at IS NOT NULL;
-- Scheduled and retryable jobs by the time they become claimable.
CREATE INDEX jobs_due ON jobs (state, due_at) WHERE due_at IS NOT NULL AND ended_at IS NULL;
-- Jobs that nobody may start any more from then on.
CREATE INDEX jobs_expires ON jobs (expires_at) WHERE expires_at IS NOT NULL AND ended_at IS NULL;
-- Dead letters of all queues and of one, newest first when read backwards.
CREATE INDEX jobs_dead ON jobs (discarded_at) WHERE dead_letter = 1;
CREATE INDEX jobs_dead_queue ON jobs (queue, discarded_at) WHERE dead_letter = 1;
-- What retention may delete; a row whose token is still out is not among it (docs/architecture.md §7).
CREATE INDEX jobs_prunable ON jobs (state, dead_letter, ended_at)
  WHERE ended_at IS NOT NULL AND token_out = 0;
-- Ended rows whose token has not come back.
CREATE INDEX jobs_stray ON jobs (queue) WHERE ended_at IS NOT NULL AND token_out = 1;

-- Dead letters are counted beside the states; they are discarded jobs too.
INSERT INTO state_counts (queue, state, count)
SELECT queue, 'dead_letter', count(*) FROM jobs WHERE dead_letter = 1 GROUP BY queue;

-- 1: its DLX queue holds copies that nobody needs any more.
ALTER TABLE queues ADD COLUMN stale_copies INTEGER NOT NULL DEFAULT 0;

-- TTL queues of retries that were declared; the broker cannot be asked for what is gone.
CREATE TABLE rungs (
  queue TEXT NOT NULL,
  delay_ms INTEGER NOT NULL,
  PRIMARY KEY (queue, delay_ms)
) STRICT, WITHOUT ROWID;
`
