/** The unassigned deliveries of one queue, by priority, then in queue order. */
import { goesBefore, LAST_TURN, type Turn } from '../../job/delivery-order.ts'
import type { LiveDelivery } from './delivery.ts'

/**
 * Unassigned deliveries of one queue, by exact OJS priority, then in queue order. The last element of the
 * array is the next to go. It holds at most consumer channels × prefetch, so an insert by binary search is
 * cheaper than any cleverer structure.
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

  /** Total size of all bodies. */
  get bytes(): number {
    return this.#bytes
  }

  /** Turn of the delivery that goes next; `LAST_TURN` when the buffer is empty. */
  get nextTurn(): Turn {
    return this.#items.at(-1) ?? LAST_TURN
  }

  /** The first `limit` to go. They stay. */
  ahead(limit: number): LiveDelivery[] {
    return this.#items.slice(-limit).reverse()
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

  /** Removes and returns everything, in queue order. */
  drain(): LiveDelivery[] {
    this.#bytes = 0
    return this.#items.splice(0).sort((a, b) => a.order - b.order)
  }

  /** The first position whose delivery goes before this one, or is this one. */
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
