/**
 * Registered JSON Schemas. AUTOINCREMENT: a number that is never used again tells one registration
 * of a uri from the next.
 */
export const sql = `
CREATE TABLE schemas (
  registration INTEGER PRIMARY KEY AUTOINCREMENT,
  uri TEXT NOT NULL UNIQUE,
  type TEXT NOT NULL,
  version INTEGER NOT NULL,
  content TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
`
