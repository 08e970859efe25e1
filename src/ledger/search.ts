/** The part of the ledger's contract that finds jobs, and says how long the oldest has waited. */
import type { Carry, JobRow, JobStanding } from '../job/job.ts'
import type { JobFilter } from '../job/search/filter.ts'

/**
 * What lists of jobs can be ordered by; jobs that are equal in it are in the order of their arrival.
 * `discarded_at`: of dead letters only.
 */
export type JobOrder = 'created_at' | 'scheduled_at' | 'priority' | 'updated_at' | 'discarded_at'

/** A place in an ordered list: the value that it is ordered by, and the number of the row. */
export type Place = readonly [value: number, row: number]

export interface SearchPage {
  order: JobOrder
  isAscending: boolean
  /** After which place the page begins; null: at the start of the list. */
  after: Place | null
  /** How many jobs to skip from there. */
  offset: number
  limit: number
  /** True: with the texts of each job. Then there may be fewer than `limit`, if they are large. */
  isWhole: boolean
}

/** A job of a list, without its large texts. */
export interface FoundJob extends JobStanding {
  carry: Carry | null
  error: string | null
  workflowId: string | null
  /** Null if the page was not to be `isWhole`. */
  whole: JobRow | null
}

export interface Found {
  jobs: FoundJob[]
  /** The place of the last job, if more may follow. */
  next: Place | null
  /** How many jobs the search has looked at, if it did not look at all that could match; else null. */
  searched: number | null
}

/** A job that matches, and its place in the list. */
export interface FoundId {
  id: string
  place: Place
}

/** How many jobs match; `isBound`: there are more. */
export interface Counted {
  count: number
  isBound: boolean
}

/** The instants since when the oldest jobs of a queue wait, and its most overdue ones; null: none does. */
export interface OldestJobs {
  /** `enqueued_at` of the `available` job that waits longest, to the second. */
  available: number | null
  /** The due time of the `retryable` and of the `scheduled` job that should be available by now. */
  retryable: number | null
  scheduled: number | null
}

/**
 * Finds jobs, without holding up anything else: every read works by index, in slices of some 10 ms.
 *
 * States, queues, types, the time of creation, ids, the error code, the cron entry and the workflow are found by
 * index however many jobs there are. Where other conditions are rare, the newest 100,000 jobs (or the oldest)
 * that meet those are looked at one by one; `searched` says so. Erased rows are never found.
 */
export interface JobSearch {
  /** By `created_at`, any number of jobs; in another order the newest 10,000, and then `searched` is set. */
  page(filter: JobFilter, page: SearchPage): Promise<Found>

  /**
   * How many jobs match: from kept counts if only states and queues are asked for, else counted up to
   * `atMost`; of jobs that are compared one by one, as far as the newest 10,000 tell.
   */
  count(filter: JobFilter, atMost: number): Promise<Counted>

  /**
   * A page of the ids that match, oldest first, for work on all of them: follow `next` until it is null. A
   * page may have no ids at all. `limit`: at most so many ids. Sees changes between the pages.
   */
  ids(
    filter: JobFilter,
    after: Place | null,
    limit: number,
  ): Promise<{ found: FoundId[]; next: Place | null }>

  /**
   * How many `available` jobs of the queue have which priority. Looks at the oldest 100,000; `searched` says so,
   * and else is null.
   */
  priorities(
    queue: string,
  ): Promise<{ counts: ReadonlyMap<number, number>; searched: number | null }>

  /** The oldest jobs of these queues. `now`: clock time; `wall`: wall time, for schedules. */
  oldest(
    queues: readonly string[],
    now: number,
    wall: number,
  ): Promise<ReadonlyMap<string, OldestJobs>>
}
