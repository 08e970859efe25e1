/** Statements for queues: pauses, and queues that are forgotten; and for maintenance mode. */
import type { Maintenance } from '../../maintenance.ts'
import type { StoredSettings } from '../../writes/queue-settings.ts'
import type { Database, Flag } from './driver.ts'

export function prepareQueues(db: Database) {
  return {
    pauses: db.prepare<[], { queue: string; pausedAt: number | null }>(
      `SELECT name AS queue, paused_at AS pausedAt FROM queues
       WHERE paused_at IS NOT NULL OR pause_owed = 1 ORDER BY seq`,
    ),
    /** Since when a paused queue is paused. */
    pausedAt: db.prepare<[queue: string], { pausedAt: number }>(
      'SELECT paused_at AS pausedAt FROM queues WHERE name = ?',
    ),
    pauseQueue: db.prepare<[queue: string, now: number]>(
      'UPDATE queues SET paused_at = ?2, pause_owed = 1 WHERE name = ?1 AND paused_at IS NULL',
    ),
    resumeQueue: db.prepare<[queue: string]>(
      `UPDATE queues SET paused_at = NULL, pause_owed = 1
       WHERE name = ?1 AND paused_at IS NOT NULL`,
    ),
    pauseTold: db.prepare<[queue: string, pausedAt: number | null]>(
      'UPDATE queues SET pause_owed = 0 WHERE name = ?1 AND paused_at IS ?2',
    ),
    queueSettings: db.prepare<[], StoredSettings & { queue: string }>(
      `SELECT name AS queue, draining_at AS drainingAt, configuration FROM queues
       WHERE draining_at IS NOT NULL OR configuration IS NOT NULL ORDER BY seq`,
    ),
    queueSettingsOf: db.prepare<[queue: string], StoredSettings>(
      'SELECT draining_at AS drainingAt, configuration FROM queues WHERE name = ?',
    ),
    drainQueue: db.prepare<[queue: string, now: number]>(
      'UPDATE queues SET draining_at = ?2 WHERE name = ?1 AND draining_at IS NULL',
    ),
    endDrain: db.prepare<[queue: string]>(
      'UPDATE queues SET draining_at = NULL WHERE name = ? AND draining_at IS NOT NULL',
    ),
    configureQueue: db.prepare<[queue: string, configuration: string | null]>(
      'UPDATE queues SET configuration = ?2 WHERE name = ?1',
    ),
    maintenance: db.prepare<[], Maintenance>(
      'SELECT started_at AS startedAt, ends_at AS endsAt, reason FROM maintenance',
    ),
    keepMaintenance: db.prepare<[startedAt: number, endsAt: number | null, reason: string | null]>(
      'INSERT OR REPLACE INTO maintenance (id, started_at, ends_at, reason) VALUES (1, ?, ?, ?)',
    ),
    endMaintenance: db.prepare<[]>('DELETE FROM maintenance'),
    removeQueue: db.prepare<[name: string]>('DELETE FROM queues WHERE name = ?'),
    removeRetryQueue: db.prepare<[queue: string, delayMs: number]>(
      'DELETE FROM rungs WHERE queue = ? AND delay_ms = ?',
    ),
    idleQueues: db.prepare<[], { name: string; since: number }>(
      'SELECT name, idle_since AS since FROM queues WHERE idle_since IS NOT NULL',
    ),
    noteIdle: db.prepare<[name: string, since: number | null]>(
      'UPDATE queues SET idle_since = ?2 WHERE name = ?1',
    ),
    /** Is there anything that keeps the queue from being forgotten, or (`isAsked` 1) deleted? */
    isQueueUsed: db.prepare<[queue: string, isAsked: Flag], { isUsed: number }>(
      `SELECT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_live WHERE queue = ?1 AND ended_at IS NULL)
         OR EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_dead_queue
                    WHERE queue = ?1 AND dead_letter = 1)
         OR EXISTS (SELECT 1 FROM queues WHERE name = ?1 AND ?2 = 0
                    AND (paused_at IS NOT NULL OR pause_owed = 1 OR lost_at IS NOT NULL
                      OR draining_at IS NOT NULL OR configuration IS NOT NULL))
         OR EXISTS (SELECT 1 FROM cron_jobs
                    WHERE coalesce(template ->> '$.options.queue', template ->> '$.queue', 'default') = ?1)
         AS isUsed`,
    ),
    forgetCounts: db.prepare<[queue: string]>('DELETE FROM state_counts WHERE queue = ?'),
  }
}
