/** The `data` of events about jobs and cron entries, as the OJS catalogue requires. */
import { timestamp } from '../job/document.ts'
import type { JobRow, JobState } from '../job/job.ts'
import { cut } from '../job/values/limits.ts'
import type { CronEvent, FailureFacts, JobEvent, OnlyCounted } from './events.ts'

/**
 * Longest error message in an event: thousands of events stay in memory after their jobs have ended. The
 * whole message is in the job's `errors`.
 */
const MAX_MESSAGE = 500

/**
 * The job events that `GET /events` lists. `job.staged` is not in the OJS vocabulary, and a malformed message
 * is not a job.
 */
export type ListedEvent = Exclude<
  JobEvent,
  OnlyCounted | { type: 'message.malformed' | 'job.staged' } | { workflow: unknown }
>

/** The data that the catalogue requires for this type of event (OJS events); null: none of its own. */
export function ownData(event: ListedEvent): Readonly<Record<string, unknown>> | null {
  switch (event.type) {
    case 'job.enqueued':
      return { priority: event.job.priority }
    case 'job.scheduled':
      return { priority: event.job.priority, scheduled_at: instant(event.job.dueAt) }
    case 'job.completed':
      return { duration_ms: durationMs(event.job) }
    case 'job.cancelled':
      return { previous_state: event.previousState }
    case 'job.heartbeat':
      return { visible_until: timestamp(event.job.leaseExpiresAt) }
    case 'job.progress':
      return progressData(event)
    case 'job.checkpointed':
      return { sequence: event.sequence, size_bytes: event.sizeBytes }
    case 'job.failed':
      return { error: errorOf(event.failure) }
    case 'job.retrying':
      return retryData(event.job, event.failure)
    case 'job.expired':
      return expiryData(event.job)
    case 'job.discarded':
      return { total_attempts: event.job.attempt, ...lastError(event.job) }
    case 'priority.changed':
      return { from: event.from, to: event.job.priority }
    case 'job.started':
    case 'dead_letter.added':
    case 'dead_letter.retried':
    case 'dead_letter.deleted':
    case 'queue.paused':
    case 'queue.resumed':
      return null
    case 'worker.stopped':
      return { reason: event.reason }
    case 'system.maintenance.started':
    case 'system.maintenance.ended':
      return event.reason === null ? null : { reason: event.reason }
    case 'bulk.enqueue.completed':
    case 'bulk.retry.completed':
    case 'bulk.cancel.completed':
    case 'bulk.delete.completed':
      return event.bulk.data
    case 'cron.triggered':
      return { ...cronData(event), ...(event.isManual && { manual: true }) }
    case 'cron.skipped':
      return {
        ...cronData(event),
        reason: event.reason,
        ...('count' in event
          ? { count: event.count, has_more: event.hasMore }
          : event.existingJobId != null && { existing_job_id: event.existingJobId }),
      }
  }
}

function cronData({ cron, scheduledAt }: CronEvent): Record<string, unknown> {
  return {
    cron_name: cron.name,
    cron_expr: cron.expression,
    scheduled_at: timestamp(scheduledAt),
  }
}

/** In percent here, a fraction elsewhere: as OJS's documents have it. */
function progressData({ progress, message }: Extract<JobEvent, { type: 'job.progress' }>) {
  return {
    ...(progress !== null && { progress_percent: Math.round(progress * 100) }),
    ...(message !== null && { progress_message: brief(message) }),
  }
}

function durationMs({ startedAt, completedAt }: JobRow): number {
  return startedAt === null || completedAt === null ? 0 : completedAt - startedAt
}

function retryData(job: JobRow, failure: FailureFacts): Record<string, unknown> {
  return {
    max_attempts: job.maxAttempts,
    next_retry_at: instant(job.dueAt),
    retry_delay_ms: job.retryDelayMs,
    error: errorOf(failure),
  }
}

/** A job that RabbitMQ expired because of a limit of its queue has no `expires_at`. */
function expiryData({ createdAt, expiresAt, discardedAt }: JobRow): Record<string, unknown> {
  const expiredAt = expiresAt ?? discardedAt ?? createdAt
  return {
    created_at: timestamp(createdAt),
    expired_at: timestamp(expiredAt),
    ttl_ms: expiredAt - createdAt,
  }
}

/** The error record that the same commit wrote (`job/retry/failure.ts`). */
function lastError({ error }: JobRow): { last_error?: { code: unknown; message: string } } {
  if (error === null) return {}
  const record: { code?: unknown; message?: unknown } = JSON.parse(error)
  return { last_error: { code: record.code, message: brief(String(record.message ?? '')) } }
}

function errorOf({ code, type, message, retryable }: FailureFacts): FailureFacts {
  return { code, type, message: brief(message), retryable }
}

/** A copy, because a slice of the text would keep the whole text in memory. */
function brief(text: string): string {
  return text.length <= MAX_MESSAGE ? text : Buffer.from(cut(text, MAX_MESSAGE)).toString()
}

function instant(ms: number | null): string | null {
  return ms === null ? null : timestamp(ms)
}

/**
 * The state that the job of this event was in before; null for a new job, undefined for an event that tells of
 * no change. Where the event does not say, it follows from what the row still shows.
 */
export function stateBefore(event: ListedEvent): JobState | null | undefined {
  switch (event.type) {
    case 'job.enqueued':
    case 'job.scheduled':
      return event.from ?? null
    case 'job.started':
      return 'available'
    case 'job.completed':
    case 'job.retrying':
      return 'active'
    case 'job.cancelled':
      return event.previousState
    case 'job.discarded':
    case 'job.expired':
      return endedFrom(event.job)
    default:
      return undefined
  }
}

/** A discard keeps the start of an attempt that ran, and the time for which a job waited. */
function endedFrom({ startedAt, completedAt, dueAt, attempt }: JobRow): JobState {
  if (startedAt !== null && completedAt !== null) return 'active'
  if (dueAt === null) return 'available'
  return attempt > 0 ? 'retryable' : 'scheduled'
}
