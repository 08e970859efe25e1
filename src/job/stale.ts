/** The outcome of a write whose fence did not match. */
import type { JobStanding } from './job.ts'

/**
 * The write changed nothing. `row`: the job as the fence saw it, so that nobody need read afterwards what may
 * have moved on by then; null: unknown. Rows that are erased are in it too; operations hide them.
 */
export interface Stale {
  outcome: 'stale'
  row: JobStanding | null
}

export function isStale<Done extends object>(done: Done | Stale): done is Stale {
  return 'outcome' in done && done.outcome === 'stale'
}
