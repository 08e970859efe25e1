/** Counters and histograms of job events by queue and type. */
import { Counter, Histogram, type Registry } from 'prom-client'
import { type BoundedLabels, SeriesByPair } from './bounded-labels.ts'
import { bulkMetrics } from './bulk-metrics.ts'
import type { CronEvent, JobEvent } from './events.ts'

/** The buckets of OJS observability, in seconds. */
const DURATION_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]
const QUEUE_TIME_BUCKETS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600]

const COUNTERS = {
  enqueued: 'Jobs stored, and confirmed by RabbitMQ unless they wait for a time or an activation',
  completed: 'Jobs acknowledged by their worker',
  failed: 'Jobs that failed for good',
  attempts_failed: 'Attempts that failed, whether or not their jobs are retried',
  retried: "Failed attempts after which the job's retry policy starts another one",
  cancelled: 'Jobs cancelled',
  expired: 'Jobs that expired before they ran: by expires_at, or by a TTL in RabbitMQ',
  discarded: 'Jobs that ended without success: failed for good, or expired',
} as const

type CounterName = keyof typeof COUNTERS
type EndState = 'completed' | 'discarded' | 'cancelled'

/** The series of one queue and one job type. */
interface JobSeries {
  counters: Readonly<Record<CounterName, Counter.Internal>>
  duration: Readonly<Record<EndState, Histogram.Internal<string>>>
  queueTime: Histogram.Internal<string>
}

/** Counts job events: a listener for `createJobEvents`. */
export function jobMetrics(
  registry: Registry,
  queues: BoundedLabels,
  types: BoundedLabels,
): (event: JobEvent) => void {
  const series = jobSeries(registry, queues, types)
  const malformed = new Counter({
    name: 'ojs_token_malformed_total',
    help: 'Native messages that were not an OJS job and went to the dead letter queue',
    labelNames: ['queue'],
    registers: [registry],
  })
  const held = new Counter({
    name: 'ojs_job_held_total',
    help: 'How often a job was held back by its concurrency key',
    labelNames: ['queue'],
    registers: [registry],
  })
  const reports = progressReports(registry, queues, types)
  const bulk = bulkMetrics(registry)
  const ticks = new Counter({
    name: 'ojs_cron_ticks_total',
    help: 'Times of recurring jobs, by outcome: triggered, or why they were skipped',
    labelNames: ['outcome'],
    registers: [registry],
  })
  return (event) => {
    if (event.type === 'job.held') held.inc({ queue: queues.of(event.queue) })
    else if (event.type === 'job.reported') reports.get(event.queue, event.jobType).inc()
    else if ('action' in event) bulk.counted(event)
    else if ('bulk' in event) bulk.ended(event)
    else if (event.type === 'message.malformed') malformed.inc({ queue: queues.of(event.queue) })
    else if (event.type === 'cron.triggered') ticks.inc({ outcome: 'triggered' })
    else if (event.type === 'cron.skipped') countSkipped(ticks, event)
    else if ('job' in event) count(event, series.get(event.job.queue, event.job.type))
  }
}

function progressReports(registry: Registry, queues: BoundedLabels, types: BoundedLabels) {
  const counter = new Counter({
    name: 'ojs_progress_updates_total',
    help: 'Reports of progress that were noted',
    labelNames: ['queue', 'type'],
    registers: [registry],
  })
  return new SeriesByPair(queues, types, (queue, type) => counter.labels(queue, type))
}

function countSkipped(ticks: Counter, event: CronEvent & { type: 'cron.skipped' }): void {
  ticks.inc({ outcome: event.reason }, 'count' in event ? event.count : 1)
}

type CountedEvent = Exclude<Extract<JobEvent, { job: unknown }>, CronEvent>

function count(event: CountedEvent, series: JobSeries): void {
  const { counters, duration } = series
  switch (event.type) {
    case 'job.enqueued':
      if (!event.promoted) counters.enqueued.inc()
      break
    case 'job.scheduled':
      // A job that was stored as `pending` was counted then.
      if (event.job.activatedAt === null) counters.enqueued.inc()
      break
    case 'job.staged':
      counters.enqueued.inc()
      break
    case 'job.started':
      observeBetween(series.queueTime, event.job.enqueuedAt, event.job.startedAt)
      break
    case 'job.completed':
      counters.completed.inc()
      observeBetween(duration.completed, event.job.startedAt, event.job.completedAt)
      break
    case 'job.cancelled':
      counters.cancelled.inc()
      if (event.previousState !== 'active') break
      observeBetween(duration.cancelled, event.job.startedAt, event.job.cancelledAt)
      break
    case 'job.failed':
      counters.attempts_failed.inc()
      break
    case 'job.retrying':
      counters.retried.inc()
      break
    case 'job.expired':
      counters.expired.inc()
      counters.discarded.inc()
      break
    case 'job.discarded':
      counters.failed.inc()
      counters.discarded.inc()
      observeBetween(duration.discarded, event.job.startedAt, event.job.discardedAt)
      break
    case 'job.heartbeat':
    case 'job.progress':
    case 'job.checkpointed':
    case 'priority.changed':
    case 'dead_letter.added':
    case 'dead_letter.retried':
    case 'dead_letter.deleted':
      break
  }
}

function observeBetween(
  histogram: Histogram.Internal<string>,
  from: number | null,
  to: number | null,
): void {
  if (from !== null && to !== null) histogram.observe(Math.max(0, to - from) / 1000)
}

function jobSeries(
  registry: Registry,
  queues: BoundedLabels,
  types: BoundedLabels,
): SeriesByPair<JobSeries> {
  const counters = mapCounters(
    (name) =>
      new Counter({
        name: `ojs_job_${name}_total`,
        help: COUNTERS[name],
        labelNames: ['queue', 'type'],
        registers: [registry],
      }),
  )
  const duration = new Histogram({
    name: 'ojs_job_duration_seconds',
    help: 'From the start of the last attempt to the end of the job, by the state it ended in',
    labelNames: ['queue', 'type', 'state'],
    buckets: DURATION_BUCKETS,
    registers: [registry],
  })
  const queueTime = new Histogram({
    name: 'ojs_job_queue_time_seconds',
    help: 'From enqueued_at to the start of an attempt',
    labelNames: ['queue', 'type'],
    buckets: QUEUE_TIME_BUCKETS,
    registers: [registry],
  })
  return new SeriesByPair(queues, types, (queue, type) => ({
    counters: mapCounters((name) => counters[name].labels(queue, type)),
    duration: {
      completed: duration.labels(queue, type, 'completed'),
      discarded: duration.labels(queue, type, 'discarded'),
      cancelled: duration.labels(queue, type, 'cancelled'),
    },
    queueTime: queueTime.labels(queue, type),
  }))
}

function mapCounters<T>(make: (name: CounterName) => T): Record<CounterName, T> {
  return {
    enqueued: make('enqueued'),
    completed: make('completed'),
    failed: make('failed'),
    attempts_failed: make('attempts_failed'),
    retried: make('retried'),
    cancelled: make('cancelled'),
    expired: make('expired'),
    discarded: make('discarded'),
  }
}
