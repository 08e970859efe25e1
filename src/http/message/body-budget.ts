/** A bound on the memory of all bodies that are arriving together. */
import { type OjsError, unavailable } from '../../errors.ts'

/** The body of a request. */
export interface Incoming {
  /** The largest size that is allowed for it. */
  readonly maxBytes: number
  /** Bytes received so far. */
  size: number
  refuse(error: OjsError): void
}

/** Limits the memory of all bodies together until they are parsed, which the limit per body does not. */
export class BodyBudget {
  readonly #maxBytes: number
  readonly #coming = new Set<Incoming>()
  readonly #complete = new Set<Incoming>()
  #taken = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get taken(): number {
    return this.#taken
  }

  /** Counts `bytes` more of `body`. If all bodies together are too large then, refuses the largest. */
  take(body: Incoming, bytes: number): void {
    this.#coming.add(body)
    body.size += bytes
    this.#taken += bytes
    while (this.#taken > this.#maxBytes) {
      const largest = this.#largest()
      // Together they may always take as much as the largest may have alone.
      if (largest === undefined || this.#taken <= largest.maxBytes) return
      this.end(largest)
      largest.refuse(
        unavailable('The request bodies that are arriving now are too large together.', 'busy'),
      )
    }
  }

  /** The body has arrived, and is not refused any more. It counts until it ends. */
  complete(body: Incoming): void {
    if (this.#coming.delete(body)) this.#complete.add(body)
  }

  /** Idempotent. */
  end(body: Incoming): void {
    if (this.#coming.delete(body) || this.#complete.delete(body)) this.#taken -= body.size
  }

  /**
   * The largest, not the latest: else a few slow batches would block the small ACKs of all workers, whose
   * leases would run out.
   */
  #largest(): Incoming | undefined {
    let largest: Incoming | undefined
    for (const body of this.#coming) if (body.size > (largest?.size ?? 0)) largest = body
    return largest
  }
}
