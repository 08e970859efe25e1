/**
 * Unique jobs, and the requests that came with an `Idempotency-Key`.
 *
 * `jobs_unique` contains `state`, against the rule of 0001: the conflict test looks for rows of a key in some
 * states, and a key that is used often has any number of ended rows. Only unique jobs pay for it, with an
 * index write at each change of state; for other jobs SQLite finds a NULL and skips the index.
 *
 * The order of `seq` is the order of time: a key that is used again after a day is stored anew.
 */
export const sql = `
ALTER TABLE jobs ADD COLUMN unique_key TEXT;
CREATE INDEX jobs_unique ON jobs (unique_key, state, created_at) WHERE unique_key IS NOT NULL;

CREATE TABLE idempotency_keys (
  seq INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE,
  fingerprint TEXT NOT NULL,
  -- The ids that the first answer named, and the places of those that were there before it.
  jobs TEXT NOT NULL,
  existing TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
`
