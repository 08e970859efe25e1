/** The part of the ledger's contract for what operators set for a queue at run time. */
import type { RetryRequest } from '../job/request.ts'

/** A member that is null is not set. */
export interface QueueConfiguration {
  /** For jobs that name no retry policy and no number of attempts, as a PUSH would send it. */
  defaultRetry: RetryRequest | null
  /** Most messages, and bytes of messages, that wait in the queue in RabbitMQ. */
  maxSize: number | null
  maxSizeBytes: number | null
}

export interface QueueSettings {
  /** Since when the queue takes no new jobs; null: it does. Instant, ms. */
  drainingAt: number | null
  configuration: QueueConfiguration
}

export interface QueueSettingsLedger {
  /** Records the queue if it is unknown. Fence: not draining; else `since` stays. */
  drain(queue: string, now: number): Promise<{ since: number; isNew: boolean }>

  /** False: the queue was not draining. */
  endDrain(queue: string): Promise<boolean>

  /** Sets the members that are named; null unsets one. Records the queue if it is unknown. */
  configure(
    queue: string,
    change: Partial<QueueConfiguration>,
    now: number,
  ): Promise<QueueConfiguration>
}

export const NOT_CONFIGURED: QueueConfiguration = {
  defaultRetry: null,
  maxSize: null,
  maxSizeBytes: null,
}
