import { Gauge, type Registry } from 'prom-client'
import { JOB_STATES, type JobState } from '../job/job.ts'
import type { BoundedLabels } from './bounded-labels.ts'
import { oncePerTurn } from './once-per-turn.ts'

/** The part of the ledger that the queue gauges read. */
export interface QueueCounts {
  queues(): readonly { readonly name: string }[]
  counts(queue: string): Readonly<Record<JobState, number>>
  deadLetterCount(queue: string): number
  readonly pauses: { since(queue: string): number | null }
}

/** What the relay knows about tokens that the ledger owes. */
export interface OwedState {
  /** For how long RabbitMQ has accepted nothing of what is owed to a queue, in ms by queue. */
  stuck(): ReadonlyMap<string, number>
}

/** What the worker registry knows. */
export interface WorkerCounts {
  active: number
  busy: number
}

/** Jobs by queue and state. Each scrape reads the counts that the ledger keeps. */
export function queueDepth(registry: Registry, labels: BoundedLabels, ledger: QueueCounts): void {
  new Gauge({
    name: 'ojs_queue_depth',
    help: 'Jobs in the ledger',
    labelNames: ['queue', 'state'],
    registers: [registry],
    collect() {
      this.reset()
      for (const { name } of ledger.queues()) {
        const queue = labels.of(name)
        const byState = ledger.counts(name)
        for (const state of JOB_STATES) this.inc({ queue, state }, byState[state])
      }
    },
  })
}

/** Dead letters by queue. Each scrape reads the counts that the ledger keeps. */
export function deadLetterDepth(
  registry: Registry,
  labels: BoundedLabels,
  ledger: QueueCounts,
): void {
  byQueue(registry, labels, ledger, {
    name: 'ojs_dead_letter_depth',
    help: 'Dead letters in the ledger',
    read: (source, queue) => source.deadLetterCount(queue),
  })
}

/** 1 for a paused queue: somebody may have forgotten to resume it. */
export function queuePaused(registry: Registry, labels: BoundedLabels, ledger: QueueCounts): void {
  byQueue(registry, labels, ledger, {
    name: 'ojs_queue_paused',
    help: '1 while the queue is paused',
    read: ({ pauses }, queue) => (pauses.since(queue) === null ? 0 : 1),
  })
}

/** Queues beyond the limit share a label, which shows the worst of them. */
export function owedStuck(registry: Registry, labels: BoundedLabels, relay: OwedState): void {
  new Gauge({
    name: 'ojs_ledger_tokens_stuck_seconds',
    help: 'For how long RabbitMQ has accepted none of the messages that the ledger owes for a queue',
    labelNames: ['queue'],
    registers: [registry],
    collect() {
      this.reset()
      const worst = new Map<string, number>()
      for (const [name, ms] of relay.stuck()) {
        const queue = labels.of(name)
        worst.set(queue, Math.max(ms / 1000, worst.get(queue) ?? 0))
      }
      for (const [queue, seconds] of worst) this.set({ queue }, seconds)
    },
  })
}

/** A gauge by queue. Queues beyond the limit are summed up under one label. */
function byQueue(
  registry: Registry,
  labels: BoundedLabels,
  ledger: QueueCounts,
  gauge: { name: string; help: string; read(source: QueueCounts, queue: string): number },
): void {
  new Gauge({
    name: gauge.name,
    help: gauge.help,
    labelNames: ['queue'],
    registers: [registry],
    collect() {
      this.reset()
      for (const { name } of ledger.queues()) {
        this.inc({ queue: labels.of(name) }, gauge.read(ledger, name))
      }
    },
  })
}

/** Workers that were heard from lately, and how many of them have jobs. */
export function workerGauges(registry: Registry, workers: () => WorkerCounts): void {
  const counts = oncePerTurn(workers)
  new Gauge({
    name: 'ojs_workers_active',
    help: 'Workers that sent a FETCH or a heartbeat in the last 30 s',
    registers: [registry],
    collect() {
      this.set(counts().active)
    },
  })
  new Gauge({
    name: 'ojs_workers_busy',
    help: 'Active workers whose last heartbeat named jobs that have not ended since',
    registers: [registry],
    collect() {
      this.set(counts().busy)
    },
  })
}
