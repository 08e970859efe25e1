/**
 * Queues that hand nothing out (seed 001 §11.3). Reads are from memory and see what is committed.
 */
export interface QueuePauses {
  /** Since when; null: it is not paused. Asked by every PUSH. */
  since(queue: string): number | null

  /** Remembers the queue where it is unknown. Fence: not paused; a pause that stands stays. */
  pause(queue: string, now: number): Promise<{ pausedAt: number; isNew: boolean }>

  /** The same for the end of a pause. */
  resume(queue: string, now: number): Promise<{ isNew: boolean }>

  /**
   * Queues whose native workers have to be told how it stands: those that were paused or resumed
   * and not told of since, and at start every one that is paused, because a worker may have begun
   * while nobody could answer it.
   */
  owed(): ReadonlySet<string>

  /**
   * The workers of `queue` have heard that it is paused since `pausedAt`, or (null) that it is not.
   * Fence: that still holds. Lazy.
   */
  told(queue: string, pausedAt: number | null): void
}

/**
 * Queues that are gone and whose jobs may have run: nothing is published to them before `rearm`, which
 * takes them off. Reads are from memory.
 */
export interface LostQueues {
  /** From now on, also where that cannot be written; of a queue that is recorded, in later runs as well. */
  mark(queue: string, now: number): Promise<void>

  has(queue: string): boolean

  all(): readonly string[]
}

/**
 * Queues that were declared so short a time ago that RabbitMQ may come back without them when it is
 * killed (docs/faults.md). Reads are from memory and see what is committed.
 */
export interface UnwrittenQueues {
  has(queue: string): boolean

  /** It is about to be declared. No effect on `queues`. */
  mark(queue: string): Promise<void>

  /** RabbitMQ has written it down, or it was not declared. */
  settle(queue: string): Promise<void>
}

/** What happened in a queue within the last hour, kept by the minute and not counted. */
export interface QueueTraffic {
  /** From memory: the 60 minutes up to `now`. */
  lastHour(queue: string, now: number): Traffic
}

export interface Traffic {
  completed: number
  /** Attempts that failed, whatever became of their jobs. */
  failed: number
  /** Of `completed` those of which the start of the attempt is known. */
  timed: number
  /** Sum over those: from the start of the attempt to its end. */
  durationMs: number
  /** Attempts that began after a wait in the queue. */
  waited: number
  /** Sum over those: from `enqueuedAt` to the start. */
  waitMs: number
}
