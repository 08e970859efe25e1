/**
 * Replaces the index `jobs_unique` by two things. Keys are hashes, so in an index that SQLite maintains each
 * new job dirties a page of its own, which the commit has to write: a plain job costs 30 µs in the ledger, and
 * a unique one did 50 (bench/HISTORY.md).
 *
 * `unique_keys` says which rows may have a key, and is written in bulk, late, and in the order of the keys
 * (`recent-unique-keys.ts`). It does not say in which state they are, so where a key has many rows, the newer ones
 * are `crowded`, and have an index as before; they share its pages. `unique_keys_to`: all rows up to this
 * `seq` that should be in `unique_keys` are.
 */
export const sql = `
CREATE TABLE unique_keys (
  beginning TEXT NOT NULL,
  seq INTEGER NOT NULL,
  PRIMARY KEY (beginning, seq)
) STRICT, WITHOUT ROWID;
ALTER TABLE jobs ADD COLUMN crowded INTEGER NOT NULL DEFAULT 0;

UPDATE jobs SET crowded = 1 WHERE unique_key IN (
  SELECT unique_key FROM jobs WHERE unique_key IS NOT NULL GROUP BY unique_key HAVING count(*) > 4);
INSERT INTO unique_keys
SELECT substr(unique_key, 1, 10), seq FROM jobs WHERE unique_key IS NOT NULL AND crowded = 0
ORDER BY 1, 2;
INSERT INTO settings (name, value)
VALUES ('unique_keys_to', (SELECT coalesce(max(seq), 0) FROM jobs));

DROP INDEX jobs_unique;
CREATE INDEX jobs_crowded ON jobs (substr(unique_key, 1, 10), substr(state, 1, 2), created_at)
  WHERE crowded = 1 AND unique_key IS NOT NULL;

CREATE TRIGGER unique_key_erased AFTER UPDATE OF unique_key ON jobs WHEN old.unique_key IS NOT NULL
BEGIN DELETE FROM unique_keys WHERE beginning = substr(old.unique_key, 1, 10) AND seq = old.seq; END;
CREATE TRIGGER unique_key_deleted AFTER DELETE ON jobs WHEN old.unique_key IS NOT NULL
BEGIN DELETE FROM unique_keys WHERE beginning = substr(old.unique_key, 1, 10) AND seq = old.seq; END;
`
