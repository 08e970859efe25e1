/**
 * Jobs. What changes with every transition (`jobs`) is apart from the texts, which are written once or twice
 * (`job_bodies`): PostgreSQL writes a whole row anew each time.
 *
 * `ended_at` is set exactly while the row is terminal (`withdrawn` included). Every index is partial: a
 * transition writes all of those that match.
 */
export const sql = `
CREATE TABLE %S.jobs (
  id text COLLATE "C" PRIMARY KEY,
  -- The order of arrival.
  seq bigint GENERATED ALWAYS AS IDENTITY,
  generation bigint NOT NULL,
  state text NOT NULL CHECK (state IN ('available', 'scheduled', 'pending', 'active', 'retryable',
    'completed', 'cancelled', 'discarded', 'withdrawn')),
  attempt bigint NOT NULL CHECK (attempt >= 0),
  queue text COLLATE "C" NOT NULL,
  type text NOT NULL,
  priority bigint NOT NULL,
  max_attempts bigint NOT NULL,
  visibility_timeout_ms bigint,
  timeout_ms bigint NOT NULL,
  outbox bigint,
  message_out boolean NOT NULL,
  holder text CHECK (holder IN ('gateway', 'ledger', 'native')),
  worker_id text,
  lease_ms bigint,
  lease_expires_at bigint,
  timeout_at bigint,
  due_at bigint,
  retry_queue_ms bigint,
  retry_delay_ms bigint,
  expires_at bigint,
  created_at bigint NOT NULL,
  enqueued_at bigint NOT NULL,
  activated_at bigint,
  started_at bigint,
  completed_at bigint,
  cancelled_at bigint,
  discarded_at bigint,
  is_dead_letter boolean NOT NULL,
  dead_letter_copied boolean NOT NULL,
  ended_at bigint,
  extended_ms bigint,
  history text NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE %S.job_bodies (
  id text COLLATE "C" PRIMARY KEY,
  carry text,
  error text,
  errors text,
  result text,
  envelope text NOT NULL
);

-- The relay's list of messages that are owed.
CREATE UNIQUE INDEX jobs_outbox ON %S.jobs (outbox) WHERE outbox IS NOT NULL;
-- Everything that is not over, by queue, in order of arrival.
CREATE INDEX jobs_live ON %S.jobs (queue, seq) WHERE ended_at IS NULL;
-- Active jobs by the end of their lease or their execution time, whichever is first.
CREATE INDEX jobs_lease ON %S.jobs (least(lease_expires_at, timeout_at)) WHERE lease_expires_at IS NOT NULL;
-- Scheduled and retryable jobs by the time they become claimable.
CREATE INDEX jobs_due ON %S.jobs (state, due_at) WHERE due_at IS NOT NULL AND ended_at IS NULL;
-- Jobs that nobody may start any more from then on.
CREATE INDEX jobs_expires ON %S.jobs (expires_at) WHERE expires_at IS NOT NULL AND ended_at IS NULL;
-- Dead letters of one queue, the oldest first.
CREATE INDEX jobs_dead ON %S.jobs (queue, discarded_at) WHERE is_dead_letter;
-- What retention may delete; a row whose message is still out is not among it (docs/architecture.md §7).
CREATE INDEX jobs_prunable ON %S.jobs (state, is_dead_letter, ended_at)
  WHERE ended_at IS NOT NULL AND NOT message_out;
-- Ended rows whose message has not come back.
CREATE INDEX jobs_stray ON %S.jobs (queue, seq) WHERE ended_at IS NOT NULL AND message_out;

CREATE TABLE %S.queues (
  seq bigint GENERATED ALWAYS AS IDENTITY,
  name text COLLATE "C" PRIMARY KEY,
  created_at bigint NOT NULL,
  -- See Reads.queueIdentity.
  identity text,
  lost_at bigint,
  -- Its DLX queue holds copies that nobody needs any more.
  has_stale_copies boolean NOT NULL DEFAULT false
);

-- The broker cannot be asked for what is gone.
CREATE TABLE %S.retry_queues (
  queue text COLLATE "C",
  delay_ms bigint,
  PRIMARY KEY (queue, delay_ms)
);

CREATE TABLE %S.unwritten_queues (name text COLLATE "C" PRIMARY KEY);

-- Cancelled ids that the ledger knows no job of.
CREATE TABLE %S.tombstones (
  id text COLLATE "C" PRIMARY KEY,
  seq bigint GENERATED ALWAYS AS IDENTITY,
  queue text COLLATE "C" NOT NULL,
  cancelled_at bigint NOT NULL,
  -- Only a message of this queue is dropped.
  is_scoped boolean NOT NULL
);
CREATE INDEX tombstones_queue ON %S.tombstones (queue, cancelled_at);
CREATE INDEX tombstones_age ON %S.tombstones (cancelled_at);
CREATE INDEX tombstones_order ON %S.tombstones (seq);

-- By the slot that wrote them, so that no two gateways wait for one row: only the sum over all slots means
-- something.
CREATE TABLE %S.state_counts (
  slot int,
  queue text COLLATE "C",
  state text,
  count bigint NOT NULL,
  PRIMARY KEY (slot, queue, state)
) WITH (fillfactor = 50);

-- Each start of a gateway has a number, with which its nonces begin.
CREATE TABLE %S.gateways (
  incarnation bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  owner uuid NOT NULL,
  started_at timestamptz NOT NULL DEFAULT now()
);
`
