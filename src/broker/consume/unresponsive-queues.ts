/** Queues that did not answer, left alone for longer each time. */
import type { Clock } from '../../clock.ts'
import { SILENT } from '../connection/liveness.ts'

/** After this time, a queue whose leader was lost with a node has a new one. */
const FIRST_MS = 30_000
const LONGEST_MS = 600_000

/** Queues that did not answer: each is left alone for a while, twice as long each time. */
export class UnresponsiveQueues {
  readonly #clock: Clock
  readonly #byQueue = new Map<string, { until: number; ms: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** True when the queue did not answer last time, even if it is no longer left alone. */
  has(queue: string): boolean {
    return this.#byQueue.has(queue)
  }

  /** For how many more ms the queue is left alone. */
  leftAloneMs(queue: string): number {
    return Math.max(0, (this.#byQueue.get(queue)?.until ?? 0) - this.#clock.now())
  }

  /** Returns for how many ms the queue is left alone from now on. */
  add(queue: string): number {
    const last = this.#byQueue.get(queue)
    const ms = last === undefined ? FIRST_MS : Math.min(2 * last.ms, LONGEST_MS)
    this.#byQueue.set(queue, { until: this.#clock.now() + ms, ms })
    return ms
  }

  /** All of RabbitMQ was silent, not single queues: those may be well. */
  connectionEnded(reason: string): void {
    if (reason === SILENT) this.#byQueue.clear()
  }

  /** The queue has answered, or is another queue now. */
  clear(queue: string): void {
    this.#byQueue.delete(queue)
  }
}
