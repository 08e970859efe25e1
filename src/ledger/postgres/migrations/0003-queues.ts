/** What operators set, what clients register, what requests were answered, and what happened in queues. */
export const sql = `
ALTER TABLE %S.queues
  ADD COLUMN paused_at bigint,
  -- Its native workers have not been told yet how it stands.
  ADD COLUMN pause_owed boolean NOT NULL DEFAULT false,
  -- Since when it has been idle, as far as was noticed; null: it is in use.
  ADD COLUMN idle_since bigint,
  ADD COLUMN draining_at bigint,
  -- JSON of QueueConfiguration.
  ADD COLUMN configuration text;

-- The counts of queues that are forgotten go.
CREATE INDEX state_counts_queue ON %S.state_counts (queue);

-- One row while it lasts.
CREATE TABLE %S.maintenance (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  started_at bigint NOT NULL,
  ends_at bigint,
  reason text
);

-- Numbers by name: the epochs, and when a gateway used the ledger last.
CREATE TABLE %S.settings (name text PRIMARY KEY, value bigint NOT NULL);

-- A registration is a nonce: never used again, it tells one registration of a uri from the next.
CREATE TABLE %S.schemas (
  registration bigint PRIMARY KEY,
  uri text COLLATE "C" NOT NULL UNIQUE,
  type text NOT NULL,
  version bigint NOT NULL,
  -- The version as it was sent, if that was a text; null: it is the number in version.
  version_text text,
  content text NOT NULL,
  created_at bigint NOT NULL
);

-- Requests with an Idempotency-Key, and the ids of their answers as JSON.
CREATE TABLE %S.idempotency_keys (
  key text COLLATE "C" PRIMARY KEY,
  seq bigint GENERATED ALWAYS AS IDENTITY,
  fingerprint text NOT NULL,
  ids text NOT NULL,
  existing text NOT NULL,
  created_at bigint NOT NULL
);
CREATE INDEX idempotency_keys_order ON %S.idempotency_keys (seq);

-- The numbers are without gaps.
CREATE TABLE %S.audit (
  number bigint PRIMARY KEY,
  at bigint NOT NULL,
  request_id text NOT NULL,
  key text,
  role text,
  address text,
  method text NOT NULL,
  route text NOT NULL,
  path text NOT NULL,
  status int NOT NULL
);
CREATE INDEX audit_of_key ON %S.audit (key, number) WHERE key IS NOT NULL;

-- Minutes and hours of queues, by the slot that wrote them: only the sums over all slots mean something.
-- queue '': all queues together. at: in units of span_ms, since 1970. durations, waits: histograms.
CREATE TABLE %S.traffic (
  slot int,
  span_ms int,
  at bigint,
  queue text COLLATE "C",
  enqueued bigint NOT NULL,
  completed bigint NOT NULL,
  failed bigint NOT NULL,
  retried bigint NOT NULL,
  timed bigint NOT NULL,
  duration_ms bigint NOT NULL,
  waited bigint NOT NULL,
  wait_ms bigint NOT NULL,
  durations text NOT NULL,
  waits text NOT NULL,
  PRIMARY KEY (queue, span_ms, at, slot)
) WITH (fillfactor = 70);
-- What is too old, and the last hour.
CREATE INDEX traffic_at ON %S.traffic (span_ms, at);
`
