import type { Delivery } from '../../broker/broker.ts'
import { InHand } from './in-hand.ts'
import { UnsureTokens } from './unsure-tokens.ts'

/** What this process knows about tokens beyond the ledger; in memory only (law 1). */
export class Tokens {
  /** The deliveries behind the leases whose holder is `gateway`, by job id. */
  readonly held = new Map<string, Delivery>()
  /** Ids whose token this process is publishing, up to the confirm, or withdraws; the relay skips them. */
  readonly sending = new InHand()
  /** Ids whose token may be in RabbitMQ although it was never confirmed. */
  readonly unsure = new UnsureTokens()
  /**
   * Ids of batches whose confirms are not all in. Their deliveries are parked, so that a batch becomes
   * claimable in one step (architecture §2). A crash forgets this: the rows are then claimable singly.
   */
  readonly staging = new Set<string>()

  /** True while this process publishes the job's token, or its batch may still be withdrawn as a whole. */
  isInHand(id: string): boolean {
    return this.sending.has(id) || this.staging.has(id)
  }

  /** True when no unconfirmed token of this process can be in RabbitMQ or on its way there. */
  isSurelyUnsent(id: string): boolean {
    return !this.isInHand(id) && !this.unsure.has(id)
  }
}
