/** The part of the ledger's contract for queues: pauses, losses, idleness, traffic. */
import type { Histogram } from '../job/values/histogram.ts'

/** Pauses queues, which then hand out no jobs (seed 001 §11.3). */
export interface QueuePauses {
  /** Pauses the queue, and records it if it is unknown. Fence: not paused; else the existing pause stays. */
  pause(queue: string, now: number): Promise<{ pausedAt: number; isNew: boolean }>

  /** Ends the pause, and records the queue if it is unknown. `isNew`: it was paused until now. */
  resume(queue: string, now: number): Promise<{ isNew: boolean }>

  /**
   * Notes that the workers of `queue` were told that it is paused since `pausedAt`, or (null) that it is not
   * paused. Fence: that is still so. Lazy.
   */
  told(queue: string, pausedAt: number | null): void
}

/** See `KnownLosses`. */
export interface LostQueues {
  /**
   * Marks the queue as lost: in memory at once, even if the write fails; and for later runs of the gateway,
   * if the write succeeds and the queue is recorded.
   */
  mark(queue: string, now: number): Promise<void>
}

/**
 * Queues that were declared so recently that RabbitMQ may come back without them if it is killed now
 * (docs/operate/faults.md).
 */
export interface UnwrittenQueues {
  /** Call before declaring the queue. Does not record it in `queues`. */
  mark(queue: string): Promise<void>

  /** Call when RabbitMQ has written the queue to disk, or when it was not declared after all. */
  settle(queue: string): Promise<void>
}

/**
 * Jobs whose job message RabbitMQ has lost: `available`, owing no message, and not known to be with a native
 * worker, though their queue is empty.
 */
export interface LostMessages {
  /** Gives each of them a new outbox nonce, which the relay publishes. Returns how many. */
  rearm(queue: string, span: EnqueuedSpan): Promise<number>
}

/** Clock time: after `after` (null: at any time), and up to `before`. */
export interface EnqueuedSpan {
  after: number | null
  before: number
}

/** Queues that nobody uses any more. */
export interface IdleQueues {
  /**
   * Notes which queues are idle, and returns those that have been for `idleMs`. Idle: no live jobs, no dead
   * letters, not paused or lost, and no attempt began or ended; and `isUsed` does not say otherwise.
   */
  look(now: number, idleMs: number, isUsed: (queue: string) => boolean): Promise<string[]>

  /**
   * Forgets the queue's name and its retry queues. Fence: it has no live jobs, dead letters or cron entry,
   * is not paused or lost, and nothing is set for it (`QueueSettings`). False: it stays.
   */
  forget(queue: string): Promise<boolean>

  /** As `forget`, with all that is set for the queue. Fence: no live jobs, dead letters or cron entry. */
  delete(queue: string): Promise<boolean>
}

export interface TrafficQuery {
  /** Null: all queues together. */
  queue: string | null
  span: 'minute' | 'hour'
  /** Clock time, ms: those that contain `from`, and before `to`. At most a day, or 30 days, apart. */
  from: number
  to: number
}

export interface TrafficPoint extends Traffic {
  /** Clock time, ms: when the minute or hour began. */
  start: number
  /** Of the `timed` jobs. */
  durations: Histogram
  /** Of the `waited` attempts. */
  waits: Histogram
}

export interface Traffic {
  /** Jobs that were stored, in whatever state. */
  enqueued: number
  completed: number
  /** Failed attempts, whether the job was retried or discarded. */
  failed: number
  /** Failed attempts after which the job is tried again. */
  retried: number
  /** How many of `completed` have a known start of the attempt. */
  timed: number
  /** Sum over the `timed` jobs: from the start of the attempt to its end. */
  durationMs: number
  /** Attempts whose wait in the queue is known. */
  waited: number
  /** Sum over the `waited` attempts: from `enqueuedAt` to the start. */
  waitMs: number
}
