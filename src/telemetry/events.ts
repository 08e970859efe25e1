import type { JobRow, JobState } from '../job/job.ts'

/**
 * What happened to a job, told after the commit that made it true (law 4). Names are those of the
 * OJS event vocabulary (ojs-digest §10.1).
 */
export type JobEvent =
  | { type: 'job.enqueued'; job: JobRow; requestId?: string }
  | { type: 'job.started'; job: JobRow; requestId?: string }
  | { type: 'job.completed'; job: JobRow; requestId?: string }
  | { type: 'job.cancelled'; job: JobRow; previousState: JobState; requestId?: string }
  | { type: 'job.expired'; job: JobRow }
  | { type: 'job.discarded'; job: JobRow }
  /** A native message that is no OJS job; it goes to the dead letter queue. */
  | { type: 'token.malformed'; queue: string; error: Error }

export interface JobEvents {
  emit(event: JobEvent): void
}

/** Hands every event to each listener in order. A listener must not throw. */
export function createJobEvents(listeners: readonly ((event: JobEvent) => void)[]): JobEvents {
  return {
    emit(event) {
      for (const listener of listeners) listener(event)
    },
  }
}
