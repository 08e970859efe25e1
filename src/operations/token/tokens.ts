import type { Delivery } from '../../broker/broker.ts'
import { InHand } from './in-hand.ts'
import { UnsureTokens } from './unsure-tokens.ts'

/** What this process knows of tokens beyond the ledger; nothing of it outlives the process (law 1). */
export class Tokens {
  /** The deliveries behind the leases whose holder is `gateway`, by job id. */
  readonly held = new Map<string, Delivery>()
  /** Ids whose token this process will publish or awaits the confirm of; the relay skips them. */
  readonly sending = new InHand()
  /** Ids whose token may be in RabbitMQ although it was never confirmed. */
  readonly unsure = new UnsureTokens()
  /**
   * Ids of a batch whose confirms are not all in: their tokens wait, so that the batch becomes
   * claimable in one step (architecture §2). After a crash the rows stand as they are.
   */
  readonly staging = new Set<string>()

  /** Somebody here sends it, or its batch, of which one job may still be refused and all withdrawn. */
  isInHand(id: string): boolean {
    return this.sending.has(id) || this.staging.has(id)
  }

  /** None is in RabbitMQ by this process, and none is going there. */
  isSurelyUnsent(id: string): boolean {
    return !this.isInHand(id) && !this.unsure.has(id)
  }
}
