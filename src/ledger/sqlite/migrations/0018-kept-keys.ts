/**
 * The unique keys of jobs that retention has deleted while the period of their policy goes on. A key has at
 * most one row for each state that a deleted job can have. Triggers count the rows, because to count ten
 * million takes a second.
 */
export const sql = `
CREATE TABLE kept_keys (
  key TEXT NOT NULL,
  state TEXT NOT NULL,
  job_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY (key, state)
) STRICT, WITHOUT ROWID;
CREATE INDEX kept_keys_until ON kept_keys (until);
INSERT INTO settings (name, value) VALUES ('kept_keys', 0);
CREATE TRIGGER kept_key_added AFTER INSERT ON kept_keys
BEGIN UPDATE settings SET value = value + 1 WHERE name = 'kept_keys'; END;
CREATE TRIGGER kept_key_deleted AFTER DELETE ON kept_keys
BEGIN UPDATE settings SET value = value - 1 WHERE name = 'kept_keys'; END;
`
