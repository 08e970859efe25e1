/** Statements for results that are not kept as long as their jobs. Only jobs that ask for it run them. */
import type { Database } from './driver.ts'

export function prepareResults(db: Database) {
  return {
    dropResult: db.prepare<[id: string]>('UPDATE jobs SET result = NULL WHERE id = ?1'),
    noteResultEnd: db.prepare<[id: string, ttlMs: number]>(
      `INSERT OR REPLACE INTO result_ends (job, ends_at, completed_at)
       SELECT seq, completed_at + ?2, completed_at FROM jobs WHERE id = ?1`,
    ),
    resultsEnding: db.prepare<[until: number, limit: number], { job: number; completedAt: number }>(
      `SELECT job, completed_at AS completedAt FROM result_ends
       WHERE ends_at <= ?1 ORDER BY ends_at LIMIT ?2`,
    ),
    pruneResult: db.prepare<[seq: number, completedAt: number]>(
      `UPDATE jobs SET result = NULL WHERE seq = ?1 AND state = 'completed' AND completed_at = ?2`,
    ),
    forgetResultEnd: db.prepare<[seq: number]>('DELETE FROM result_ends WHERE job = ?'),
  }
}
