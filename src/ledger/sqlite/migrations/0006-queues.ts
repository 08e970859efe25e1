/**
 * Pauses, and the traffic of each queue by the minute, for the last hour, so that statistics are read without
 * reading jobs.
 */
export const sql = `
ALTER TABLE queues ADD COLUMN paused_at INTEGER;
-- 1: the native workers of the queue have not been told yet how it stands.
ALTER TABLE queues ADD COLUMN pause_owed INTEGER NOT NULL DEFAULT 0;

-- By minute first: what is too old is one range. timed: completed jobs whose duration is known;
-- waited: attempts whose wait in the queue is.
CREATE TABLE queue_minutes (
  minute INTEGER NOT NULL,
  queue TEXT NOT NULL,
  completed INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  timed INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  waited INTEGER NOT NULL,
  wait_ms INTEGER NOT NULL,
  PRIMARY KEY (minute, queue)
) STRICT, WITHOUT ROWID;
`
