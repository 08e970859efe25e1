/** The unique keys of jobs that retention has deleted, kept for as long as their policies say. */
import type { JobRow, JobState } from '../../job/job.ts'
import { storedTerms } from '../../job/unique.ts'
import type { KeyHolder } from '../enqueued.ts'
import type { KeyQuery } from './unique.ts'

/** The key of a job that retention has deleted, with the state in which the job ended. */
export interface KeptKey extends Pick<JobRow, 'id' | 'createdAt'> {
  state: JobState
  until: number
}

/** How many of them are kept, of some 250 bytes each on the disk. */
export const MAX_KEPT_KEYS = 10_000_000

/** The job that conflicts, of the keys that were kept of pruned ones. */
export function keptHolder(
  kept: readonly Pick<KeptKey, 'id' | 'state' | 'createdAt'>[],
  { states, createdAfter }: KeyQuery,
): KeyHolder | undefined {
  const found = kept.find((row) => row.createdAt > createdAfter && states.includes(row.state))
  return found && { id: found.id, state: found.state, isGone: true }
}

/**
 * Until when the key of a job is kept that ended in `state` and is pruned now; null: not at all. Its own policy
 * decides: it must name the state, and have a period that is not over. With the default states an ended job
 * conflicts with no other. `terms`: JSON text with the policy.
 */
export function keptUntil(
  terms: string,
  { state, createdAt }: Pick<KeptKey, 'state' | 'createdAt'>,
  now: number,
): number | null {
  const periodMs = periodIn(terms, state)
  return periodMs === null || createdAt + periodMs <= now ? null : createdAt + periodMs
}

/** The period of a policy that names the state. A policy of an earlier build must not stop retention. */
function periodIn(terms: string, state: JobState): number | null {
  try {
    const { periodMs, states } = storedTerms(terms)
    return states.includes(state) ? periodMs : null
  } catch {
    return null
  }
}
