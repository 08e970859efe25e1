import type { JobRow } from '../job/job.ts'
import type { Deps } from './deps.ts'

/** The job as callers may see it: what a refused PUSH has left (`withdrawn`) is no job to them. */
export function visibleJob({ ledger }: Pick<Deps, 'ledger'>, id: string): JobRow | null {
  const row = ledger.find(id)
  return row?.state === 'withdrawn' ? null : row
}
