/** Extends the leases of the running jobs, and keeps the worker in the gateway's list. */
import { hostname } from 'node:os'
import type { SourceOptions, SourceSink } from '../sdk/worker/source.ts'
import type { AmqpLink } from './connection.ts'
import type { Dispatcher, Running } from './dispatcher.ts'
import type { Reporter } from './reporter.ts'

/** How often the worker checks whether a heartbeat is due: a lease may be shorter than three intervals. */
const LOOK_MS = 250
/** Job ids in one heartbeat message (docs/architecture.md §5). */
const MAX_IDS = 1_000
/** Queues that one heartbeat names. */
const MAX_QUEUES = 100

export interface HeartbeatDeps {
  link: AmqpLink
  dispatcher: Dispatcher
  reporter: Reporter
  sink: SourceSink
  options: SourceOptions
  /** Milliseconds between two heartbeats, unless a lease needs more. */
  intervalMs: number
  version: string | undefined
  /** Called before each heartbeat, for other checks at the same pace. */
  onBeat(): void
}

/**
 * Extends the leases of the running jobs, and keeps this worker in the gateway's list (docs/architecture.md
 * §5).
 */
export class Heartbeat {
  readonly #deps: HeartbeatDeps
  #timer: NodeJS.Timeout | undefined
  /** When the last heartbeats were sent. */
  #beatAt = 0

  constructor(deps: HeartbeatDeps) {
    this.#deps = deps
  }

  /** Starts regular heartbeats; the first one is due after the interval. */
  start(): void {
    const { link, intervalMs } = this.#deps
    this.#beatAt = link.clock.now()
    this.#timer = setInterval(() => this.#beatIfDue(), Math.min(LOOK_MS, intervalMs))
  }

  /** Stops regular heartbeats; `beat` still sends them. */
  stop(): void {
    clearInterval(this.#timer)
  }

  /**
   * Sends heartbeats now: one per queue, after all waiting reports and to the same control queue, so that a
   * heartbeat never overtakes the report of an end.
   */
  beat(): void {
    const { link, dispatcher, reporter, options, onBeat } = this.#deps
    this.#beatAt = link.clock.now()
    onBeat()
    reporter.flush()
    const byQueue = dispatcher.running()
    const [first] = options.queues
    // Also if nothing runs: the gateway's list of workers depends on it.
    if (byQueue.size === 0 && first !== undefined) byQueue.set(first, [])
    for (const [queue, jobs] of byQueue) this.#beatFor(queue, jobs)
  }

  /** Three heartbeats per shortest lease, so that two may be lost. */
  #beatIfDue(): void {
    const { link, dispatcher, intervalMs } = this.#deps
    const dueMs = Math.min(intervalMs, dispatcher.shortestLeaseMs() / 3)
    // Rather a little early than late: the next check is `LOOK_MS` away.
    if (link.clock.now() - this.#beatAt >= dueMs - LOOK_MS) this.beat()
  }

  #beatFor(queue: string, jobs: readonly Running[]): void {
    const { link, sink, options, version } = this.#deps
    for (let from = 0; from === 0 || from < jobs.length; from += MAX_IDS) {
      const part = jobs.slice(from, from + MAX_IDS)
      const later = part.filter(({ generation }) => generation > 0)
      const generations = Object.fromEntries(later.map((job) => [job.id, job.generation]))
      const body = {
        worker_id: options.workerId,
        job_ids: part.map(({ id }) => id),
        ...(later.length > 0 && { generations }),
        state: sink.state(),
        queues: options.queues.slice(0, MAX_QUEUES),
        hostname: hostname(),
        pid: process.pid,
        concurrency: options.concurrency,
        ...(version !== undefined && { version }),
      }
      // Not repeated if it fails, because the next heartbeat follows soon.
      void link.tell(queue, 'ojs.control.heartbeat', JSON.stringify(body))
    }
  }
}
