/** What running jobs say of themselves, in tables of their own: most jobs say nothing. */
export const sql = `
CREATE TABLE progress (
  job_id TEXT NOT NULL PRIMARY KEY,
  generation INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  progress REAL,
  message TEXT,
  updated_at INTEGER NOT NULL,
  told_at INTEGER NOT NULL,
  data TEXT
) STRICT;
CREATE TABLE checkpoints (
  job_id TEXT NOT NULL PRIMARY KEY,
  sequence INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  state TEXT NOT NULL
) STRICT;
`
