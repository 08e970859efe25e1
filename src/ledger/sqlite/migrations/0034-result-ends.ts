/**
 * Results that go before their jobs do. `completed_at`: of the completion that the entry is about, because a job
 * may be retried and end again.
 */
export const sql = `
CREATE TABLE result_ends (
  job INTEGER PRIMARY KEY,
  ends_at INTEGER NOT NULL,
  completed_at INTEGER NOT NULL
) STRICT;
CREATE INDEX result_ends_at ON result_ends (ends_at);
`
