/** The traffic of a day by the minute and of 30 days by the hour, with histograms; before, of the last hour. */
export const sql = `
-- By time first: what is too old is one range. queue '': all queues together. at: in units of span_ms.
CREATE TABLE traffic (
  span_ms INTEGER NOT NULL,
  at INTEGER NOT NULL,
  queue TEXT NOT NULL,
  enqueued INTEGER NOT NULL,
  completed INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  retried INTEGER NOT NULL,
  timed INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  waited INTEGER NOT NULL,
  wait_ms INTEGER NOT NULL,
  durations TEXT NOT NULL,
  waits TEXT NOT NULL,
  PRIMARY KEY (span_ms, at, queue)
) STRICT, WITHOUT ROWID;

INSERT INTO traffic
  SELECT 60000, minute, queue, 0, completed, failed, 0, timed,
    min(duration_ms, ${Number.MAX_SAFE_INTEGER}), waited, min(wait_ms, ${Number.MAX_SAFE_INTEGER}), '', ''
  FROM queue_minutes;
DROP TABLE queue_minutes;
`
