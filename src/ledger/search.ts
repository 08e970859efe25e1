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

/**
 * The place where a page ended. If it had to end before it was full, there are two more numbers: how many matches
 * are yet to be skipped, and how many jobs in a row did not match.
 */
export type PageEnd = readonly [...Place, ...open: number[]]

export interface SearchPage {
  order: JobOrder
  isAscending: boolean
  /** The end of the page before; null: at the start of the list. */
  after: PageEnd | null
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
  /** Where the next page begins, if more may follow. It may be there though this page has no jobs. */
  next: PageEnd | null
  /** This page had to end before it was full, and `next` leads on from there. */
  isEarly: boolean
  /**
   * How many jobs were looked at since the last page that had jobs, if the list is cut or this page had to end
   * before it was full; else null.
   */
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
 * index however many jobs there are. The jobs that meet those are compared with other conditions one by one,
 * 4,000 for a page, and a list ends after 100,000 in a row of which none matches; `searched` says so. Erased
 * rows are never found.
 */
export interface JobSearch {
  /**
   * By `created_at`, any number of jobs. In another order without an index the newest 10,000 are looked at, and
   * if that was not all, `searched` is set.
   */
  page(filter: JobFilter, page: SearchPage): Promise<Found>

  /**
   * How many jobs match: from kept counts if only states and queues are asked for, else counted up to
   * `atMost`; of jobs that are compared one by one, as far as the newest 4,000 tell.
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
