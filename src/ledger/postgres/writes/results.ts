/** Results that go before their jobs do, or are not kept at all (`Carry.resultTtlMs`). */
import type { JobRow } from '../../../job/job.ts'
import type { KeptRow } from '../../../job/transitions/row.ts'
import type { Timing } from '../../writes/traffic.ts'
import type { Draft } from '../group/draft.ts'
import { RESULT_ENDS } from '../group/notes.ts'

/** The job that has just been completed, with as much of its result as it may keep. */
export function completedJob(draft: Draft, row: KeptRow, timing: Timing): JobRow {
  draft.traffic.completed(row, timing)
  const job = draft.job(row)
  const ttlMs = job.carry?.resultTtlMs
  const completedAt = row.completedAt ?? 0
  if (ttlMs === undefined) return job
  if (ttlMs <= 0) return draft.job(draft.change(row, { result: null }))
  draft.putSide(RESULT_ENDS, row.id, { endsAt: completedAt + ttlMs, completedAt })
  return job
}

/** Whether there are any to drop. */
export function hasEnding(schema: string): string {
  return `SELECT 1 FROM ${schema}.result_ends WHERE ends_at <= $1 LIMIT 1`
}

/** See `Ledger.pruneResults`. In SQL, because the texts beside a result need not be read for it. */
export function pruneResults(draft: Draft, schema: string, now: number, limit: number): number {
  const text = `WITH ending AS (SELECT job_id, completed_at FROM ${schema}.result_ends
      WHERE ends_at <= $1 ORDER BY ends_at LIMIT $2),
    kept AS (SELECT j.id FROM ending e JOIN ${schema}.jobs j ON j.id = e.job_id
      WHERE j.state = 'completed' AND j.completed_at = e.completed_at ORDER BY j.id FOR UPDATE OF j),
    dropped AS (UPDATE ${schema}.job_bodies b SET result = NULL FROM kept k WHERE b.id = k.id),
    gone AS (DELETE FROM ${schema}.result_ends r USING ending e WHERE r.job_id = e.job_id)
    SELECT count(*) AS n FROM ending`
  return Number(draft.ask({ text, values: [now, limit] })[0]?.['n'])
}
