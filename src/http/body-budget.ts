import { type OjsError, unavailable } from '../errors.ts'

/** A body of which not all is here yet. */
export interface Incoming {
  /** What it may have. */
  readonly maxBytes: number
  /** What has come of it. */
  size: number
  refuse(error: OjsError): void
}

/** What bodies that are still coming may take together: the limit of one does not bound them all. */
export class BodyBudget {
  readonly #maxBytes: number
  readonly #coming = new Set<Incoming>()
  #taken = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get taken(): number {
    return this.#taken
  }

  /** So much more has come of it; that may be too much of the largest, which is refused then. */
  take(body: Incoming, bytes: number): void {
    this.#coming.add(body)
    body.size += bytes
    this.#taken += bytes
    while (this.#taken > this.#maxBytes) {
      const largest = this.#largest()
      // Whatever one may have, it may have alone.
      if (largest === undefined || this.#taken <= largest.maxBytes) return
      this.end(largest)
      largest.refuse(unavailable('Too much is being sent at once by all clients together.', 'busy'))
    }
  }

  /** Idempotent. */
  end(body: Incoming): void {
    if (this.#coming.delete(body)) this.#taken -= body.size
  }

  /**
   * Not whoever comes last: some slow batches would keep every worker from acknowledging, and their
   * leases would run out.
   */
  #largest(): Incoming | undefined {
    let largest: Incoming | undefined
    for (const body of this.#coming) if (body.size > (largest?.size ?? 0)) largest = body
    return largest
  }
}
