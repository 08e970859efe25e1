/** The part of the ledger's contract for recurring jobs (seed 001 §13). */
import type { CronDefinition, CronEntry } from '../job/cron/entry.ts'
import type { JobRow, JobState, NewJob } from '../job/job.ts'
import type { Cancelled } from './ended.ts'
import type { AnsweredBefore, Keyed } from './idempotency.ts'

/**
 * The part of the ledger's contract that recurring jobs need (seed 001 §13). A cron entry's times are wall
 * time; `now` is clock time, as for all other writes.
 */
export interface CronLedger {
  /**
   * Stores an entry. `createdAt`: the wall time now. Fence: the name is free, and there are fewer than `limit`
   * entries; or `isReplacing`, and the entry of this name stands at no time that has come (`due`).
   *
   * The new definition takes the place of the old one in the same row: it keeps its jobs, counts and times
   * that wait (unless it is not enabled, and `isKeepingQueued` is not set), and its next time if the schedule
   * is the same. `basis`: the old definition that it was made of; another one is `changed`.
   *
   * Remembers `keyed` with the entry's name and `seq`, or stores nothing if it was remembered.
   */
  register(definition: CronDefinition, terms: RegisterTerms): Promise<Registered>

  /**
   * A run that somebody asked for at `at` (wall time): stores its job whatever the overlap policy says, and
   * counts it; the next time stays. Remembers `keyed` with the job's id, or stores nothing if it was remembered.
   */
  trigger(name: string, at: number, making: Making, keyed?: Keyed): Promise<Triggered>

  /**
   * Deletes the entry and its queued ticks; its jobs stay. `entry`: as it was. Fence: it stands at no time that
   * has come (`due`).
   */
  remove(name: string, wall: number): Promise<RemovedEntry | { outcome: 'missing' } | StillDue>

  /**
   * Does one tick of an entry in one transaction: stores its job, if the overlap policy allows one (decided
   * here), and the time of the next tick. Fence: the entry still stands at this tick, so that a tick takes
   * effect exactly once, also when the call is repeated or the process restarts.
   */
  fire(tick: CronTick, change: TickChange): Promise<Fired>

  /** Sets the entry's next time. Fence: it still stands at `tick`. */
  reset(tick: CronTick, nextRunAt: number): Promise<void>

  /**
   * Stores the job of the entry's first queued tick. Fence: `tick` is still the first, the entry is enabled,
   * and all its jobs are over.
   */
  release(tick: CronTick, making: Making): Promise<Made | { outcome: 'stale' }>

  /** Removes a queued tick whose job cannot be made, for `reason`. Fence: it is still the first. */
  drop(tick: CronTick, reason: string): Promise<boolean>
}

/** An entry that stands at a tick. */
export type DueEntry = CronEntry & { nextRunAt: number }

export interface RegisterTerms {
  nextRunAt: number | null
  createdAt: number
  limit: number
  isReplacing?: boolean
  basis?: CronDefinition
  isKeepingQueued?: boolean
  keyed?: Keyed
}

export interface RemovedEntry {
  outcome: 'removed'
  entry: CronEntry
}

export type Registered =
  | { outcome: 'registered'; entry: CronEntry }
  /** `before`: as it was. */
  | { outcome: 'replaced'; entry: CronEntry; before: CronEntry }
  | { outcome: 'duplicate' | 'full' | 'changed' }
  | StillDue
  | AnsweredBefore

/** Nothing has changed: the entry's tick has come, and has to be fired first, or it would be lost. */
export interface StillDue {
  outcome: 'due'
  entry: DueEntry
}

/** How many runs of each entry are kept. */
export const KEPT_RUNS = 100

/** One run of an entry, or a time that made no job. Instants: wall time, of the job clock time. */
export interface CronRun {
  scheduledAt: number
  isManual: boolean
  /** Null: it was skipped, for `reason`. */
  jobId: string | null
  reason: string | null
  /** Of the job as it is, or as it was when it was deleted; null: unknown. */
  state: JobState | null
  startedAt: number | null
  endedAt: number | null
}

export type Triggered = Made | AnsweredBefore | { outcome: 'missing' }

/** One time of an entry. `seq` tells it from other entries that had the same name before or after. */
export interface CronTick {
  name: string
  seq: number
  at: number
}

/** The job of a tick, which is stored by its `unique` policy, as a PUSH of it would be. */
export interface Making {
  job: NewJob
  now: number
  /** Whether a job may still be withdrawn (`EnqueueTerms`), or may be over although the ledger has not heard it. */
  isUnsettled(id: string): boolean
}

export interface TickChange extends Omit<Making, 'job'> {
  /** Null: the tick is skipped, whatever the overlap policy says. */
  job: NewJob | null
  /** Why, for the entry's runs. */
  reason?: string | undefined
  nextRunAt: number | null
  /** How many ticks may wait under the overlap policy `enqueue`. */
  maxQueued: number
}

export type Made =
  /** `job`: as it was stored. `cancelled`: the jobs that it replaced (`unique`). */
  | { outcome: 'fired'; job: JobRow; cancelled: readonly Cancelled[] }
  /** The tick is done without a job, because `existingId` has the same unique key. */
  | { outcome: 'unneeded'; existingId: string }
  /** Nothing has changed: a job that is in the way (its unique key, the overlap policy) is unsettled. Try again later. */
  | { outcome: 'unsettled' }

export type Fired =
  | Made
  /** The tick waits until the jobs of the ticks before it are over. */
  | { outcome: 'queued' }
  | { outcome: 'skipped' }
  /** The tick is skipped. `runningId`: a job of the entry that is not over, or the entry's last job. */
  | { outcome: 'overlapped' | 'queue-full'; runningId: string | null }
  /** Nothing has changed: under `cancel_previous` the caller has to cancel these jobs first. */
  | { outcome: 'blocked'; runningIds: string[] }
  /** This tick was done before, or the entry is gone. */
  | { outcome: 'stale' }
