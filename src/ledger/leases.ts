import type { ArrivingToken, ReportedError } from '../job/arrival.ts'
import type { Holder, JobRow, NewJob } from '../job/job.ts'

/** The part of the ledger's contract that gives jobs to workers and takes them back. */
export interface LeaseLedger {
  /**
   * FETCH: decides every token by the arrival table and claims, in one transaction.
   * Results are in the order of `tokens`. Fence: the arrival table (`job/arrival.ts`).
   */
  claim(tokens: readonly ClaimToken[], terms: ClaimTerms): Promise<ClaimResult[]>

  /**
   * The HTTP client of a FETCH was gone before its answer, or its worker hands the job back:
   * `active → available`, attempt − 1.
   * A row whose holder is not the gateway gets a new outbox nonce: its token is gone, or a native
   * worker's, who was not asked. So does one whose token would not count for this attempt again.
   * Fence: `active`, this attempt and generation, and `workerId` where given.
   */
  release(id: string, fence: ReleaseFence): Promise<JobRow | 'stale'>

  /**
   * ACK: `active → completed`. Fence: `active`, `attempt` where given, and `workerId` where it is given
   * and the claim recorded an owner.
   */
  complete(id: string, fence: SettleFence, change: Completion): Promise<JobRow | 'stale'>

  /**
   * FAIL and the end of a lease: `active →` what `change` says. The error record of the attempt is
   * part of it. Fence: `active`, generation and attempt, and `workerId` and `overdueAt` where given.
   */
  fail(id: string, fence: FailFence, change: FailureChange): Promise<JobRow | 'stale'>

  /**
   * BEAT: each lease ends at `now` + `leaseMs`, or + its own length when that is null.
   * Fence: `active`; owned by `workerId` where the claim recorded an owner; `attempt` where given.
   * Returns the rows that were extended, in the order of `ids`, without those that were not.
   */
  extend(ids: readonly string[], beat: Beat): Promise<ExtendedLease[]>

  /** Active rows whose lease or (holder not native) execution timeout is over; a page, oldest first. */
  overdue(now: number, limit: number, which?: 'all' | 'not native'): JobRow[]

  /**
   * How many active rows each worker has, by worker id; those without one are not among them. Of
   * more than `limit` active rows, those whose leases end first count.
   */
  activeByWorker(limit: number): ReadonlyMap<string, number>

  /**
   * The delivery behind a lease is (about to be) acknowledged early: holder := `ledger`.
   * Fence: `active`, holder `gateway`. Returns how many rows changed.
   */
  handOver(leases: readonly LeaseFence[]): Promise<number>

  /**
   * `handOver` taken back: the delivery was gone before it could be acknowledged, and RabbitMQ has the
   * token. Fence: `active`, holder `ledger`; a job that has ended since has a token out after all.
   * Returns how many rows changed.
   */
  handBack(leases: readonly LeaseFence[]): Promise<number>

  /**
   * Time in which nobody could renew does not count: every lease ends at `now` + its own length
   * at the earliest. Returns how many were extended.
   */
  extendLeases(now: number): Promise<number>

  /**
   * For a start. `now` begins at the wall clock, which may have been set back since the rows were
   * written; their times would then lie far ahead. Afterwards no retry waits longer than its own
   * delay from `now` on, and no lease lasts longer than its own length, or the one that its last
   * heartbeat has named; the traffic of times to come is forgotten, and the period of a unique job that was
   * created then begins at `now`. Returns how many rows changed.
   */
  boundWaits(now: number): Promise<number>
}

export interface LeaseFence {
  id: string
  generation: number
  attempt: number
}

export interface SettleFence {
  attempt?: number
  workerId?: string
}

export interface AttemptFence extends Omit<LeaseFence, 'id'> {
  workerId?: string
}

export interface ReleaseFence extends AttemptFence {
  /** Of the token that goes back to its queue; null: there is none. */
  tokenAttempt: number | null
}

export interface FailFence extends AttemptFence {
  /** The lease, or the execution time, must be over at this instant: nobody has extended it since. */
  overdueAt?: number
}

export interface ClaimToken extends ArrivingToken {
  id: string
  /** True when exactly this delivery is held for a lease. */
  isHeldDelivery: boolean
  /** `x-ojs-error-code` and `-message`, where the token carries them. Called only where that may matter. */
  reportedError?(): ReportedError | null
  /** Called when the id is unknown. Throws `OjsError` when the body is not an OJS job. */
  adopt(): NewJob
}

export interface ClaimTerms {
  now: number
  /** Wall time, for `expires_at`. */
  wall: number
  workerId: string | null
  /** Explicit in FETCH; beats the job's own. Milliseconds. */
  leaseMs: number | null
  /** When neither FETCH nor the job names one. */
  defaultLeaseMs: number
}

export type ClaimResult =
  /** `promoted`: it was due and claimed before anybody had made it available. */
  | { verdict: 'claimed'; job: JobRow; promoted?: true }
  /** `expire` and `exhaust` are committed as `discarded`; for `exhaust` the DLX copy is owed. */
  | { verdict: 'expired' | 'exhausted'; job: JobRow }
  | { verdict: 'drop' | 'keep' | 'hand-over' | 'dead-letter' | 'rearmed'; job: JobRow }
  | { verdict: 'hold'; job: JobRow; until: number | null }
  /** Cancelled before the ledger knew it (`cancelAny`): to be dropped. */
  | { verdict: 'tombstoned' }
  | { verdict: 'malformed'; error: Error }

export interface Completion {
  now: number
  /** JSON text, or null when the handler returned nothing. */
  result: string | null
}

/** The error record of an attempt, made by `job/failure.ts`: JSON texts. */
export interface FailureRecord {
  now: number
  error: string | null
  errors: string | null
  /** Its failure was counted before, when its lease had run out. */
  isCounted?: boolean
}

/** What FAIL or the end of a lease makes of the attempt. */
export type FailureChange = FailureRecord &
  (
    | {
        to: 'retryable'
        dueAt: number
        delayMs: number
        /** The token goes to this rung (a fresh outbox nonce); null: the ledger holds the job. */
        rungMs: number | null
        /** With `rungMs` null: the old token is (about to be) settled, so none is out. */
        isTokenBack: boolean
      }
    /**
     * The lease ran out: the next token is owed (a fresh outbox nonce). Not where the holder is native
     * as this is written: its delivery comes back by itself, and `holder` stays.
     */
    | { to: 'available' }
    | {
        to: 'discarded'
        isDeadLetter: boolean
        /**
         * Who makes the copy in the DLX queue: `nack` of the delivery that is held, or `publish`
         * (a fresh outbox nonce; the relay sees to it). Where the holder is the ledger as this is
         * written, there is nothing to nack, and it is published in any case.
         */
        copy: 'nack' | 'publish'
      }
  )

export interface Beat {
  now: number
  workerId: string
  leaseMs: number | null
  attempt?: number
}

export interface ExtendedLease extends LeaseFence {
  queue: string
  type: string
  holder: Holder | null
  startedAt: number
  leaseExpiresAt: number
}
