import type { Failure } from '../job/error-history.ts'
import type { JobRow, JobState } from '../job/job.ts'
import type { WorkflowEvent } from './workflow-events.ts'

/**
 * What happened to a job, to a queue or to an entry that makes jobs, told after the commit that made
 * it true (law 4). Names are those of the OJS event vocabulary (ojs-digest §10.1).
 */
export type JobEvent =
  | WorkflowEvent
  /** `promoted`: it had waited for a time or for a retry, and was counted when it was stored. */
  | { type: 'job.enqueued'; job: JobRow; requestId?: string; promoted?: true; inBatch?: true }
  /** Stored with a time that is still ahead (ojs-digest §10.2). */
  | { type: 'job.scheduled'; job: JobRow; requestId?: string; inBatch?: true }
  /** Stored, and staged until somebody activates it. Not in the vocabulary: logged and counted. */
  | { type: 'job.staged'; job: JobRow; requestId?: string; inBatch?: true }
  | { type: 'job.started'; job: JobRow; requestId?: string }
  | { type: 'job.completed'; job: JobRow; requestId?: string }
  | { type: 'job.cancelled'; job: JobRow; previousState: JobState; requestId?: string }
  /** Every attempt that failed; before `job.retrying` or `job.discarded` of the same attempt. */
  | { type: 'job.failed'; job: JobRow; attempt: number; failure: FailureFacts; requestId?: string }
  | { type: 'job.retrying'; job: JobRow; failure: FailureFacts; requestId?: string }
  | { type: 'job.heartbeat'; job: LeaseFacts; workerId: string }
  | { type: 'job.expired'; job: JobRow }
  | { type: 'job.discarded'; job: JobRow; requestId?: string }
  /** Listed under `GET /dead-letter` from now on; right behind the end that put it there (C-93). */
  | { type: 'dead_letter.added'; job: JobRow; requestId?: string }
  /** A dead letter that came back to life. */
  | { type: 'dead_letter.retried'; job: JobRow; requestId?: string }
  | { type: 'dead_letter.deleted'; job: JobRow; requestId?: string }
  | QueueEvent
  /** A native message that is no OJS job; it goes to the dead letter queue. */
  | { type: 'token.malformed'; queue: string; id: string; error: Error }
  | CronEvent

export interface QueueEvent {
  type: 'queue.paused' | 'queue.resumed'
  queue: string
  requestId?: string
}

/** A tick of a recurring job; told after `job.enqueued`, where it has made a job. */
export type CronEvent =
  | { type: 'cron.triggered'; cron: CronFacts; scheduledAt: number; job: JobRow }
  | {
      type: 'cron.skipped'
      cron: CronFacts
      scheduledAt: number
      /** `dst_skip`: the clocks will leap over it; told with the tick before. */
      reason: 'overlap' | 'queue_full' | 'duplicate' | 'queue_paused' | 'dst_skip' | 'invalid_job'
      /** The job that was in the way. */
      existingJobId?: string | null
    }
  /**
   * Times that passed while nobody looked, from `scheduledAt` on: the one before them has made up for
   * them. Told once, with how many there were; `hasMore`: that many have been counted, and no more.
   */
  | {
      type: 'cron.skipped'
      cron: CronFacts
      scheduledAt: number
      reason: 'missed'
      count: number
      hasMore: boolean
    }

export interface CronFacts {
  name: string
  expression: string
  jobType: string
  queue: string
}

/** What an event tells of a failure: no details and no backtrace. */
export type FailureFacts = Pick<Failure, 'code' | 'type' | 'message' | 'retryable'>

export interface LeaseFacts {
  id: string
  queue: string
  type: string
  attempt: number
  leaseExpiresAt: number
}

/** The first event of a job. */
type StoredEvent = Extract<JobEvent, { type: 'job.enqueued' | 'job.scheduled' | 'job.staged' }>

export interface JobEvents {
  emit(event: JobEvent): void
  /**
   * For a job that is stored and can still be taken back, until its token is confirmed. A worker may
   * be faster than the confirm: then it is told right before whatever is told of the job next.
   */
  hold(event: StoredEvent): void
  /** It stays: its first event is told now, if it has not been. */
  release(jobId: string): void
  /** It was taken back: nobody hears of it. */
  drop(jobId: string): void
}

/** Hands every event to each listener in order. A listener must not throw. */
export function createJobEvents(listeners: readonly ((event: JobEvent) => void)[]): JobEvents {
  const held = new Map<string, StoredEvent>()
  const tell = (event: JobEvent) => {
    for (const listener of listeners) listener(event)
  }
  const release = (jobId: string) => {
    const event = held.get(jobId)
    if (event === undefined) return
    held.delete(jobId)
    tell(event)
  }
  return {
    emit(event) {
      if ('job' in event) release(event.job.id)
      tell(event)
      const added = deadLetterOf(event)
      if (added) tell(added)
    },
    hold: (event) => void held.set(event.job.id, event),
    release,
    drop: (jobId) => void held.delete(jobId),
  }
}

/** The one place that tells it: jobs are discarded in many, and each of them knows the row. */
function deadLetterOf(event: JobEvent): JobEvent | null {
  if (event.type !== 'job.discarded' && event.type !== 'job.expired') return null
  if (!event.job.isDeadLetter) return null
  const requestId = 'requestId' in event ? event.requestId : undefined
  return { type: 'dead_letter.added', job: event.job, ...(requestId && { requestId }) }
}
