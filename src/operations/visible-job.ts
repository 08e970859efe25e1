import { isErased, type JobRow } from '../job/job.ts'
import type { Deps } from './deps.ts'

/** The job as callers may see it: what is left of one that is erased is no job to them. */
export function visibleJob({ ledger }: Pick<Deps, 'ledger'>, id: string): JobRow | null {
  const row = ledger.find(id)
  return row === null || isErased(row.state) ? null : row
}
