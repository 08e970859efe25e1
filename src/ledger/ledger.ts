import type { JobRow, JobStanding, JobState, NewJob, OwedMessage } from '../job/job.ts'
import type { CronLedger } from './cron.ts'
import type { DeadLetterLedger } from './dead-letters.ts'
import type { EnqueueTerms, Inserted, InsertedAll } from './enqueued.ts'
import type { IdempotencyMemory } from './idempotency.ts'
import type { LeaseLedger } from './leases.ts'
import type { NativeLedger } from './native.ts'
import type { LostQueues, QueuePauses, QueueTraffic, UnwrittenQueues } from './queues.ts'
import type { SchemaLedger } from './schemas.ts'
import type { WorkflowLedger } from './workflows.ts'

/**
 * The ledger's contract (architecture §7). Every write is fenced: it names the state (and attempt,
 * generation, worker) that it expects, and "zero rows changed" is an outcome, not an error.
 *
 * Writes of the same moment share one transaction and one sync (group commit). A write's
 * promise settles after that commit, never before. When the commit fails, every write of the group
 * rejects with `OjsError('backend_error')`, status 503, and nothing of the group is stored.
 *
 * Reads are synchronous and see committed rows only: `written` is for who must see what waits.
 */
export interface Ledger extends LeaseLedger, DeadLetterLedger, NativeLedger {
  /** The recurring jobs. */
  readonly cron: CronLedger
  readonly schemas: SchemaLedger
  readonly pauses: QueuePauses
  readonly lost: LostQueues
  readonly unwritten: UnwrittenQueues
  readonly traffic: QueueTraffic
  readonly workflows: WorkflowLedger
  readonly idempotency: IdempotencyMemory

  /**
   * PUSH: stores the job in the state that `job.start` names, attempt 0; an `available` one with a
   * fresh outbox nonce, the others without a token (`tokenOut` false). What its `unique` policy
   * wants is part of the same transaction, and so is the key of the request.
   * Fence: no row with this id, or one that is erased (then generation + 1); no job in the way of its
   * policy; the key of the request not remembered.
   */
  insert(job: NewJob, now: number, terms?: EnqueueTerms): Promise<Inserted>

  /**
   * PUSH batch: all of them in one transaction, in order, each as `insert` does it and after those
   * before it; or none, when one is refused: `index` is that job's place.
   */
  insertAll(jobs: readonly NewJob[], now: number, terms?: EnqueueTerms): Promise<InsertedAll>

  /**
   * The broker has confirmed the token, or the broadcast, that was published for `outbox`; of a
   * discarded job that is its copy, and `copyConfirmed` takes note. Lazy: rides on the next
   * group commit (a few milliseconds at most) and nobody waits for it.
   * Fence: the row still carries this nonce, or the one that `promote` gave it in its place: then its
   * token is in the rung, as of one that had been confirmed before. No nonce is given out twice.
   */
  confirmed(outbox: number): void

  /**
   * PUSH was refused after its insert: the row is erased (`isErased`).
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
   * a page of at most `limit`: `enqueuedAt` = now, `dueAt` cleared. A row whose token waits in a rung keeps
   * no outbox; any other gets a fresh nonce (one that owed a token to a rung keeps the debt, now
   * to the queue itself, until that rung confirms it after all: `confirmed`).
   */
  promote(now: number, wall: number, limit: number): Promise<JobRow[]>

  /** `scheduled` rows due by `until` (wall) owe a token to the plugin's exchange. Returns how many. */
  sendAhead(until: number, limit: number): Promise<number>

  /** The earliest `dueAt` of `retryable` and of `scheduled` rows; by index. Null: none. */
  nextDue(): { retryable: number | null; scheduled: number | null }

  /**
   * `expires_at` has passed: `available`, `scheduled`, `pending` and `retryable` rows → `discarded`
   * (`deadLetterCopied`; listed as a dead letter only where the job's own policy wants it), a page
   * of at most `limit`.
   */
  expire(terms: ExpireTerms): Promise<Expired[]>

  /**
   * Retention: deletes ended rows whose token has come back and whose time is over, at most
   * `limit`. A discarded row is only erased (`isErased`) at first: its copy in the DLX queue may outlive
   * it, and the sweep has to know what that is. Fewer where rows are large, or kept by workflows.
   * Returns how many rows it changed; 0: there may be others the next time.
   */
  prune(cutoffs: PruneCutoffs, now: number, limit: number): Promise<number>

  /**
   * As `boundWaits`, for retention: what ended after `now` counts as ended at `now`, at most `limit` of
   * what may be pruned. Returns how many rows it changed.
   */
  boundEnds(now: number, limit: number): Promise<number>

