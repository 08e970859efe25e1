import type { Clock } from '../clock.ts'

/** A queue whose leader was lost with a node has another one by then. */
const FIRST_MS = 30_000
const LONGEST_MS = 600_000

/** Queues that have not answered: each is left alone for a while, twice as long the next time. */
export class Doubts {
  readonly #clock: Clock
  readonly #byQueue = new Map<string, { until: number; ms: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** It has not answered, and not only in the past. */
  has(queue: string): boolean {
    return this.#byQueue.has(queue)
  }

  isLeftAlone(queue: string): boolean {
    return this.leftAloneMs(queue) > 0
  }

  /** For how much longer. */
  leftAloneMs(queue: string): number {
    return Math.max(0, (this.#byQueue.get(queue)?.until ?? 0) - this.#clock.now())
  }

  /** For how many ms it is left alone from now on. */
  add(queue: string): number {
    const last = this.#byQueue.get(queue)
    const ms = last === undefined ? FIRST_MS : Math.min(2 * last.ms, LONGEST_MS)
    this.#byQueue.set(queue, { until: this.#clock.now() + ms, ms })
    return ms
  }

  /** It has answered, or is another queue now. */
  clear(queue: string): void {
    this.#byQueue.delete(queue)
  }
}
