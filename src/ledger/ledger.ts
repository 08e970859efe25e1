import type { ArrivingToken, ReportedError } from '../job/arrival.ts'
import type { Holder, JobRow, JobState, NewJob, OwedMessage } from '../job/job.ts'
import type { CronLedger } from './cron.ts'
import type { EnqueueTerms, Inserted, InsertedAll } from './enqueued.ts'
import type { IdempotencyMemory } from './idempotency.ts'
import type { NativeLedger } from './native.ts'
import type { QueuePauses, QueueTraffic } from './queues.ts'
import type { SchemaLedger } from './schemas.ts'
import type { WorkflowLedger } from './workflows.ts'

/**
 * The ledger's contract (architecture §7). Every write is fenced: it names the state (and attempt,
 * generation, worker) that it expects, and "zero rows changed" is an outcome, not an error.
 *
 * Writes of one event-loop turn share one transaction and one sync (group commit). A write's
 * promise settles when the commit is on disk, never before. When the commit fails, every write of
 * the group rejects with `OjsError('backend_error')`, status 503, and nothing of the group is stored.
 * When the sync fails they reject likewise, what is stored is only known after a restart, and until
 * then every write is refused.
 *
 * Reads are synchronous and see committed rows only; those of the last group a moment before its
 * writers hear of it.
 */
export interface Ledger extends NativeLedger {
  /** The recurring jobs. */
  readonly cron: CronLedger
  readonly schemas: SchemaLedger
  readonly pauses: QueuePauses
  readonly traffic: QueueTraffic
  readonly workflows: WorkflowLedger
  readonly idempotency: IdempotencyMemory

  /**
   * PUSH: stores the job in the state that `job.start` names, attempt 0; an `available` one with a
   * fresh outbox nonce, the others without a token (`tokenOut` false). What its `unique` policy
   * wants is part of the same transaction, and so is the key of the request.
   * Fence: no row with this id, or a `withdrawn` one (then generation + 1); no job in the way of its
   * policy; the key of the request not remembered.
   */
  insert(job: NewJob, now: number, terms?: EnqueueTerms): Promise<Inserted>

  /**
   * PUSH batch: all of them in one transaction, in order, each as `insert` does it and after those
   * before it; or none, when one is refused: `index` is that job's place.
   */
  insertAll(jobs: readonly NewJob[], now: number, terms?: EnqueueTerms): Promise<InsertedAll>

  /**
   * The broker has confirmed the token that was published for `outbox`. Lazy: rides on the next
   * group commit (a few milliseconds at most) and nobody waits for it.
   * Fence: the row still carries this nonce.
   */
  confirmed(id: string, outbox: number): void

  /**
   * PUSH was refused after its insert: the row becomes invisible (`withdrawn`).
   * `key`: of the request, to be forgotten with it.
   * Fence: `available`, attempt 0, same nonce. False: somebody has the job already.
   */
  withdraw(id: string, outbox: number, key?: string): Promise<boolean>

  /**
   * The same for a batch that was refused, in one transaction. Returns the ids that could not be
   * withdrawn, because somebody has started them.
   * Fence: this generation, attempt 0, `available`, `scheduled` or `pending`; not the nonce, which
   * a confirm may have cleared already.
   */
  withdrawAll(rows: readonly WithdrawFence[], key?: string): Promise<string[]>

  /**
   * ACTIVATE: `pending → available` with a fresh outbox nonce, or `→ scheduled` when `dueAt` is
   * still ahead of `wall`. Sets `activatedAt`, and `enqueuedAt` when it becomes available.
   * Fence: `pending`.
   */
  activate(id: string, now: number, wall: number): Promise<JobRow | 'stale'>

  /**
   * Due `retryable` (by `now`) and `scheduled` (by `wall`) rows → `available`, oldest due first,
   * at most `limit`: `enqueuedAt` = now, `dueAt` cleared. A row whose token waits in a rung keeps
   * no outbox; any other gets a fresh nonce (one that owed a token to a rung keeps the debt, now
   * to the queue itself).
   */
  promote(now: number, wall: number, limit: number): Promise<JobRow[]>

  /** `scheduled` rows due by `until` (wall) owe a token to the plugin's exchange. Returns how many. */
  sendAhead(until: number, limit: number): Promise<number>

  /** The earliest `dueAt` of `retryable` and of `scheduled` rows; by index. Null: none. */
  nextDue(): { retryable: number | null; scheduled: number | null }

  /**
   * FETCH: decides every token by the arrival table and claims, in one transaction.
   * Results are in the order of `tokens`. Fence: the arrival table (`job/arrival.ts`).
   */
  claim(tokens: readonly ClaimToken[], terms: ClaimTerms): Promise<ClaimResult[]>

