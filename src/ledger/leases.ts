/** The part of the ledger's contract that gives jobs to workers and takes them back. */
import type { ArrivingMessage } from '../job/arrival.ts'
import type { Cause } from '../job/history/changes.ts'
import type { Holder, JobRow, NewJob } from '../job/job.ts'
import type { LeaseTold } from '../job/lease-fence.ts'
import type { ReportedError } from '../job/retry/failure.ts'
import type { Stale } from '../job/stale.ts'
import type { FailureFate } from '../job/transitions/lease.ts'
import type { CompletedJob, WithNews } from './ended.ts'

export interface LeaseLedger {
  /**
   * FETCH: decides what each job message may do by the arrival table (`job/arrival.ts`, which is the fence),
   * and claims the jobs, in one transaction. Results are in the order of `jobMessages`. Nothing of a queue is
   * claimed after its pause in the order of the writes. A claimed job comes with its checkpoint, if it has one.
   */
  claim(jobMessages: readonly ClaimedMessage[], terms: ClaimTerms): Promise<ClaimResult[]>

  /**
   * Takes a job back: `active → available`, attempt − 1. For when the HTTP client of a FETCH has gone before
   * the answer was written, or when a worker gives its job back. The row gets a new outbox nonce unless the
   * gateway holds a delivery that can go back to its queue. With another holder the job message is gone, or
   * with a native worker; and a message with the number of another attempt would not count for this attempt
   * again. Fence: that of `complete`.
   */
  release(id: string, fence: ReleaseFence): Promise<EndedLease | Stale>

  /**
   * ACK: `active → completed`. Fence: `active`; `attempt` and `generation` if given; `workerId` if it is given
   * and the claim recorded an owner.
   */
  complete(id: string, fence: SettleFence, change: Completion): Promise<CompletedJob | Stale>

  /**
   * FAIL: `active →` the state that `decide` names, and stores the error record of the attempt. Fence: that of
   * `complete`. `decide` is given the row as the fence saw it, and runs inside the write: it is pure.
   */
  fail(
    id: string,
    fence: SettleFence,
    decide: DecideFailure,
  ): Promise<FailedLease | Stale | Undecided>

  /**
   * Ends attempts whose lease or execution timeout is over, the first to end first, as `fail` does: `decide` is asked
   * about each row inside the write. The execution timeout does not count for rows with a native holder. Resolves
   * with one page of outcomes; none: nothing is over. Rows that `decide` leaves are in it too, as `undecided`.
   */
  endOverdue(terms: OverdueTerms, decide: DecideFailure): Promise<(FailedLease | Undecided)[]>

  /**
   * BEAT: extends each lease to `now` + `leaseMs`, its length from now on; null: to `now` + the length that it has.
   * Fence: `active`; owned by `workerId` if the claim recorded an owner; `attempt` and `generation` if given.
   * Returns what became of each, in the order of `ids`.
   */
  extend(ids: readonly string[], beat: Beat): Promise<BeatFate[]>

  /**
   * Sets the holder to `ledger`, because the delivery behind the lease is about to be acknowledged early.
   * Fence: `active`, holder `gateway`. Returns how many rows changed.
   */
  handOver(leases: readonly LeaseFence[]): Promise<number>

  /**
   * Undoes `handOver` for deliveries that could not be acknowledged because their channel was gone:
   * RabbitMQ still has the job message. Fence: `active`, holder `ledger`; or ended since, and then only
   * `messageOut` is set again. Returns how many rows changed.
   */
  handBack(leases: readonly LeaseFence[]): Promise<number>

  /**
   * Extends every lease to at least `now` + its own length, after a time in which no worker could renew its
   * lease. Returns how many were extended.
   */
  extendLeases(now: number): Promise<number>

  /**
   * Shortens waits at a start of the process, after the wall clock was set back: `now` starts from the wall
   * clock, so the times in the rows may lie far ahead of it. Afterwards no retry waits longer than its own
   * delay from `now` on, and no lease lasts longer than its own length or the length that its last heartbeat
   * named. Traffic of minutes after `now` is forgotten, and a unique job or an idempotency key that was
   * created after `now` counts as created at `now`. Returns how many retries and leases changed.
   */
  boundWaits(now: number): Promise<number>
}

export interface LeaseFence {
  id: string
  generation: number
  attempt: number
}

export type SettleFence = LeaseTold

