import { goesBefore, LAST_TURN, type Turn } from '../job/turn.ts'
import type { LiveDelivery } from './delivery.ts'

/**
 * Unassigned deliveries of one queue, by exact OJS priority, then in the order of the queue. An array
 * whose last element is the next to go: it holds at most blocks × prefetch, so that an insert by
 * binary search costs less than any cleverer structure.
 */
export class DeliveryBuffer {
  readonly #items: LiveDelivery[] = []
  #bytes = 0

  get size(): number {
    return this.#items.length
  }

  get all(): readonly LiveDelivery[] {
    return this.#items
  }

  /** Of all bodies. */
  get bytes(): number {
    return this.#bytes
  }

  /** Of what goes next; after all else when there is nothing. */
  get nextTurn(): Turn {
    return this.#items.at(-1) ?? LAST_TURN
  }

  insert(delivery: LiveDelivery): void {
    this.#items.splice(this.#indexOf(delivery), 0, delivery)
    this.#bytes += delivery.size
  }

  next(): LiveDelivery | undefined {
    const next = this.#items.pop()
    if (next !== undefined) this.#bytes -= next.size
    return next
  }

  remove(delivery: LiveDelivery): void {
    const index = this.#indexOf(delivery)
    if (this.#items[index] !== delivery) return
    this.#items.splice(index, 1)
    this.#bytes -= delivery.size
  }

  /** Everything, in the order in which it was in the queue. */
  drain(): LiveDelivery[] {
    this.#bytes = 0
    return this.#items.splice(0).sort((a, b) => a.order - b.order)
  }

  /** The first position whose delivery goes before this one, or is it. */
  #indexOf(delivery: LiveDelivery): number {
    let low = 0
    let high = this.#items.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const other = this.#items[middle]
      if (other !== undefined && goesBefore(delivery, other)) low = middle + 1
      else high = middle
    }
    return low
  }
}
