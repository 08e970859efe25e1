import { isErased, type JobRow } from '../job/job.ts'
import type { Deps } from './deps.ts'

/** Returns the job as callers may see it: null also for an erased job, of which only a row is left. */
export function visibleJob({ ledger }: Pick<Deps, 'ledger'>, id: string): JobRow | null {
  const row = ledger.find(id)
  return row === null || isErased(row.state) ? null : row
}
