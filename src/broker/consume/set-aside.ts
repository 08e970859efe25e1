/** Deliveries of a queue whose jobs no fetch may start yet, but other consumers may. */
import type { LiveDelivery } from './delivery.ts'

/**
 * How long the queue is left to its other consumers when all that came was set aside and given back: until a
 * fetch may start something, within these bounds. While the others are busy, the same messages come again.
 */
const MIN_REST_MS = 250
const MAX_REST_MS = 1_000
/** The same for each delivery of them, whatever else came: it bounds how many come again. */
const REST_OF_EACH_MS = 1

export class SetAside {
  /** Oldest first. */
  readonly #deliveries = new Map<LiveDelivery, { since: number; onReturned: () => number }>()
  /** What fetches have taken since something set aside was given back, without what they have set aside. */
  #used = 0

  get size(): number {
    return this.#deliveries.size
  }

  /** Since when (clock time) the oldest is set aside; null: there is none. */
  get since(): number | null {
    const [oldest] = this.#deliveries.values()
    return oldest?.since ?? null
  }

  /** A fetch has taken a delivery, which it may set aside. */
  taken(): void {
    this.#used += 1
  }

  /** `onReturned`: see `Broker.park`. */
  add(delivery: LiveDelivery, now: number, onReturned: () => number): void {
    this.#used -= 1
    this.#deliveries.set(delivery, { since: now, onReturned })
  }

  delete(delivery: LiveDelivery): void {
    this.#deliveries.delete(delivery)
  }

  /** Takes all out, to be given back. `restMs`: how long the queue should be left to its other consumers then. */
  recall(now: number): { deliveries: LiveDelivery[]; restMs: number } {
    const deliveries = [...this.#deliveries.keys()]
    let dueAt = now + MAX_REST_MS
    for (const { onReturned } of this.#deliveries.values()) dueAt = Math.min(dueAt, onReturned())
    const untilDueMs = this.#used > 0 ? 0 : Math.max(MIN_REST_MS, dueAt - now)
    this.#deliveries.clear()
    this.#used = 0
    if (deliveries.length === 0) return { deliveries, restMs: 0 }
    return { deliveries, restMs: Math.max(untilDueMs, deliveries.length * REST_OF_EACH_MS) }
  }
}
