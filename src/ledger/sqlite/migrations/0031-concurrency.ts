/** Concurrency keys: which waiting jobs have one, and how many jobs of a key are active. */
export const sql = `
ALTER TABLE jobs ADD COLUMN concurrency_key TEXT;
CREATE INDEX jobs_keyed ON jobs (holder, concurrency_key, queue, priority DESC, enqueued_at)
  WHERE concurrency_key IS NOT NULL AND state = 'available';
CREATE TABLE concurrency (
  key TEXT PRIMARY KEY,
  active INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`
