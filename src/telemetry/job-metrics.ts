import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { JOB_STATES, type JobState } from '../job/job.ts'
import { type BoundedLabels, SeriesByPair } from './bounded-labels.ts'
import type { JobEvent } from './events.ts'

/** The part of the ledger that the queue gauges read. */
export interface QueueCounts {
  queues(): readonly { readonly name: string }[]
  counts(queue: string): Readonly<Record<JobState, number>>
}

/** The buckets of ojs-digest §15.1, in seconds. */
const DURATION_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]
const QUEUE_TIME_BUCKETS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600]

/** The series of one queue and one job type. */
interface JobSeries {
  enqueued: Counter.Internal
  completed: Counter.Internal
  cancelled: Counter.Internal
  expired: Counter.Internal
  discarded: Counter.Internal
  duration: Histogram.Internal<string>
  queueTime: Histogram.Internal<string>
}

/** Counts what happens to jobs: a listener for `createJobEvents`. */
export function jobMetrics(
  registry: Registry,
  queues: BoundedLabels,
  types: BoundedLabels,
): (event: JobEvent) => void {
  const series = jobSeries(registry, queues, types)
  const malformed = new Counter({
    name: 'ojs_token_malformed_total',
    help: 'Native messages that were no OJS job and went to the dead letter queue',
    labelNames: ['queue'],
    registers: [registry],
  })
  return (event) => {
    if (event.type === 'token.malformed') malformed.inc({ queue: queues.of(event.queue) })
    else count(event, series.get(event.job.queue, event.job.type))
  }
}

function count(event: Exclude<JobEvent, { type: 'token.malformed' }>, series: JobSeries): void {
  const { job } = event
  switch (event.type) {
    case 'job.enqueued':
      series.enqueued.inc()
      break
    case 'job.started':
      observeBetween(series.queueTime, job.enqueuedAt, job.startedAt)
      break
    case 'job.completed':
      series.completed.inc()
      observeBetween(series.duration, job.startedAt, job.completedAt)
      break
    case 'job.cancelled':
      series.cancelled.inc()
      break
    case 'job.expired':
      series.expired.inc()
      break
    case 'job.discarded':
      series.discarded.inc()
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
  const common = { labelNames: ['queue', 'type'], registers: [registry] }
  const counter = (name: string, help: string) => new Counter({ name, help, ...common })
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name, help, buckets, ...common })
  const enqueued = counter('ojs_job_enqueued_total', 'Jobs stored, and confirmed by RabbitMQ')
  const completed = counter('ojs_job_completed_total', 'Jobs acknowledged by their worker')
  const cancelled = counter('ojs_job_cancelled_total', 'Jobs cancelled')
  const expired = counter('ojs_job_expired_total', 'Jobs whose expires_at passed before they ran')
  const discarded = counter('ojs_job_discarded_total', 'Jobs that failed for good')
  const duration = histogram(
    'ojs_job_duration_seconds',
    'From the start of the last attempt to its acknowledgement',
    DURATION_BUCKETS,
  )
  const queueTime = histogram(
    'ojs_job_queue_time_seconds',
    'From enqueued_at to the start of an attempt',
    QUEUE_TIME_BUCKETS,
  )
  return new SeriesByPair(queues, types, (queue, type) => ({
    enqueued: enqueued.labels(queue, type),
    completed: completed.labels(queue, type),
    cancelled: cancelled.labels(queue, type),
    expired: expired.labels(queue, type),
    discarded: discarded.labels(queue, type),
    duration: duration.labels(queue, type),
    queueTime: queueTime.labels(queue, type),
  }))
}

/** Jobs by queue and state, read from the ledger's kept counts when somebody scrapes. */
export function queueDepth(
  registry: Registry,
  labels: BoundedLabels,
  ledger: () => QueueCounts,
): void {
  new Gauge({
    name: 'ojs_queue_depth',
    help: 'Jobs in the ledger',
    labelNames: ['queue', 'state'],
    registers: [registry],
    collect() {
      this.reset()
      const source = ledger()
      for (const { name } of source.queues()) {
        const queue = labels.of(name)
        const byState = source.counts(name)
        for (const state of JOB_STATES) this.inc({ queue, state }, byState[state])
      }
    },
  })
}
