/** Part of the `Broker` contract: limits of queues that are set at run time. */

export interface QueueLimits {
  /** Most messages that wait in the queue; null: no limit. */
  maxSize: number | null
  /** Most bytes of them. */
  maxSizeBytes: number | null
}

export type LimitsOutcome =
  | { outcome: 'set' }
  /** The gateway was not told where RabbitMQ's management API is. */
  | { outcome: 'not-configured' }
  /** The user may not set policies. */
  | { outcome: 'denied' }
  /** Another policy applies to the queue; RabbitMQ applies one only, so ours would replace it or be ignored. */
  | { outcome: 'other-policy'; policy: string }
  /** A limited classic queue loses jobs when RabbitMQ restarts (topology/README.md). */
  | { outcome: 'classic-queue' }
  /** RabbitMQ answered that the policy is not valid. */
  | { outcome: 'invalid'; message: string }
  /** The management API cannot be reached, or fails. */
  | { outcome: 'unavailable'; message: string }

export interface Limits {
  /**
   * Sets the limits as a RabbitMQ policy of the queue, which refuses messages above them. RabbitMQ applies it at
   * once. Never rejects.
   */
  set(queue: string, limits: QueueLimits): Promise<LimitsOutcome>

  /** Removes the policy of a queue that is gone, if it can. Never rejects. */
  forget(queue: string): Promise<void>

  /** What `set` would set, for an operator who has to do it. */
  policyOf(queue: string, limits: QueueLimits): Policy
}

/** In the form of RabbitMQ's management API. */
export interface Policy {
  name: string
  pattern: string
  definition: Readonly<Record<string, string | number>>
  priority: number
  'apply-to': 'queues'
}
