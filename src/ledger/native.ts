import type { DyingToken } from '../job/dead-letter.ts'
import type { JobRow, NewJob } from '../job/job.ts'
import type { ReportedEvent } from '../job/report.ts'
import type { Enqueued } from './enqueued.ts'
import type { ExtendedLease, LeaseFence } from './leases.ts'

/** The part of the ledger's contract that native workers need (architecture §5). */
export interface NativeLedger {
  /**
   * A schedule that was published natively: as `insert`, but dropped where the id was cancelled
   * before it came (`cancelAny`).
   */
  adoptSchedule(job: NewJob, now: number): Promise<Enqueued | { outcome: 'tombstoned' }>

  /**
   * What native workers report, in order and in one transaction; results in the order of `events`.
   * Fence: the report table (`job/report.ts`). What starts is leased to the worker, holder native.
   * What ends is settled as far as the worker does it: it acknowledges or nacks its delivery after
   * the report is confirmed, so no token counts as out, but for one that it has put in a rung. A dead
   * letter whose token is acknowledged so owes its copy (a fresh outbox nonce).
   */
  applyReports(events: readonly ReportedEvent[], terms: ReportTerms): Promise<ReportResult[]>

  /**
   * The heartbeat of a native worker; results in the order of `ids`. Fence: `job/native-heartbeat.ts`.
   */
  beatNative(ids: readonly string[], beat: NativeBeat): Promise<BeatResult[]>

  /**
   * A native worker acknowledges the token behind this lease, which goes on without it: holder :=
   * `ledger`. Fence: `active`, this generation and attempt, whoever held it.
   */
  handOverAny(lease: LeaseFence): Promise<boolean>

  /**
   * A job that died in the broker without us: nacked natively, expired or pushed out of its queue,
   * or over the delivery limit. → `discarded`, attempt := the token's, its copy in the DLX queue is
   * there. An unknown id is adopted (`adopt`) and discarded at once. Of a row that was over before,
   * the token is back; and the copy recorded as made where one was owed, else as stale.
   * Of one that goes on without the token, the copy may become stale, and its lease is the ledger's.
   * Fence: `mayDie` of `job/dead-letter.ts`.
   */
  discardDead(token: DeadToken, terms: { now: number; wall: number }): Promise<DeadOutcome>

  /** It was cancelled before anybody knew it (`cancelAny`). */
  isTombstoned(id: string): boolean

  /**
   * What was cancelled in these queues and whose token may still be in the broker, the newest
   * first; by index. `truncated`: there are more than `limit`.
   */
  tombstones(
    queues: readonly string[],
    limit: number,
  ): { cancelled: CancelledToken[]; truncated: boolean }
}

/** Tokens of this job up to this generation must not run. */
export interface CancelledToken {
  id: string
  generation: number
}

export interface ReportTerms {
  now: number
  /** Where the job names none. Milliseconds. */
  defaultLeaseMs: number
  /** Uniform in [0, 1); for the jitter of a retry that the worker leaves to us. */
  random(): number
}

/**
 * `begun`: as it ran, where the worker had not said that the attempt had started. `promoted`: it was
 * due and ran before anybody had made it available. `isCounted`: that the attempt failed was counted
 * before, when its lease ran out.
 */
export type ReportResult =
  | { outcome: 'ignored' }
  /** Nothing to tell: only the record of an earlier attempt is better now. */
  | { outcome: 'amended' }
  /** The start of an attempt whose end is in the same report, and began it. */
  | { outcome: 'merged' }
  | { outcome: 'started'; job: JobRow; promoted: boolean }
  /** Discarded without an attempt. */
  | { outcome: 'expired'; job: JobRow }
  /** Available again, the attempt not counted; a fresh outbox nonce where no token is out. */
  | { outcome: 'released'; job: JobRow }
  | ({ outcome: 'completed' } & Ended)
  | ({ outcome: 'failed'; isCounted: boolean } & Ended)

interface Ended {
  job: JobRow
  begun: JobRow | null
  promoted: boolean
}

export interface NativeBeat {
  now: number
  wall: number
  workerId: string
  /** Null: each lease's own length. */
  leaseMs: number | null
  /** For one that starts, where the job names none. */
  defaultLeaseMs: number
}

export type BeatResult =
  | { outcome: 'ignored' }
  | { outcome: 'extended'; lease: ExtendedLease }
  | { outcome: 'started'; job: JobRow; promoted: boolean }
  /** Its lease had run out; the same attempt goes on. */
  | { outcome: 'resumed'; job: JobRow }
  /** The worker has not heard of it. */
  | { outcome: 'cancelled'; job: Pick<JobRow, 'id' | 'queue' | 'generation'> }

export interface DeadToken extends DyingToken {
  id: string
  /** The error record, given what the row knows already. `isExpired`: no attempt was made. */
  describe(row: JobRow): DeathRecord
  isExpired: boolean
  /** Called when the id is unknown. Throws `OjsError` when the body is not an OJS job. */
  adopt(): NewJob
}

/** `isCounted`: that the attempt failed was recorded before, when its lease ran out. */
type DeathRecord = Pick<JobRow, 'error' | 'errors' | 'isDeadLetter'> & {
  isCounted?: boolean
}

export type DeadOutcome =
  | { outcome: 'discarded'; job: JobRow }
  /** Nothing to do: settled already, or not this life or attempt. */
  | { outcome: 'ignored' }
  | { outcome: 'malformed'; error: Error }
