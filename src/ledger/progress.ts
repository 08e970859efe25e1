/** The part of the ledger's contract for what running jobs say of themselves: progress and checkpoints. */
import type { Checkpoint, JobStanding } from '../job/job.ts'
import type { ProgressNote, ProgressReport } from '../job/progress.ts'
import type { ExtendedLease, SettleFence } from './leases.ts'

export interface NoteFence extends SettleFence {
  /** Only a job of this queue is meant; null: of any. */
  ofQueue: string | null
}

/** Why nothing was written: no such job; a job of another queue; the fence did not match. */
export type NotNoted =
  | { outcome: 'unknown' | 'elsewhere' }
  /** `job`: as it is. */
  | { outcome: 'stale'; job: JobStanding }

export type Reported =
  | NotNoted
  | {
      outcome: 'noted'
      job: JobStanding
      note: ProgressNote
      lease: ExtendedLease
      /** An event about it is due. */
      isTold: boolean
      checkpoint: Checkpoint | null
    }

export type Saved =
  | NotNoted
  /** `lease`: null for a job that waits. */
  | { outcome: 'saved'; checkpoint: Checkpoint; lease: ExtendedLease | null }

export interface ProgressLedger {
  /**
   * Notes what a running job says (`job/progress.ts`), saves the checkpoint that comes with it, and extends its
   * lease by the lease's own length, in one write. Fence: `active`, and the attempt, generation and worker if
   * they are named.
   */
  report(
    id: string,
    fence: NoteFence,
    report: ProgressReport & { now: number; checkpoint: string | null },
  ): Promise<Reported>
}

/**
 * One checkpoint for each job. It outlives every attempt: `claim` returns it with the job. Whatever ends the
 * job deletes it in the same write, unless the job becomes a dead letter; then it goes with the dead letter.
 */
export interface CheckpointLedger {
  /**
   * Replaces the checkpoint of a job, and extends its lease by the lease's own length. Fence: as `report`;
   * `waitingToo`: any job that has not ended.
   */
  save(
    id: string,
    fence: NoteFence & { waitingToo: boolean },
    checkpoint: { now: number; state: string },
  ): Promise<Saved>

  /** False: there was none. */
  remove(id: string): Promise<boolean>
}
