import type { CronDefinition, CronEntry, CronStanding } from '../job/cron-entry.ts'
import type { JobRow, NewJob } from '../job/job.ts'
import type { Cancelled } from './ledger.ts'

/**
 * The part of the ledger's contract that recurring jobs need (seed 001 §13). Instants of entries
 * are of the wall clock; `now` is the clock of all other writes.
 */
export interface CronLedger {
  /** Fence: the name is free, and there are fewer than `limit` entries. */
  register(
    definition: CronDefinition,
    first: { nextRunAt: number | null; createdAt: number; limit: number },
  ): Promise<{ outcome: 'registered'; entry: CronEntry } | { outcome: 'duplicate' | 'full' }>

  find(name: string): CronEntry | null

  /** Oldest first; by index. */
  list(page: { limit: number; offset: number }): { entries: CronEntry[]; total: number }

  /** Its jobs stay; what is queued goes with it. False: there was none of this name. */
  remove(name: string): Promise<boolean>

  /**
   * Enabled entries whose time has come, the most overdue first; by index. Fewer where they are large: all
   * that is given out is in memory at once.
   */
  due(wall: number, limit: number): CronEntry[]

  /**
   * One tick of an entry, in one transaction: its job, where there is to be one, and the time of the
   * next. Fence: the entry still stands at this tick; so a tick has its effect exactly once,
   * whoever restarts or repeats this. What the overlap policy says is decided here.
   */
  fire(tick: CronTick, change: TickChange): Promise<Fired>

  /** Entries whose time is later than `wall`: those behind the entry `after` (0: all), in order. */
  ahead(wall: number, after: number, limit: number): CronStanding[]

  /** Another time for what stands at this tick. Fence: it still does. */
  reset(tick: CronTick, nextRunAt: number): Promise<void>

  /**
   * Entries with queued ticks and no job that is not over, by name from `after` on; by index. Fewer
   * where they are large; none: there are no more.
   */
  releasable(after: string, limit: number): CronEntry[]

  /**
   * The first queued tick makes its job. Fence: it is still the first, and no job of the entry is
   * not over.
   */
  release(tick: CronTick, making: Making): Promise<Made | { outcome: 'stale' }>

  /** A queued tick that can have no job. Fence: it is still the first. */
  drop(tick: CronTick): Promise<boolean>
}

/** One of the entries that ever had this name, and one of its times. */
export interface CronTick {
  name: string
  seq: number
  at: number
}

/** How the job of a tick is stored: by its `unique` policy, as a PUSH would be. */
export interface Making {
  job: NewJob
  now: number
  /** As of `EnqueueTerms`. */
  isUnsettled(id: string): boolean
}

export interface TickChange extends Omit<Making, 'job'> {
  /** Null: the tick is left out, whatever the overlap policy says. */
  job: NewJob | null
  nextRunAt: number | null
  /** More ticks than these do not wait (`enqueue`). */
  maxQueued: number
}

export type Made =
  /** `job`: as it was stored. `cancelled`: what it took the place of (`unique`). */
  | { outcome: 'fired'; job: JobRow; cancelled: readonly Cancelled[] }
  /** Its `unique` policy wants none beside this one: the tick is over without a job. */
  | { outcome: 'unneeded'; existingId: string }
  /** Nothing has changed: a job that is in the way may still be withdrawn. */
  | { outcome: 'unsettled' }

export type Fired =
  | Made
  /** It waits until the jobs before it are over. */
  | { outcome: 'queued' }
  | { outcome: 'skipped' }
  /** `runningId`: a job of the entry that is not over, or its last one. */
  | { outcome: 'overlapped' | 'queue-full'; runningId: string | null }
  /** Nothing has changed: the policy wants these jobs cancelled first. */
  | { outcome: 'blocked'; runningIds: string[] }
  /** It has happened before, or the entry is gone. */
  | { outcome: 'stale' }
