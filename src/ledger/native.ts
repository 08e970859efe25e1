/** The part of the ledger's contract for native workers (docs/architecture.md §5). */
import type { DyingMessage } from '../job/dead-letter.ts'
import type { Cause } from '../job/history/changes.ts'
import type { Checkpoint, JobRow, NewJob } from '../job/job.ts'
import type { Refusal, ReportedEvent } from '../job/native/report.ts'
import type { WithNews } from './ended.ts'
import type { Enqueued } from './enqueued.ts'
import type { AdoptableMessage, ClaimTerms, ExtendedLease } from './leases.ts'

export interface NativeLedger {
  /**
   * Stores a scheduled job that was published natively, as `insert` does; `tombstoned`, and nothing is
   * stored, when its id was cancelled before the message came (`cancelAny`).
   */
  adoptSchedule(job: NewJob, now: number): Promise<Enqueued | { outcome: 'tombstoned' }>

  /**
   * Applies the events that native workers report, in order and in one transaction; results in the order of
   * `events`. Fence: the report table (`job/native/report.ts`). A job that starts is leased to the worker,
   * holder native. When a job ends, its job message counts as settled: the worker acknowledges or nacks its
   * delivery as soon as the report is confirmed. Only a retry's message that the worker has put in a retry
   * queue is still out. A dead letter whose message the worker acknowledges (instead of a nack, which would
   * make the copy) owes its copy in the DLX queue: a fresh outbox nonce.
   */
  applyReports(events: readonly ReportedEvent[], terms: ReportTerms): Promise<ReportResult[]>

  /**
   * Applies the heartbeat of a native worker to the jobs that it names; results in the order of `ids`.
   * Fence: `job/native/heartbeat.ts`.
   */
  beatNative(ids: readonly string[], beat: NativeBeat): Promise<BeatResult[]>

  /**
   * A native worker asks whether it may run a job message that was delivered again. Decides by
   * `job/native/claim.ts`, as a row is after the writes before. Counts no attempt: the worker's `started` event
   * does; but where the job has a concurrency key and the worker knows such (`isKeyed`), its attempt begins in
   * this write, or the job is held back and the message dropped. A message that the worker shall drop counts as
   * settled: as back if its job has ended, and for the lease of another worker, the holder becomes `ledger`.
   */
  claimNative(question: NativeQuestion, terms: Omit<ClaimTerms, 'leaseMs'>): Promise<NativeAnswer>

  /**
   * Discards a job whose job message RabbitMQ dead-lettered without the gateway: nacked by a native worker,
   * expired in its queue, pushed out of it, or over the delivery limit. Attempt := the message's; the copy in
   * the DLX queue exists already. An unknown id is adopted (`adopt`) and discarded at once. Fence: `mayDie`
   * of `job/dead-letter.ts`. Where that says no: for a job that had ended before, the message counts as back,
   * and the copy is recorded as made if one was owed, else as stale unless the job is listed as a dead
   * letter; for a job that goes on without this message, the copy counts as stale, and if the message was
   * that of its lease, the holder becomes `ledger`.
   */
  discardDead(jobMessage: DeadMessage, terms: { now: number; wall: number }): Promise<DeadOutcome>
}

/** The callbacks run inside the write: they are pure. */
export interface NativeQuestion extends Omit<AdoptableMessage, 'adopt'> {
  workerId: string
  /** The worker has asked about this very delivery before, and got no answer. */
  isAgain: boolean
  /** RabbitMQ has delivered the question before: it may have been answered, and the worker may have gone on since. */
  isRepeated: boolean
  isKeyed: boolean
  /** Reports about the job, which may have run, may be with a gateway that stands still. */
  areReportsOut: boolean
  /** Only a job of this queue is meant; null: of any. */
  ofQueue: string | null
  /** The queue of a job that is unknown, as far as the caller knows. */
  heardOn: string
  /** Makes the job, if the worker has sent it along. Throws `OjsError`. */
  adopt?: (() => NewJob) | undefined
  /** Does the gateway hold the delivery behind the job's lease? */
  isHeldHere(): boolean
}