  /**
   * The HTTP client of a FETCH was gone before its answer, or its worker hands the job back:
   * `active → available`, attempt − 1.
   * A row whose holder is `ledger` has no token any more and gets a new outbox nonce.
   * Fence: `active`, this attempt and generation, and `workerId` where given.
   */
  release(id: string, fence: FailFence): Promise<JobRow | 'stale'>

  /** ACK: `active → completed`. Fence: `active`, and `attempt` and `workerId` where given. */
  complete(id: string, fence: SettleFence, change: Completion): Promise<JobRow | 'stale'>

  /**
   * FAIL and the end of a lease: `active →` what `change` says. The error record of the attempt is
   * part of it. Fence: `active`, generation and attempt, and `workerId` where given.
   */
  fail(id: string, fence: FailFence, change: Failure): Promise<JobRow | 'stale'>

  /**
   * BEAT: each lease ends at `now` + `leaseMs`, or + its own length when that is null.
   * Fence: `active`; owned by `workerId` where the claim recorded an owner; `attempt` where given.
   * Returns the rows that were extended, in the order of `ids`, without those that were not.
   */
  extend(ids: readonly string[], beat: Beat): Promise<ExtendedLease[]>

  /** Active rows whose lease or (holder not native) execution timeout has passed; oldest first. */
  overdue(now: number, limit: number, which?: 'all' | 'not native'): JobRow[]

  /**
   * `expires_at` has passed: `available`, `scheduled`, `pending` and `retryable` rows → `discarded`
   * (`deadLetterCopied`; listed as a dead letter only where the job's own policy wants it), at most
   * `limit`.
   */
  expire(terms: ExpireTerms): Promise<JobRow[]>

  /** Dead letters, newest first; by index. `total` is kept, not counted. */
  deadLetters(query: DeadLetterQuery): { jobs: JobRow[]; total: number }

  /**
   * Dead letter retry: `discarded → available`, attempt 0, generation + 1, a fresh outbox nonce,
   * `error` cleared, `errors` kept. Its copy in the DLX queue becomes stale.
   * Fence: a listed dead letter of this generation; no job in the way of its `unique` policy.
   */
  revive(id: string, generation: number, now: number): Promise<Revived>

  /**
   * Dead letter delete: the row becomes `withdrawn` and loses its content, so that tokens of it
   * are dropped for another week. Its copy becomes stale. Fence: a listed dead letter.
   */
  deleteDeadLetter(id: string, now: number): Promise<boolean>

  /**
   * Retention: deletes ended rows whose token has come back and whose time is over, at most
   * `limit`. A discarded row whose DLX copy was made becomes `withdrawn` first, so that the sweep
   * knows what to do with the copy. Returns how many rows it changed.
   */
  prune(cutoffs: PruneCutoffs, now: number, limit: number): Promise<number>

  /**
   * Queues whose DLX queue holds copies that nobody needs any more, each with the mark of its newest
   * one. From memory; stays as it was read.
   */
  staleCopies(): ReadonlyMap<string, number>

  /**
   * A sweep has taken out every such copy up to `mark`, which was read before it began. Fence: no
   * copy has become stale since; else the queue is still stale, and the next sweep sees to it.
   */
  swept(queue: string, mark: number): Promise<void>

  /** Rungs that were declared in this or earlier runs. From memory. */
  rungs(): readonly Rung[]

  /** Remembers a rung before its first token goes there; no effect when it is known. */
  recordRung(rung: Rung): Promise<void>

  /**
   * The rung is gone from the broker with every token in it: a fresh outbox nonce for each
   * `retryable` or `available` row whose token went there, and `rungMs` cleared, so that the ledger
   * holds them until they are due. Returns how many. Pages like `rearm`.
   */
  rearmRung(rung: Rung): Promise<number>

  /**
   * CANCEL: any non-terminal state → `cancelled`; a broadcast is owed (`outbox`) where a token may
   * be out or the job runs. Fence: not terminal.
   */
  cancel(id: string, now: number): Promise<Cancelled | 'stale'>

  /**
   * The delivery behind a lease is (about to be) acknowledged early: holder := `ledger`.
   * Fence: `active`, holder `gateway`. Returns how many rows changed. No list: all of them.
   */
  handOver(leases?: readonly LeaseFence[]): Promise<number>

  /**
   * The queue is gone from the broker with every token in it: a new outbox nonce for each
   * `available` row of the queue whose holder is not native, in order of arrival. Returns how
   * many. A long queue takes several commits; when one fails, the call rejects and may be repeated.
   * `retryable` rows lose their `rungMs` (their token may have come out of its rung just before):
   * the ledger holds them. Rows that are over stop waiting for a token that was in the queue (`tokenOut`).
   */
  rearm(queue: string): Promise<number>

