import { goesBefore, type Turn } from '../job/turn.ts'

/** A confirmed message that has not come within this time has gone to another consumer, or waits. */
const UNDERWAY_MS = 25
/** Where others take what we have published, so long nobody waits for anything. */
const SHARED_MS = 1_000
/** Of more nobody needs to know; what waits in the broker's queue would pile up here. */
const MAX_UNDERWAY = 256

interface Expected extends Turn {
  /** When its publish was confirmed, and its client may have been told. */
  confirmedAt: number
}

/**
 * What we have published to a queue that we consume, and have not been given back: the confirm and
 * the delivery come over two connections, so a client that has its 201 may fetch before we have its
 * job.
 */
export class Underway {
  readonly #expected = new Map<string, Expected>()
  #sharedUntil = Number.NEGATIVE_INFINITY

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

  /** Its place in the order of the publishes; undefined where nobody has seen it go. */
  arrived(id: string): number | undefined {
    const order = this.#expected.get(id)?.order
    if (order !== undefined) this.#expected.delete(id)
    return order
  }

  /** It will not come. */
  forget(id: string): void {
    this.#expected.delete(id)
  }

  /**
   * Was something that goes before this confirmed by then, and may still come? Not true for long:
   * what another consumer was given never comes.
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
