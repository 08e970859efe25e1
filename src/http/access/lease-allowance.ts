/** How many requests about a running lease are free of the request limit. */
import type { RunningLease } from '../../operations/deps.ts'

/**
 * What each running lease may ask for free in its own length: heartbeats at a third of it, and an ACK that is
 * repeated, need far fewer. Requests beyond it count as any others, so that one lease is no way around the
 * request limit.
 */
const PER_LEASE = 20
/** The gateway asks for no heartbeats that are closer than 50 ms: twenty in this time. */
const MIN_LENGTH_MS = 1_000
/** About 8 MB. The oldest entry is forgotten first; its lease only begins anew. */
const MAX_LEASES = 50_000

interface Use {
  count: number
  endsAt: number
}

/** Counts the free requests of each running lease. */
export class LeaseAllowance {
  readonly #maxLeases: number
  readonly #uses = new Map<string, Use>()

  constructor(maxLeases = MAX_LEASES) {
    this.#maxLeases = maxLeases
  }

  /** Counts a request of this lease. False: the lease has none left; then it is not counted here. */
  take({ id, attempt, lengthMs }: RunningLease, now: number): boolean {
    const key = `${attempt} ${id}`
    const use = this.#uses.get(key)
    if (use !== undefined && use.endsAt > now) {
      if (use.count >= PER_LEASE) return false
      use.count += 1
      return true
    }
    this.#begin(key, now + Math.max(MIN_LENGTH_MS, lengthMs))
    return true
  }

  get size(): number {
    return this.#uses.size
  }

  #begin(key: string, endsAt: number): void {
    // Set again, it is the newest entry.
    this.#uses.delete(key)
    const [oldest] = this.#uses.keys()
    if (this.#uses.size >= this.#maxLeases && oldest !== undefined) this.#uses.delete(oldest)
    this.#uses.set(key, { count: 1, endsAt })
  }
}
