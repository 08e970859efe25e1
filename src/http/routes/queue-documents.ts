/** A queue as the Admin API shows it, and how long its oldest job has waited. */
import { timestamp } from '../../job/document.ts'
import { JOB_STATES } from '../../job/job.ts'
import { type Histogram, percentile } from '../../job/values/histogram.ts'
import type { Configured } from '../../operations/queues/configure.ts'
import type { Drain } from '../../operations/queues/drain.ts'
import { type QueueSummary, RECENT_MINUTES } from '../../operations/queues/queues.ts'
import type { Messages } from '../../operations/rabbitmq.ts'

/** What several queues have together. */
type Totals = Pick<QueueSummary, 'counts' | 'recent'>

/** A queue in a list, and in full. `waits`: of the last hour. */
export function adminQueue(queue: QueueSummary, waits: Histogram): object {
  const { name, status, counts, recent, pausedAt, createdAt, drain } = queue
  return {
    name,
    state: stateOf(queue),
    paused: status === 'paused',
    ...(pausedAt !== null && { paused_at: timestamp(pausedAt) }),
    counts,
    ...(drain !== null && drainMembers(drain)),
    throughput: throughput(recent),
    ...latency(waits),
    ...oldestMembers(queue.oldest, queue.computedAt),
    created_at: timestamp(createdAt),
  }
}

/** A pause hides a drain: nothing happens in the queue. */
export function stateOf({ status, drain }: QueueSummary): 'active' | 'paused' | 'draining' {
  return status === 'active' && drain !== null ? 'draining' : status
}

/** How far a drain is. */
export function drainMembers({ since, left }: Drain): object {
  return { draining_since: timestamp(since), jobs_left: left, drained: left === 0 }
}

/** Absent: no job has begun within the last hour. */
function latency(waits: Histogram): object {
  const of = (share: number) => percentile(waits, share)
  const [p50, p95, p99] = [of(0.5), of(0.95), of(0.99)]
  return p50 === null ? {} : { latency_ms: { p50, p95, p99 } }
}

/** What RabbitMQ has of it; absent: unknown. */
export function messageMembers(messages: Messages | undefined): object {
  if (messages === undefined) return {}
  const { ready, consumers, held, unacknowledged, heldBack, missing } = messages
  const all = unacknowledged === null ? {} : { unacknowledged }
  return { rabbitmq: { ready, consumers, held, ...all, held_back: heldBack, missing } }
}

/** What operators have set for a queue; members that are not set are absent. */
export function configurationDocument(configuration: Configured): object {
  const { defaultRetry, maxSize, maxSizeBytes } = configuration
  const isLimited = maxSize !== null || maxSizeBytes !== null
  const bytes = maxSizeBytes === null ? {} : { max_size_bytes: maxSizeBytes }
  return {
    ...(defaultRetry !== null && { default_retry: defaultRetry }),
    ...(maxSize !== null && { max_size: maxSize }),
    ...bytes,
    ...(isLimited && {
      overflow_policy: 'reject',
      backpressure: {
        enabled: true,
        strategy: 'reject',
        ...(maxSize !== null && { max_depth: maxSize }),
        ...bytes,
      },
    }),
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
