import type { Database } from './driver.ts'

/** What belongs to whole queues. */
export function prepareQueues(db: Database) {
  return {
    pauses: db.prepare(
      `SELECT name AS queue, paused_at AS pausedAt FROM queues
       WHERE paused_at IS NOT NULL OR pause_owed = 1 ORDER BY seq`,
    ),
    pausedAt: db.prepare('SELECT paused_at AS pausedAt FROM queues WHERE name = ?'),
    /** ?2 now. */
    pauseQueue: db.prepare(
      'UPDATE queues SET paused_at = ?2, pause_owed = 1 WHERE name = ?1 AND paused_at IS NULL',
    ),
    resumeQueue: db.prepare(
      `UPDATE queues SET paused_at = NULL, pause_owed = 1
       WHERE name = ?1 AND paused_at IS NOT NULL`,
    ),
    /** ?2 since when it is paused, or null. */
    pauseTold: db.prepare('UPDATE queues SET pause_owed = 0 WHERE name = ?1 AND paused_at IS ?2'),
    minutes: db.prepare(
      `SELECT minute, queue, completed, failed, timed, duration_ms AS durationMs, waited,
         wait_ms AS waitMs
       FROM queue_minutes ORDER BY minute`,
    ),
    keepMinute: db.prepare(
      `INSERT INTO queue_minutes
         (minute, queue, completed, failed, timed, duration_ms, waited, wait_ms)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
       ON CONFLICT (minute, queue) DO UPDATE SET completed = ?3, failed = ?4, timed = ?5,
         duration_ms = ?6, waited = ?7, wait_ms = ?8`,
    ),
    pruneMinutes: db.prepare('DELETE FROM queue_minutes WHERE minute <= ?'),
    forgetMinutesAfter: db.prepare('DELETE FROM queue_minutes WHERE minute > ?'),
  }
}
