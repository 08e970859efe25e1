/** Operations on many jobs: what to do (`terms`, JSON), and how far each is (`BulkOperation`). */
export const sql = `
CREATE TABLE bulk_operations (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  state TEXT NOT NULL DEFAULT 'running',
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  ended_at INTEGER,
  place_at INTEGER,
  place_row INTEGER,
  matched INTEGER NOT NULL DEFAULT 0,
  succeeded INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  has_more INTEGER NOT NULL DEFAULT 0,
  refused TEXT NOT NULL DEFAULT '[]',
  terms TEXT NOT NULL
) STRICT;
CREATE INDEX bulk_running ON bulk_operations (seq) WHERE ended_at IS NULL;
`