  /** Rungs that were declared in this or earlier runs. From memory. */
  rungs(): readonly Rung[]

  /** Remembers a rung before its first token goes there; no effect when it is known. */
  recordRung(rung: Rung): Promise<void>

  /**
   * The rung is gone from the broker with every token in it: a fresh outbox nonce for each
   * `retryable` or `available` row whose token went there, and `rungMs` cleared, so that the ledger
   * holds them until they are due. Returns how many. Pages like `rearm`. Rows that are over stop
   * waiting for a token that was in it; one that was due may have left it, and then counts as in the
   * job queue.
   */
  rearmRung(rung: Rung, now: number): Promise<number>

  /**
   * CANCEL: any non-terminal state → `cancelled`; a broadcast is owed (`outbox`) where a token may
   * be out or the job runs. Fence: not terminal.
   */
  cancel(id: string, now: number): Promise<Cancelled | 'stale'>

  /**
   * CANCEL of whatever this id is, in one write. Of a row: as `cancel`. An id that the ledger does
   * not know leaves a tombstone: its token will be dropped when it comes, and a job that is stored
   * under that id later begins with generation 1, so that nobody drops it. Kept for as long as
   * `PruneCutoffs.withdrawn` says, the newest 100,000 of them. `queue`: whose workers are told.
   */
  cancelAny(id: string, queue: string, now: number): Promise<Cancelled | 'stale' | 'tombstoned'>

  /**
   * The queue is gone from the broker with every token in it: a new outbox nonce for each
   * `available` row of the queue, in order of arrival. Returns how many. A long queue takes several
   * commits; when one fails, the call rejects and may be repeated. `retryable` rows that are due by
   * `now` or soon lose their `rungMs`, as their token may have come out of its rung before: the ledger
   * holds them. All others stay as they are: their token is still in the rung. Rows that are over stop
   * waiting for a token that was in the queue (`tokenOut`). With the last of them its marker is
   * forgotten, and that it was lost (`lost`).
   */
  rearm(queue: string, now: number): Promise<number>

  /**
   * A token of a terminal row has come back and was settled, or never reached a queue (a withdrawn
   * row whose publish was nacked or returned): the row may be pruned. So may that of a retry that
   * the ledger holds, when it is cancelled. `attempt`: of the token, where known; one that is not
   * ahead of its row says nothing of the next token, which is in a rung. Lazy.
   */
  tokenReturned(id: string, generation: number, attempt?: number): void

  /**
   * Rows that owe a message, oldest nonce first, after this one; not those whose confirm waits for
   * its commit. Empty: no more. By index. `available`: a token for the queue. `retryable`: one for its
   * rung. `discarded`: a copy for the dead letter exchange. `cancelled`: a broadcast to its workers.
   */
  outboxPage(after: number, limit: number): OwedMessage[]

  /** `confirmed` was told of this nonce, and its row does not say so yet. */
  isConfirming(outbox: number): boolean

  /** How many rows owe a token, counted up to `atMost`. By index. */
  owedTokens(atMost: number): number

  /** By primary key. Rows that are erased are returned too; operations hide them. */
  find(id: string): JobRow | null

  /** The same without its long texts, which may be megabytes: for who looks at a thousand. */
  standing(id: string): JobStanding | null

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

  /** Names what is bound to the queue that has our tokens now; null: nothing is known of it. */
  queueMarker(name: string): string | null

  /** No effect for a queue that is not recorded. */
  recordMarker(name: string, marker: string): Promise<void>

  /**
   * Resolves when every write that was asked for before is committed, at once where none waits.
   * Rejects (503) where the last of them cannot be. Not for lazy writes.
   */
  written(): Promise<void>

  /** Null while writes succeed; else why the last group failed. */
  fault(): string | null

  /** Commits what is waiting and closes. Idempotent. */
  close(): Promise<void>
}

export interface WithdrawFence {
  id: string
  generation: number
}

export interface ExpireTerms {
  now: number
  wall: number
  limit: number
}

/** Rows that ended before these instants (clock time) may go. */
export interface PruneCutoffs {
  completed: number
  cancelled: number
  /** Plain discards. */
  discarded: number
  /** What is erased (`isErased`), from when it was, and tombstones. */
  withdrawn: number
  deadLetters: number
}

export interface Rung {
  queue: string
  delayMs: number
}

export interface Expired {
  job: JobRow
  /** Its token was to be published by this process, and no confirm has been heard of. */
  isTokenOwed: boolean
}

export interface Cancelled extends Expired {
  previousState: JobState
}

export type StateCounts = Readonly<Record<JobState, number>>

export interface QueueRecord {
  name: string
  createdAt: number
}
