/** The part of the ledger's contract for actions on many jobs: by ids, and by filter in the background. */
import type { Cause } from '../job/history/changes.ts'
import type { JobRow, JobState } from '../job/job.ts'
import type { JobFilter } from '../job/search/filter.ts'
import type { JobAction, Refusal, Steering } from '../job/steer.ts'
import type { Cancelled } from './ended.ts'
import type { KeyHolder } from './enqueued.ts'
import type { FoundId, Place } from './search.ts'

export interface ActTerms {
  /** Clock and wall time, ms. */
  now: number
  wall: number
  cause: Cause
  /** The write ends after this time, after one job at least. */
  maxMs: number
}

/** What became of one job. */
export type Acted =
  /** `before`: as it was. */
  | { did: 'retry'; job: JobRow; before: JobRow }
  | ({ did: 'cancel' } & Cancelled)
  | { did: 'delete'; before: JobRow }
  | Refused

export interface Refused {
  did: null
  id: string
  reason: Refusal
  /** Null: there is no such job. */
  state: JobState | null
  /** The job that has its unique key. */
  rival?: { existing: KeyHolder; uniqueKey: string }
}

export interface BulkLedger {
  /**
   * Acts on the jobs in order, in one write, by `refusalOf`. Returns what became of each of the first ones;
   * fewer than `ids` if its time was up. With `isAtomic`, of all of them, whatever time that takes; if one is
   * refused, nothing is changed, and only the refused ones are returned.
   *
   * `retry`: any state of `TOUCHABLE` → `available`, generation + 1, a fresh outbox nonce. Attempts, result
   * and error are cleared, `errors` kept; a `retryable` job keeps its attempts and its error. Fence: no job
   * that conflicts with its `unique` policy; not a completed step of a workflow. `cancel`: as `Ledger.cancel`.
   * `delete`: erases the row (`isErased`), which stays for a week, so that late messages are dropped. Fence: no
   * step of a workflow, unless it is a dead letter. Copies in DLX queues become stale.
   */
  act(
    ids: readonly string[],
    steering: Steering,
    terms: ActTerms & { isAtomic?: boolean },
  ): Promise<Acted[]>

  /**
   * Stores an operation that acts on all jobs that match a filter. Forgets the oldest that have ended, beyond a
   * thousand. False: so many run that there is no room.
   */
  begin(operation: NewOperation): Promise<boolean>

  /**
   * Acts on the next jobs of an operation, and notes where it is, in one write: no job is met twice, whatever
   * happens in between. `from`: the place behind which `found` was read; `next`: where the following page
   * begins, null at the end of the list. The operation goes on behind the last job that was acted on in time.
   * Null: it has been stopped, or is at another place.
   */
  advance(
    id: string,
    page: { from: Place | null; found: readonly FoundId[]; next: Place | null },
    terms: ActTerms,
  ): Promise<{ operation: BulkOperation; acted: Acted[] } | null>

  /** Stops it if it runs; null: unknown. */
  stop(id: string, now: number): Promise<BulkOperation | null>
}

export interface NewOperation {
  id: string
  action: JobAction
  /** JSON text: the filter as the client wrote it. */
  asked: string
  filter: JobFilter
  steering: Steering
  /** How many jobs it may act on; null: any number. */
  limit: number | null
  /** How many jobs matched when it began, counted up to some bound. */
  expected: { count: number; isBound: boolean }
  cause: Cause
  createdAt: number
}

export interface BulkOperation extends NewOperation {
  state: 'running' | 'completed' | 'stopped'
  /** The place of the last job that it met; null: it has met none. */
  place: Place | null
  /** Jobs that it met, those that it changed, and those that it left alone. */
  matched: number
  succeeded: number
  failed: number
  /** The first hundred jobs that it left alone. */
  refused: { id: string; reason: Refusal }[]
  /** It ended at its limit or was stopped, and more jobs may match. */
  hasMore: boolean
  updatedAt: number
  endedAt: number | null
}

/** Some of the messages that rows owe. */
export interface OwedKind {
  /** Of jobs of these queues. */
  queues: readonly string[]
  /** True: the broadcasts of cancelled jobs; false: all others. */
  ofCancels: boolean
}
