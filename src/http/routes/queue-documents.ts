/** A queue as the Admin API shows it, and how long its oldest job has waited. */
import { timestamp } from '../../job/document.ts'
import { JOB_STATES } from '../../job/job.ts'
import { type QueueSummary, RECENT_MINUTES } from '../../operations/queues/queues.ts'

/** What several queues have together. */
type Totals = Pick<QueueSummary, 'counts' | 'recent'>

/** A queue in a list, and in full. */
export function adminQueue(queue: QueueSummary): object {
  const { name, status, counts, recent, pausedAt, createdAt } = queue
  return {
    name,
    state: status,
    paused: status === 'paused',
    ...(pausedAt !== null && { paused_at: timestamp(pausedAt) }),
    counts,
    throughput: throughput(recent),
    ...oldestMembers(queue.oldest, queue.computedAt),
    created_at: timestamp(createdAt),
  }
}

/** Means of the last whole minutes. */
function throughput({ completed, failed }: QueueSummary['recent']): object {
  return { processed_per_minute: perMinute(completed), failed_per_minute: perMinute(failed) }
}

function perMinute(count: number): number {
  return Number((count / RECENT_MINUTES).toFixed(2))
}

/** Absent: no job waits; retries and schedules are overdue only while the gateway is behind. */
export function oldestMembers(oldest: QueueSummary['oldest'], now: number): object {
  const { available, retryable, scheduled } = oldest
  return {
    ...(available !== null && {
      oldest_available_at: timestamp(available),
      oldest_available_age_seconds: ageSeconds(available, now),
    }),
    ...(retryable !== null && { oldest_overdue_retry_at: timestamp(retryable) }),
    ...(scheduled !== null && { oldest_overdue_schedule_at: timestamp(scheduled) }),
  }
}

function ageSeconds(since: number, now: number): number {
  return Math.max(0, Math.round((now - since) / 1000))
}

/**
 * The statistics of all queues. `…_per_min`: integers under the names that OJS's command line reads; a fraction
 * makes it drop the value.
 */
export function adminStats(queues: readonly QueueSummary[]): object {
  const { counts, recent } = totalOf(queues)
  const waiting = queues.filter(({ oldest }) => oldest.available !== null)
  const oldest = waiting.reduce(
    (first: number | null, { oldest: { available } }) =>
      first === null || (available !== null && available < first) ? available : first,
    null,
  )
  const paused = queues.filter(({ status }) => status === 'paused').length
  const { timed, durationMs, waited, waitMs } = recent
  return {
    queues: queues.length,
    jobs: counts,
    throughput: {
      ...throughput(recent),
      enqueued_per_min: Math.round(recent.enqueued / RECENT_MINUTES),
      completed_per_min: Math.round(recent.completed / RECENT_MINUTES),
      failed_per_min: Math.round(recent.failed / RECENT_MINUTES),
      ...(waited > 0 && { avg_latency_ms: Math.round(waitMs / waited) }),
      ...(timed > 0 && { avg_duration_ms: Math.round(durationMs / timed) }),
    },
    ...oldestMembers(
      { available: oldest, retryable: null, scheduled: null },
      queues[0]?.computedAt ?? 0,
    ),
    queue_summary: { total: queues.length, active: queues.length - paused, paused },
  }
}

function totalOf(queues: readonly QueueSummary[]): Totals {
  const counts = Object.fromEntries(
    JOB_STATES.map((state) => [state, sumOf(queues, (queue) => queue.counts[state])]),
  ) as QueueSummary['counts']
  const of = (member: keyof QueueSummary['recent']) => sumOf(queues, ({ recent }) => recent[member])
  return {
    counts,
    recent: {
      enqueued: of('enqueued'),
      completed: of('completed'),
      failed: of('failed'),
      retried: of('retried'),
      timed: of('timed'),
      durationMs: of('durationMs'),
      waited: of('waited'),
      waitMs: of('waitMs'),
    },
  }
}

function sumOf(queues: readonly QueueSummary[], read: (queue: QueueSummary) => number): number {
  return queues.reduce((sum, queue) => sum + read(queue), 0)
}
