/** The ledger's clock: the database's time, followed without a jump. */
import type { Clock } from '../../clock.ts'

/** How many round trips are kept, of which the fastest counts. */
const SAMPLES = 32
/** How fast durations may run faster or slower than this machine's own clock. */
const SLEW = 1 / 1_000
/** A difference that no round trip explains: the database's clock was set, or another host became writable. */
const JUMP_MS = 1_000

interface Sample {
  /** What to add to our monotonic time. */
  offset: number
  roundTripMs: number
}

/**
 * Gateways that take over from each other must agree on the time, whatever their machines' clocks say. `now`
 * never jumps after `settle`: it approaches the database's time by 1 ms a second. `wall` does when the database's
 * clock is set, as every wall clock does.
 */
export class LedgerClock implements Clock {
  readonly #monotonic: () => number
  #samples: Sample[] = []
  #offset: number
  /** Until when `#offset` has been brought. */
  #slewedAt: number

  /** `monotonic`: milliseconds since whenever; `wall`: the machine's clock, which counts until the first answer. */
  constructor(monotonic: () => number = () => performance.now(), wall: () => number = Date.now) {
    this.#monotonic = monotonic
    this.#slewedAt = monotonic()
    this.#offset = wall() - this.#slewedAt
  }

  /** The time by which statements are timed, before and after them. */
  monotonic(): number {
    return this.#monotonic()
  }

  /** The database said `serverMs` between `sentAt` and now, both in our monotonic time. */
  sample(serverMs: number, sentAt: number): void {
    const now = this.#monotonic()
    const sample = { offset: serverMs - (sentAt + now) / 2, roundTripMs: now - sentAt }
    const isSet = Math.abs(sample.offset - this.#target()) > JUMP_MS + sample.roundTripMs
    if (isSet) this.#samples = []
    this.#samples = [...this.#samples.slice(1 - SAMPLES), sample]
  }

  /** Jumps to the database's time. Before anything counts on the clock. */
  settle(): void {
    this.#slewedAt = this.#monotonic()
    this.#offset = this.#target()
  }

  now(): number {
    return Math.round(this.#slewed())
  }

  wall(): number {
    const now = this.#slewed()
    const target = this.#monotonic() + this.#target()
    return Math.round(Math.abs(target - now) > JUMP_MS ? target : now)
  }

  /** How far the machine's own clock is ahead of the database's, in ms. */
  aheadMs(machine: () => number = Date.now): number {
    return Math.round(machine() - this.#monotonic() - this.#target())
  }

  #slewed(): number {
    const now = this.#monotonic()
    const most = (now - this.#slewedAt) * SLEW
    const wanted = this.#target() - this.#offset
    this.#offset += Math.max(-most, Math.min(most, wanted))
    this.#slewedAt = now
    return now + this.#offset
  }

  #target(): number {
    const [first, ...others] = this.#samples
    if (first === undefined) return this.#offset
    return others.reduce((a, b) => (b.roundTripMs <= a.roundTripMs ? b : a), first).offset
  }
}
