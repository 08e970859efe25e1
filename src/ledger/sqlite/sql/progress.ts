/** Statements for progress and checkpoints. */
import type { Checkpoint } from '../../../job/job.ts'
import type { ProgressNote } from '../../../job/progress.ts'
import type { Database } from './driver.ts'

export function prepareProgress(db: Database) {
  return {
    hasNotes: db.prepare<[], { progress: number; checkpoints: number }>(
      `SELECT EXISTS (SELECT 1 FROM progress) AS progress,
         EXISTS (SELECT 1 FROM checkpoints) AS checkpoints`,
    ),
    progress: db.prepare<[id: string], ProgressNote>(
      `SELECT generation, attempt, progress, message, updated_at AS updatedAt, told_at AS toldAt, data
       FROM progress WHERE job_id = ?`,
    ),
    presentProgress: db.prepare<[ids: string], ProgressNote & { jobId: string }>(
      `SELECT p.job_id AS jobId, p.generation, p.attempt, p.progress, p.message,
         p.updated_at AS updatedAt, p.told_at AS toldAt, p.data
       FROM json_each(?) w CROSS JOIN progress p ON p.job_id = w.value
       CROSS JOIN jobs j ON j.id = p.job_id AND j.generation = p.generation AND j.attempt = p.attempt`,
    ),
    noteProgress: db.prepare<
      [
        id: string,
        generation: number,
        attempt: number,
        progress: number | null,
        message: string | null,
        updatedAt: number,
        toldAt: number,
        data: string | null,
      ]
    >(
      `INSERT OR REPLACE INTO progress
         (job_id, generation, attempt, progress, message, updated_at, told_at, data)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`,
    ),
    forgetProgress: db.prepare<[id: string]>('DELETE FROM progress WHERE job_id = ?'),
    checkpoint: db.prepare<[id: string], Checkpoint>(
      `SELECT sequence, created_at AS createdAt, state FROM checkpoints WHERE job_id = ?`,
    ),
    saveCheckpoint: db.prepare<[id: string, now: number, state: string], { sequence: number }>(
      `INSERT INTO checkpoints (job_id, sequence, created_at, state) VALUES (?1, 1, ?2, ?3)
       ON CONFLICT (job_id) DO UPDATE
       SET sequence = sequence + 1, created_at = excluded.created_at, state = excluded.state
       RETURNING sequence`,
    ),
    forgetCheckpoint: db.prepare<[id: string]>('DELETE FROM checkpoints WHERE job_id = ?'),
    idOf: db.prepare<[seq: number], { id: string }>('SELECT id FROM jobs WHERE seq = ?'),
  }
}
