/** Deliveries that are held unacknowledged until a time, or until their row moves. */
import type { Clock } from '../../clock.ts'
import type { LiveDelivery } from './delivery.ts'

/** The longest timer of Node.js; a delivery that comes back early is parked again. */
const MAX_TIMER_MS = 2 ** 31 - 1

/**
 * Deliveries that are kept unacknowledged until a time, or until their row moves (docs/architecture.md §2:
 * "held"). Each occupies a prefetch slot of its consumer channel, so their number is bounded.
 */
export class ParkedDeliveries {
  readonly #clock: Clock
  readonly #release: (delivery: LiveDelivery) => void
  readonly #byJob = new Map<string, Map<LiveDelivery, NodeJS.Timeout | undefined>>()

  /** `release` receives the deliveries that may be looked at again. */
  constructor(clock: Clock, release: (delivery: LiveDelivery) => void) {
    this.#clock = clock
    this.#release = release
  }

  park(delivery: LiveDelivery, until: number | null): void {
    delivery.place = 'parked'
    const timer = until === null ? undefined : this.#timer(delivery, until)
    const parked = this.#byJob.get(delivery.id)
    if (parked) parked.set(delivery, timer)
    else this.#byJob.set(delivery.id, new Map([[delivery, timer]]))
  }

  /** False: no delivery of this job was parked. */
  unpark(jobId: string): boolean {
    const parked = [...(this.#byJob.get(jobId)?.keys() ?? [])]
    for (const delivery of parked) {
      this.forget(delivery)
      this.#release(delivery)
    }
    return parked.length > 0
  }

  unparkAll(): void {
    for (const jobId of [...this.#byJob.keys()]) this.unpark(jobId)
  }

  /** The delivery was settled or lost while it was parked. */
  forget(delivery: LiveDelivery): void {
    const parked = this.#byJob.get(delivery.id)
    if (!parked) return
    clearTimeout(parked.get(delivery))
    parked.delete(delivery)
    if (parked.size === 0) this.#byJob.delete(delivery.id)
  }

  #timer(delivery: LiveDelivery, until: number): NodeJS.Timeout {
    const delayMs = Math.min(Math.max(until - this.#clock.now(), 0), MAX_TIMER_MS)
    return setTimeout(() => {
      this.forget(delivery)
      this.#release(delivery)
    }, delayMs)
  }
}