  /**
   * A token of a terminal row has come back and was settled, or never reached a queue (a withdrawn
   * row whose publish was nacked or returned): the row may be pruned. Lazy.
   */
  tokenReturned(id: string, generation: number): void

  /** The copy of a discarded job in the DLX queue has been made (lazy). */
  deadLetterCopied(id: string, generation: number): void

  /**
   * Time in which nobody could renew does not count: every lease ends at `now` + its own length
   * at the earliest. Returns how many were extended.
   */
  extendLeases(now: number): Promise<number>

  /**
   * Rows that owe a message, oldest nonce first, after this one; not those whose confirm waits for
   * its commit. Empty: no more. By index. `available`: a token for the queue. `retryable`: one for its
   * rung. `discarded`: a copy for the dead letter exchange. `cancelled`: a broadcast to its workers.
   */
  outboxPage(after: number, limit: number): OwedMessage[]

  /** How many rows owe a token, counted up to `atMost`. By index. */
  owedTokens(atMost: number): number

  /** By primary key. `withdrawn` rows are returned too; operations hide them. */
  find(id: string): JobRow | null

  /** Kept, not counted: O(1) at any number of rows. */
  counts(queue: string): StateCounts

  /** Of `available` those that no native worker has (architecture §2, "visibility expired"). Kept. */
  claimable(queue: string): number

  /** Every queue that was ever recorded, oldest first. From memory. */
  queues(): readonly QueueRecord[]

  /** From memory. */
  hasQueue(name: string): boolean

  /** Remembers the queue; no effect when it is known. */
  recordQueue(name: string, now: number): Promise<void>

  /** Kept: dead letters of one queue, or of all. */
  deadLetterCount(queue?: string): number

  /** Null while writes succeed; else why the last group failed. */
  fault(): string | null

  /** Commits what is waiting and closes. Idempotent. */
  close(): Promise<void>
}

export type Revived =
  | JobRow
  | 'stale'
  | { outcome: 'conflict'; existing: JobRow; uniqueKey: string }

export interface WithdrawFence {
  id: string
  generation: number
}

export interface FailFence extends Omit<LeaseFence, 'id'> {
  workerId?: string
}

/** The error record of an attempt, made by `job/failure.ts`: JSON texts. */
export interface FailureRecord {
  now: number
  error: string | null
  errors: string | null
}

export type Failure = FailureRecord &
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
     * The lease ran out. `token`: publish the next one (a fresh outbox nonce). Not for a native
     * holder: its delivery comes back by itself, and `holder` stays.
     */
    | { to: 'available'; token: boolean }
    | {
        to: 'discarded'
        isDeadLetter: boolean
        /**
         * Who makes the copy in the DLX queue: `nack` of the delivery that is held, or `publish`
         * where there is none (a fresh outbox nonce; the relay sees to it).
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

export interface ExpireTerms {
  now: number
  wall: number
  limit: number
}

export interface DeadLetterQuery {
  queue: string | null
  limit: number
  offset: number
}

/** Rows that ended before these instants (clock time) may go. */
export interface PruneCutoffs {
  completed: number
  cancelled: number
  /** Plain discards. */
  discarded: number
  /** PUSHes that were refused, and dead letters that were deleted or pruned. */
  withdrawn: number
  deadLetters: number
}

export interface Rung {
  queue: string
  delayMs: number
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

export interface Completion {
  now: number
  /** JSON text, or null when the handler returned nothing. */
  result: string | null
}

export interface Cancelled {
  job: JobRow
  previousState: JobState
}

export interface ClaimToken extends ArrivingToken {
  id: string
  /** True when exactly this delivery is held for a lease. */
  isHeldDelivery: boolean
  /** `x-ojs-error-code` and `-message`, where the token carries them. */
  reportedError?: ReportedError | null
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
  | { verdict: 'claimed'; job: JobRow; adopted: boolean; promoted?: true }
  /** `expire` and `exhaust` are committed as `discarded`; for `exhaust` the DLX copy is owed. */
  | { verdict: 'expired' | 'exhausted'; job: JobRow }
  | { verdict: 'drop' | 'keep' | 'hand-over' | 'dead-letter' | 'rearmed'; job: JobRow }
  | { verdict: 'hold'; job: JobRow; until: number | null }
  /** Cancelled before the ledger knew it (`tombstone`): to be dropped. */
  | { verdict: 'tombstoned' }
  | { verdict: 'malformed'; error: Error }

export type StateCounts = Readonly<Record<JobState, number>>

export interface QueueRecord {
  name: string
  createdAt: number
}
