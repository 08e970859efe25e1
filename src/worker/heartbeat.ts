import { hostname } from 'node:os'
import type { SourceOptions, SourceSink } from '../sdk/source.ts'
import type { Dispatcher } from './dispatcher.ts'
import type { AmqpLink } from './link.ts'
import type { Reporter } from './reporter.ts'

/** How often a worker looks whether a heartbeat is due: a lease may be shorter than three intervals. */
const LOOK_MS = 250
/** Ids of one heartbeat message (architecture §5). */
const MAX_IDS = 1_000
/** Queues that a heartbeat names. */
const MAX_QUEUES = 100

export interface HeartbeatDeps {
  link: AmqpLink
  dispatcher: Dispatcher
  reporter: Reporter
  sink: SourceSink
  options: SourceOptions
  /** Milliseconds between two, where no lease is shorter. */
  intervalMs: number
  version: string | undefined
  /** Before each: what else is looked at as often. */
  onBeat(): void
}

/** Keeps the leases of what runs here, and this worker in the gateway's list (architecture §5). */
export class Heartbeat {
  readonly #deps: HeartbeatDeps
  #timer: NodeJS.Timeout | undefined
  /** When the last ones went out. */
  #beatAt = 0

  constructor(deps: HeartbeatDeps) {
    this.#deps = deps
  }

  /** The first one follows after the interval. */
  start(): void {
    const { link, intervalMs } = this.#deps
    this.#beatAt = link.clock.now()
    this.#timer = setInterval(() => this.#beatIfDue(), Math.min(LOOK_MS, intervalMs))
  }

  /** None but those that are asked for. */
  stop(): void {
    clearInterval(this.#timer)
  }

  /** Now. One per queue, on the way of that queue's reports: a heartbeat never overtakes an end. */
  beat(): void {
    const { link, dispatcher, reporter, options, onBeat } = this.#deps
    this.#beatAt = link.clock.now()
    onBeat()
    reporter.flush()
    const byQueue = dispatcher.running()
    const [first] = options.queues
    // Also when nothing runs: the gateway lists workers by it.
    if (byQueue.size === 0 && first !== undefined) byQueue.set(first, [])
    for (const [queue, ids] of byQueue) this.#beatFor(queue, ids)
  }

  /** Three in the shortest lease: two may be lost. */
  #beatIfDue(): void {
    const { link, dispatcher, intervalMs } = this.#deps
    const dueMs = Math.min(intervalMs, dispatcher.shortestLeaseMs() / 3)
    // Rather too soon than at the next look.
    if (link.clock.now() - this.#beatAt >= dueMs - LOOK_MS) this.beat()
  }

  #beatFor(queue: string, ids: readonly string[]): void {
    const { link, sink, options, version } = this.#deps
    for (let from = 0; from === 0 || from < ids.length; from += MAX_IDS) {
      const body = {
        worker_id: options.workerId,
        job_ids: ids.slice(from, from + MAX_IDS),
        state: sink.state(),
        queues: options.queues.slice(0, MAX_QUEUES),
        hostname: hostname(),
        pid: process.pid,
        concurrency: options.concurrency,
        ...(version !== undefined && { version }),
      }
      // The next one comes soon: this one is not repeated.
      void link.tell(queue, 'ojs.control.heartbeat', JSON.stringify(body))
    }
  }
}
