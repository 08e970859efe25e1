/** Messages of ours that RabbitMQ has confirmed and not delivered yet: worth a short wait. */
import { goesBefore, type Turn } from '../../job/delivery-order.ts'

/** A confirmed message that has not arrived within this time went to another consumer, or waits. */
const UNDERWAY_MS = 25
/** After another consumer took a message of ours, no fetch waits for messages for this long. */
const SHARED_MS = 1_000
/** No fetch needs more; messages that wait in RabbitMQ's queue would pile up here. */
const MAX_UNDERWAY = 256

interface Expected extends Turn {
  /** When RabbitMQ confirmed the publish, so that the client may have its 201. */
  confirmedAt: number
}

/**
 * Messages that we published to a queue that we consume, and that have not been delivered to us yet. The
 * confirm and the delivery come over two connections, so a client that has its 201 may fetch before its job
 * has arrived.
 */
export class ExpectedDeliveries {
  readonly #expected = new Map<string, Expected>()
  #sharedUntil = Number.NEGATIVE_INFINITY
  /** The place of the last message that came without being expected (any more). */
  #unexpectedAt = Number.NEGATIVE_INFINITY

  get size(): number {
    return this.#expected.size
  }

  sent(id: string, { priority, order }: Turn, now: number): void {
    if (this.#expected.size >= MAX_UNDERWAY) this.#prune(now)
    if (this.#expected.size >= MAX_UNDERWAY) return
    this.#expected.set(id, { priority, order, confirmedAt: Number.POSITIVE_INFINITY })
  }

  confirmed(id: string, now: number): void {
    const expected = this.#expected.get(id)
    if (expected) expected.confirmedAt = now
  }

  /**
   * The place of a message that came as number `arrival`: that of its publish, so that several consumer channels
   * do not shuffle messages. But what was no longer expected can only be placed by its arrival, and a message
   * that was published behind it and comes behind it must not overtake it.
   */
  arrived(id: string, arrival: number): number {
    const order = this.#expected.get(id)?.order
    if (order === undefined) {
      // A delivery that is put back into the buffer comes with its old number.
      this.#unexpectedAt = Math.max(this.#unexpectedAt, arrival)
      return arrival
    }
    this.#expected.delete(id)
    return order > this.#unexpectedAt ? order : arrival
  }

  /** The message will not come. */
  forget(id: string): void {
    this.#expected.delete(id)
  }

  /**
   * True when a message that goes before `turn` was confirmed by the time `by` and may still come. Not for
   * long: a message that another consumer received never comes.
   */
  hasBefore(turn: Turn, by: number, now: number): boolean {
    if (this.#expected.size === 0) return false
    this.#prune(now)
    if (now < this.#sharedUntil) return false
    for (const expected of this.#expected.values()) {
      if (expected.confirmedAt <= by && goesBefore(expected, turn)) return true
    }
    return false
  }

  #prune(now: number): void {
    for (const [id, { confirmedAt }] of this.#expected) {
      if (now - confirmedAt < UNDERWAY_MS) continue
      this.#expected.delete(id)
      this.#sharedUntil = now + SHARED_MS
    }
  }
}
