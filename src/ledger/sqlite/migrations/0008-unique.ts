/**
 * Unique jobs, and the requests that came with an `Idempotency-Key`.
 *
 * `jobs_unique` names `state`, against the rule of 0001: the conflict test asks for rows of a key in
 * some states, and an often repeated key has any number of ended ones. Only unique jobs pay with an
 * index write at each change of state; for the others SQLite looks at a NULL and is done.
 *
 * The keys go by `seq` in order of time: a key that is used again after its day is stored anew.
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