export type NativeAnswer =
  /** `isBegun`: the ledger has begun the attempt; by this write if there is a `start`. */
  | {
      decision: 'run'
      attempt: number
      isBegun: boolean
      start: { job: JobRow; promoted: boolean } | null
      checkpoint: Checkpoint | null
    }
  /** `requeue`: the queue is paused, or the question may come too late to begin anything: the next delivery is asked about. */
  | { decision: 'drop' | 'discard' | 'requeue'; attempt: number }

/** A cancelled job: its job messages up to and including this generation must not run. */
export interface CancelledMessage {
  id: string
  generation: number
}

export interface ReportTerms {
  now: number
  /** Lease length for a job that names none. Milliseconds. */
  defaultLeaseMs: number
  /** Uniform in [0, 1), for the jitter of a retry that the worker leaves to the gateway. Drawn again if the write is. */
  random(): number
  cause?: Cause | undefined
}

/**
 * What an event did to its row. `begun`: the row as the attempt ran, if its start was not reported before
 * its end; else null. `promoted`: the job was due and ran before the promoter had made it available.
 * `isCounted`: this failure was counted already, when the lease ran out.
 */
export type ReportResult =
  | { outcome: 'ignored' }
  /** Ignored, because its sender may not say this about the job. */
  | { outcome: 'refused'; reason: Refusal }
  /** No event to emit: only the record of an earlier attempt, or of the job message, was completed. */
  | { outcome: 'amended' }
  /** A start whose attempt ends in the same report: the result of the end includes it (`begun`). */
  | { outcome: 'merged' }
  | { outcome: 'started'; job: JobRow; promoted: boolean }
  /** Discarded without an attempt, because `expires_at` had passed. */
  | ({ outcome: 'expired'; job: JobRow } & WithNews)
  /** `available` again, and the attempt does not count; a fresh outbox nonce if no job message is out. */
  | { outcome: 'released'; job: JobRow }
  | ({ outcome: 'completed' } & Ended)
  | ({ outcome: 'failed'; isCounted: boolean } & Ended)

interface Ended extends WithNews {
  job: JobRow
  begun: JobRow | null
  promoted: boolean
}

export interface NativeBeat {
  now: number
  wall: number
  workerId: string
  /** Of the runs that are named, where it is not 0. */
  generations?: ReadonlyMap<string, number> | undefined
  /** The length of each lease from now on; null: as it was. */
  leaseMs: number | null
  /** Lease length for a job that this heartbeat starts and that names none. Milliseconds. */
  defaultLeaseMs: number
  /** Only jobs of this queue are meant; absent: of any. */
  ofQueue?: string | null
  cause?: Cause | undefined
}

export type BeatResult =
  | { outcome: 'ignored' }
  /** The job is not of the heartbeat's queue. */
  | { outcome: 'refused' }
  | { outcome: 'extended'; lease: ExtendedLease }
  | { outcome: 'started'; job: JobRow; promoted: boolean }
  /** The lease had run out; the same attempt goes on under a new one. */
  | { outcome: 'resumed'; job: JobRow }
  /** The job is cancelled, and the worker still runs it: it has not heard of that. */
  | { outcome: 'cancelled'; job: Pick<JobRow, 'id' | 'queue' | 'generation'> }

export interface DeadMessage extends DyingMessage, AdoptableMessage {
  /** Makes the error record, given what the row knows already. Pure. */
  describe(row: JobRow): DeathRecord
  /** The job message expired in its queue, so no attempt was made. */
  isExpired: boolean
}

/** `isCounted`: this failure was recorded already, when the lease ran out. */
type DeathRecord = Pick<JobRow, 'error' | 'errors' | 'isDeadLetter'> & {
  isCounted?: boolean
}

export type DeadOutcome =
  | ({ outcome: 'discarded'; job: JobRow } & WithNews)
  /** The job is not discarded: it has ended, or the job message is of another generation or attempt. */
  | { outcome: 'ignored' }
  | { outcome: 'malformed'; error: Error }
