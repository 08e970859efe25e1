/** Who did what (`AuditRecord`). Without AUTOINCREMENT: the newest row stays, so no number comes twice. */
export const sql = `
CREATE TABLE audit (
  number INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  request_id TEXT NOT NULL,
  key TEXT,
  role TEXT,
  address TEXT,
  method TEXT NOT NULL,
  route TEXT NOT NULL,
  path TEXT NOT NULL,
  status INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_of_key ON audit (key, number) WHERE key IS NOT NULL;
`
