/** Gauges of jobs by queue and state, of owed messages, and of workers. */
import { Gauge, type Registry } from 'prom-client'
import { JOB_STATES, type JobState } from '../job/job.ts'
import type { JobSearch } from '../ledger/search.ts'
import type { BoundedLabels } from './bounded-labels.ts'
import { gauge, gaugeByQueue, sum } from './gauges.ts'
import { oncePerTurn } from './once-per-turn.ts'

/** What of the ledger the queue gauges read. */
interface QueueCounts {
  queues(): readonly { readonly name: string }[]
  counts(queue: string): Readonly<Record<JobState, number>>
  deadLetterCount(queue: string): number
  held(queue: string): number
  readonly pauses: { since(queue: string): number | null }
  readonly search: Pick<JobSearch, 'oldest'>
}

/** What the relay knows about job messages that the ledger owes. */
interface OwedState {
  /** For how long RabbitMQ has accepted nothing of what is owed to a queue, in ms by queue. */
  stuck(): ReadonlyMap<string, number>
}

export interface JobSources {
  readonly ledger: QueueCounts
  readonly relay: OwedState
  /** What the worker registry knows. It walks over all workers, so it is called once per scrape. */
  readonly workers: () => { active: number; busy: number }
  /** Clock time for jobs, and wall time for schedules. */
  readonly clock: { now(): number; wall(): number }
}

/** Gauges of jobs by queue, of what the ledger owes RabbitMQ, and of workers; read at each scrape. */
export function jobGauges(
  registry: Registry,
  queues: BoundedLabels,
  { ledger, relay, workers, clock }: JobSources,
): void {
  queueDepth(registry, queues, ledger)
  queueOldest(registry, queues, ledger, clock)
  const ofEach = (read: (queue: string) => number) => () =>
    ledger.queues().map(({ name }) => [name, read(name)] as const)
  gaugeByQueue(registry, queues, {
    name: 'ojs_dead_letter_depth',
    help: 'Dead letters in the ledger',
    read: ofEach((queue) => ledger.deadLetterCount(queue)),
    join: sum,
  })
  gaugeByQueue(registry, queues, {
    name: 'ojs_queue_held',
    help: 'Available jobs that their concurrency keys hold back',
    read: ofEach((queue) => ledger.held(queue)),
    join: sum,
  })
  // Somebody may have forgotten to resume it.
  gaugeByQueue(registry, queues, {
    name: 'ojs_queue_paused',
    help: '1 while the queue is paused',
    read: ofEach((queue) => (ledger.pauses.since(queue) === null ? 0 : 1)),
    join: sum,
  })
  gaugeByQueue(registry, queues, {
    name: 'ojs_ledger_tokens_stuck_seconds',
    help: 'For how long RabbitMQ has accepted none of the messages that the ledger owes for a queue',
    read: () => [...relay.stuck()].map(([queue, ms]) => [queue, ms / 1000] as const),
    join: Math.max,
  })
  const now = oncePerTurn(workers)
  gauge(
    registry,
    'ojs_workers_active',
    'Workers that sent a FETCH or a heartbeat in the last 30 s',
    () => now().active,
  )
  gauge(
    registry,
    'ojs_workers_busy',
    'Active workers whose last heartbeat named jobs that have not ended since',
    () => now().busy,
  )
}

/** Jobs by queue and state, as the ledger counts them. */
function queueDepth(registry: Registry, queues: BoundedLabels, ledger: QueueCounts): void {
  new Gauge({
    name: 'ojs_queue_depth',
    help: 'Jobs in the ledger',
    labelNames: ['queue', 'state'],
    registers: [registry],
    collect() {
      this.reset()
      for (const { name } of ledger.queues()) {
        const queue = queues.of(name)
        const byState = ledger.counts(name)
        for (const state of JOB_STATES) this.inc({ queue, state }, byState[state])
      }
    },
  })
}

/** For how long the oldest job of each queue has waited, or been overdue. */
function queueOldest(
  registry: Registry,
  queues: BoundedLabels,
  ledger: QueueCounts,
  clock: JobSources['clock'],
): void {
  new Gauge({
    name: 'ojs_queue_oldest_seconds',
    help: 'For how long the oldest job has waited (available) or been overdue (retryable, scheduled)',
    labelNames: ['queue', 'kind'],
    registers: [registry],
    async collect() {
      const names = ledger.queues().map(({ name }) => name)
      const [now, wall] = [clock.now(), clock.wall()]
      const oldest = await ledger.search.oldest(names, now, wall)
      this.reset()
      const longest = new Map<string, number>()
      for (const [name, { available, retryable, scheduled }] of oldest) {
        const queue = queues.of(name)
        for (const [kind, ms] of [
          ['available', now - (available ?? now)],
          ['retryable', now - (retryable ?? now)],
          ['scheduled', wall - (scheduled ?? wall)],
        ] as const) {
          // Queues beyond the limit share a label, for which the longest of them counts.
          const key = `${queue} ${kind}`
          const seconds = Math.max(longest.get(key) ?? 0, ms / 1000)
          longest.set(key, seconds)
          this.set({ queue, kind }, seconds)
        }
      }
    },
  })
}