export interface ReleaseFence extends SettleFence {
  /** `x-ojs-attempt` of the job message that goes back to its queue; null: no message goes back. */
  messageAttempt: number | null
  now: number
  cause?: Cause | undefined
}

/** A job message whose job the ledger may have to adopt, because it does not know the id. */
export interface AdoptableMessage extends ArrivingMessage {
  id: string
  /** Called if the id is unknown: makes the job of the body. Pure. Throws `OjsError` if that is not an OJS job. */
  adopt(): NewJob
  /**
   * Reads `x-ojs-error-code` and `-message`, if the job message carries them. Pure. Called only when they may
   * matter.
   */
  reportedError?(): ReportedError | null
}

export interface ClaimedMessage extends AdoptableMessage {
  /** True if this very delivery is the one that is held for the job's lease. */
  isHeldDelivery: boolean
}

export interface ClaimTerms {
  now: number
  /** Wall time, for `expires_at`. */
  wall: number
  workerId: string | null
  /** The length that FETCH asks for; overrides the job's own. Milliseconds. */
  leaseMs: number | null
  /** The length if neither FETCH nor the job names one. Milliseconds. */
  defaultLeaseMs: number
  cause?: Cause | undefined
}

export type ClaimResult =
  /** `promoted`: the job was due, and claimed before the promoter had made it available. */
  | { verdict: 'claimed'; job: JobRow; promoted?: true }
  /** Both are committed as `discarded`; for `exhausted` the copy in the DLX queue is owed. */
  | ({ verdict: 'expired' | 'exhausted'; job: JobRow } & WithNews)
  | { verdict: 'drop' | 'keep' | 'hand-over' | 'dead-letter' | 'rearmed'; job: JobRow }
  | { verdict: 'hold'; job: JobRow; until: number | null }
  /** As many jobs of its concurrency key are active as it allows: the ledger holds it, without the message. */
  | { verdict: 'held'; job: JobRow }
  /** It was published before its time: the ledger holds it until then, without the message. */
  | { verdict: 'scheduled'; job: JobRow }
  /** The queue is paused; the row was not looked at. */
  | { verdict: 'paused' }
  /** The id was cancelled before the ledger knew it (`cancelAny`): drop the job message. */
  | { verdict: 'tombstoned' }
  | { verdict: 'malformed'; error: Error }

export interface Completion {
  now: number
  /** JSON text, or null when the handler returned nothing. */
  result: string | null
  cause?: Cause | undefined
}

/** The error record of an attempt, made by `job/retry/failure.ts`: JSON texts. */
export interface FailureRecord {
  now: number
  error: string | null
  errors: string | null
  /** This failure was counted already, when the lease ran out. */
  isCounted?: boolean
  cause?: Cause | undefined
}

/** What becomes of a job whose attempt failed, by FAIL or because its lease ran out. */
export type FailureChange = FailureRecord & FailureFate

/**
 * Says what becomes of a job whose attempt has failed, by its row as it is. Null: nothing (yet). Pure: reads what
 * it knows and changes nothing, because a write may run more than once.
 */
export type DecideFailure = (row: JobRow) => FailureChange | null

/** A lease was ended. `before`: the row as it was during the lease. */
export interface EndedLease {
  outcome: 'ended'
  job: JobRow
  before: JobRow
}

export interface FailedLease extends EndedLease, WithNews {
  change: FailureChange
}

export interface OverdueTerms {
  now: number
  limit: number
  which: 'all' | 'not native'
}

/** `decide` said null, and nothing has changed. */
export interface Undecided {
  outcome: 'undecided'
  row: JobRow
}

export interface Beat {
  now: number
  workerId: string
  leaseMs: number | null
  attempt?: number | null | undefined
  generation?: number | null | undefined
}

export interface ExtendedLease extends LeaseFence {
  queue: string
  type: string
  holder: Holder | null
  startedAt: number
  leaseExpiresAt: number
}

/** What a BEAT found of one id. */
export type BeatFate =
  | { outcome: 'extended'; id: string; lease: ExtendedLease }
  /** Cancelled while the worker had it, or while nobody had it. */
  | { outcome: 'cancelled'; id: string }
  | (Stale & { id: string })

/** What a worker has in the ledger. Instants are clock time, ms. */
export interface WorkerLeases {
  jobs: number
  queues: readonly string[]
  /** When its first and its last attempt began that are still under way. */
  since: number
  until: number
}
