/** The history of jobs: each change of state, stored by the write that makes it. */
import type { StateChange } from '../job/history/changes.ts'
import type { JobRow } from '../job/job.ts'

/**
 * Every write that changes the state of a job also records that change, in the same row, so that neither is
 * ever there without the other. Kept as long as the row. Of a job with very many changes the oldest are
 * dropped; at least the newest 30 are kept.
 */
export interface HistoryLedger {
  /** Forgets what is recorded of the job so far. Returns that; null: no such job. */
  clear(id: string): Promise<JobHistory | null>
}

export interface JobHistory {
  job: JobRow
  /** Oldest first. */
  changes: StateChange[]
  /** Changes before these are not known: they were dropped. */
  isFolded: boolean
}
