/** Maintenance mode (`Maintenance`): one row while it lasts. */
export const sql = `
CREATE TABLE maintenance (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  started_at INTEGER NOT NULL,
  ends_at INTEGER,
  reason TEXT
) STRICT;
`
