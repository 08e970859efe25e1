/** What a request says of the lease that it is about, and whether a row still has that lease. */
import type { JobStanding } from './job.ts'

/** Members that are absent or null say nothing. */
export interface LeaseTold {
  attempt?: number | null | undefined
  /** An attempt alone does not tell a lease from one before the retry of the dead letter. */
  generation?: number | null | undefined
  /** Counts where the claim recorded an owner. */
  workerId?: string | null | undefined
}

/** Compares as the statements of ACK and heartbeat do. */
export function isHeld(
  row: Pick<JobStanding, 'state' | 'attempt' | 'generation' | 'workerId'>,
  { attempt, generation, workerId }: LeaseTold,
): boolean {
  return (
    row.state === 'active' &&
    (attempt == null || attempt === row.attempt) &&
    (generation == null || generation === row.generation) &&
    (workerId == null || row.workerId === null || workerId === row.workerId)
  )
}
