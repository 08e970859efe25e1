/** The vocabulary of events, and the dispatcher that holds back what may yet be withdrawn. */
import type { JobRow, JobState } from '../job/job.ts'
import type { Failure } from '../job/retry/error-history.ts'
import type { JobAction } from '../job/steer.ts'
import type { WorkflowEvent } from './workflow-events.ts'

/**
 * What happened to a job, a queue or a recurring job; emitted after the commit that made it true
 * (docs/architecture.md, law 4). The names are those of the OJS event vocabulary (OJS events).
 */
export type JobEvent =
  | WorkflowEvent
  /**
   * `requestId`: the request that caused it, if one did. `inBulk`: one of many, which `bulk.*.completed` tells
   * of together.
   */
  | (OneJobEvent & { requestId?: string | undefined; inBulk?: true | undefined })
  | QueueEvent
  | WorkerEvent
  | SystemEvent
  | BulkEvent
  /** A native message that is no OJS job; it goes to the dead letter queue. */
  | { type: 'message.malformed'; queue: string; id: string; error: Error }
  | OnlyCounted
  | CronEvent

type OneJobEvent =
  /**
   * `promoted`: the job had waited for a time or a retry, and was already counted when it was stored. `from`:
   * the state that it was in; absent for a new job.
   */
  | { type: 'job.enqueued'; job: JobRow; promoted?: true; from?: JobState; inBatch?: true }
  /** Stored with a time in the future (OJS events). */
  | { type: 'job.scheduled'; job: JobRow; from?: JobState; inBatch?: true }
  /** Stored as `pending`, until it is activated. Not in the vocabulary: only logged and counted. */
  | { type: 'job.staged'; job: JobRow; inBatch?: true }
  | { type: 'job.started' | 'job.completed' | 'job.expired' | 'job.discarded'; job: JobRow }
  | { type: 'job.cancelled'; job: JobRow; previousState: JobState }
  /** Emitted for every failed attempt, before `job.retrying` or `job.discarded` of the same attempt. */
  | { type: 'job.failed'; job: JobRow; attempt: number; failure: FailureFacts }
  | { type: 'job.retrying'; job: JobRow; failure: FailureFacts }
  | { type: 'job.heartbeat'; job: LeaseFacts; workerId: string }
  /** How far a running job is, by its own words; for each job at most one a second. */
  | { type: 'job.progress'; job: LeaseFacts; progress: number | null; message: string | null }
  | { type: 'job.checkpointed'; job: LeaseFacts; sequence: number; sizeBytes: number }
  /** A job that waits has another priority than `from`. */
  | { type: 'priority.changed'; job: JobRow; from: number }
  /** Listed under `GET /dead-letter` from now on; emitted right after the end that put it there (C-93). */
  | { type: 'dead_letter.added'; job: JobRow }
  /** A dead letter was made available again. */
  | { type: 'dead_letter.retried'; job: JobRow }
  | { type: 'dead_letter.deleted'; job: JobRow }

/** Not in the vocabulary: only counted. */
export type OnlyCounted =
  /** Its concurrency key holds a job of the queue back. */
  | { type: 'job.held'; queue: string }
  /** A report of progress was noted; `job.progress` tells of at most one a second. */
  | { type: 'job.reported'; queue: string; jobType: string }
  /** An action on the jobs of a filter begins in the background, or was stopped. */
  | { type: 'bulk.begun' | 'bulk.stopped'; action: JobAction }
  /** A page of an action on many jobs is done. */
  | { type: 'bulk.acted'; action: JobAction; done: number; skipped: number }

const COUNTED: ReadonlySet<string> = new Set<OnlyCounted['type']>([
  'job.held',
  'job.reported',
  'bulk.begun',
  'bulk.stopped',
  'bulk.acted',
])

export function isOnlyCounted(event: JobEvent): event is OnlyCounted {
  return COUNTED.has(event.type)
}

export interface QueueEvent {
  type: 'queue.paused' | 'queue.resumed'
  queue: string
  requestId?: string
}

/** A worker was taken off the list of workers, and its jobs went back. */
export interface WorkerEvent {
  type: 'worker.stopped'
  workerId: string
  reason: 'deregistered'
  requestId?: string
}

/** No new work is accepted from now on, or it is again. */
export interface SystemEvent {
  type: 'system.maintenance.started' | 'system.maintenance.ended'
  reason: string | null
  requestId?: string
}

/** An action on many jobs is over (OJS bulk operations). `data`: its counts, by their names in the answer. */
export interface BulkEvent {
  type: `bulk.${'enqueue' | 'retry' | 'cancel' | 'delete'}.completed`
  bulk: { id: string | null; data: Readonly<Record<string, number | string>> }
  requestId?: string | undefined
}

/** A tick of a recurring job. If it made a job, emitted after `job.enqueued`. */
export type CronEvent =
  | {
      type: 'cron.triggered'
      cron: CronFacts
      scheduledAt: number
      job: JobRow
      /** Somebody asked for the run; it is none of the entry's times. */
      isManual?: true
    }
  | {
      type: 'cron.skipped'
      cron: CronFacts
      scheduledAt: number
      /** `dst_skip`: the clocks will leap over this time; emitted with the tick before. */
      reason:
        | 'overlap'
        | 'queue_full'
        | 'duplicate'
        | 'queue_paused'
        | 'dst_skip'
        | 'invalid_job'
        | 'maintenance'
      /** The job that prevented the tick. */
      existingJobId?: string | null
    }
  /**
   * Several times, from `scheduledAt` on, with their number in `count`; `hasMore`: counting stopped there, and
   * there are more. `missed`: they passed while no gateway looked, and the tick before them made up for them.
   * `dropped`: they waited (overlap policy `enqueue`) when the entry was removed or disabled.
   */
  | {
      type: 'cron.skipped'
      cron: CronFacts
      scheduledAt: number
      reason: 'missed' | 'dropped'
      count: number
      hasMore: boolean
    }

export interface CronFacts {
  name: string
  expression: string
  jobType: string
  queue: string
}

/** What an event tells about a failure: no details and no backtrace. */
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

/** The event that tells that a job was stored. `scheduled` and `pending` jobs owe no job message yet. */
export function storedEvent(row: JobRow): StoredEvent['type'] {
  if (row.state === 'scheduled') return 'job.scheduled'
  return row.state === 'pending' ? 'job.staged' : 'job.enqueued'
}

export interface JobEvents {
  emit(event: JobEvent): void
  /**
   * Holds back the first event of a job that is stored but can still be withdrawn, until its job message is
   * confirmed. A worker may be faster than the confirm: the job's next event then emits the held one first.
   */
  hold(event: StoredEvent): void
  /** The job stays: emits its first event now, unless it was emitted before. */
  release(jobId: string): void
  /** The job was withdrawn: its first event is never emitted. */
  drop(jobId: string): void
}

/** Passes every event to each listener, in order. A listener must not throw. */
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

/** The `dead_letter.added` event after an end. Derived in this one place: jobs are discarded in many. */
function deadLetterOf(event: JobEvent): JobEvent | null {
  if (event.type !== 'job.discarded' && event.type !== 'job.expired') return null
  if (!event.job.isDeadLetter) return null
  return { type: 'dead_letter.added', job: event.job, requestId: event.requestId }
}
