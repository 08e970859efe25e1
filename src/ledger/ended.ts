/** What a write tells of the jobs that it ended, and of the workflows that went on because of that. */
import type { JobRow, JobState } from '../job/job.ts'
import type { EndedStep, FailedStep, WorkflowHead } from '../job/workflow/row.ts'

/**
 * Part of every outcome that says that a job has ended. `news`: what this did to workflows, in order; absent if the
 * job was no step of one. Whoever asked for the write publishes what was born, and emits the events.
 */
export interface WithNews {
  news?: readonly WorkflowNews[] | undefined
}

export type WorkflowNews =
  /** A step has begun: its job owes a job message, unless it is scheduled for later. */
  | { what: 'born'; workflow: WorkflowHead; job: JobRow }
  /** The job of a step that has begun replaced this job (`unique`). The news of its end stand before this. */
  | { what: 'replaced'; workflow: WorkflowHead; cancelled: Omit<Cancelled, 'news'> }
  | { what: 'step'; workflow: WorkflowHead; step: EndedStep }
  /** `failed`: if the workflow has failed, the last step that failed. */
  | { what: 'ended'; workflow: WorkflowHead; failed: FailedStep | null }

/** The row of a job whose attempt was completed. */
export type CompletedJob = JobRow & WithNews

export interface Expired extends WithNews {
  job: JobRow
  /** This process was to publish the job's message, and has seen no confirm of it. */
  isMessageOwed: boolean
}

export interface Cancelled extends Expired {
  previousState: JobState
}
