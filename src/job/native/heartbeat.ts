/** What a native worker's heartbeat does to a job that it names. */
import { isClaimable, isWaitingWithNative } from '../arrival.ts'
import { isTerminal, type JobRow } from '../job.ts'

/**
 * What a native worker's heartbeat does to a job that it names (docs/architecture.md §5).
 *
 * - `extend`: the lease is this worker's (or has no owner and is native): extend it.
 * - `start`: the worker runs the job without having reported the start: attempt + 1, holder native.
 * - `resume`: the worker's lease had run out, but it still runs the job: the same attempt, a new lease.
 * - `cancelled`: the job was cancelled, and the worker does not know it.
 * - `ignore`: the job is another worker's, has ended, may not run yet, or was retried by hand since the life that the
 *   worker runs.
 */
export type BeatDecision = 'extend' | 'start' | 'resume' | 'cancelled' | 'ignore'

type Fate = Pick<JobRow, 'state' | 'holder' | 'workerId' | 'dueAt' | 'generation'>

/** `generation`: of the run that the worker names. */
export function decideBeat(
  { workerId, generation }: { workerId: string; generation: number },
  row: Fate,
  context: { now: number; wall: number },
): BeatDecision {
  if (row.state === 'cancelled') return 'cancelled'
  if (isTerminal(row.state)) return 'ignore'
  if (row.state === 'active') {
    const isUnowned = row.workerId === null && row.holder === 'native'
    return row.workerId === workerId || isUnowned ? 'extend' : 'ignore'
  }
  // An attempt of the new life must not begin by the run of the old one: nobody would run it.
  if (generation < row.generation) return 'ignore'
  if (isWaitingWithNative(row)) return 'resume'
  return isClaimable(row, context) ? 'start' : 'ignore'
}
