/**
 * Shortens the index of unique keys to the beginnings of its texts: an entry has 30 bytes instead of 90. Keys
 * are hashes, so each insert dirties another page of the index, and SQLite writes whole pages: a third of
 * what a unique job costs more than a plain one (bench/HISTORY.md). Among a million keys, ten digits leave
 * one pair at most that looks equal, and the whole key is compared in the row. Two letters tell states apart.
 */
export const sql = `
DROP INDEX jobs_unique;
CREATE INDEX jobs_unique ON jobs (substr(unique_key, 1, 10), substr(state, 1, 2), created_at)
  WHERE unique_key IS NOT NULL;
`
