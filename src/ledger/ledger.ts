/** The ledger's contract (docs/architecture.md §7): every write is fenced, and tells what it changed. */
import type { Cause } from '../job/history/changes.ts'
import type { JobRow, JobState, NewJob } from '../job/job.ts'
import type { PriorityRefusal } from '../job/priority.ts'
import type { Stale } from '../job/stale.ts'
import type { AuditLedger } from './audit.ts'
import type { BulkLedger } from './bulk.ts'
import type { ConcurrencyLedger } from './concurrency.ts'
import type { CronLedger } from './cron.ts'
import type { DeadLetterLedger } from './dead-letters.ts'
import type { Cancelled, Expired } from './ended.ts'
import type { EnqueueTerms, Inserted, InsertedAll } from './enqueued.ts'
import type { HistoryLedger } from './history.ts'
import type { IdempotencyMemory } from './idempotency.ts'
import type { Known, RetryQueue } from './known.ts'
import type { LeaseLedger } from './leases.ts'
import type { MaintenanceLedger } from './maintenance.ts'
import type { NativeLedger } from './native.ts'
import type { CheckpointLedger, ProgressLedger } from './progress.ts'
import type { QueueSettingsLedger } from './queue-settings.ts'
import type {
  IdleQueues,
  LostMessages,
  LostQueues,
  QueuePauses,
  UnwrittenQueues,
} from './queues.ts'
import type { Reads } from './reads.ts'
import type { SchemaLedger } from './schemas.ts'
import type { WorkflowLedger } from './workflows.ts'

/**
 * When the ledger was used; its epochs are what RabbitMQ knows it by: see
 * `broker/monitoring/ledger-epoch.ts`.
 */
export interface LedgerEpochs {
  /** 0: there is none. */
  record(epoch: number, before: number): Promise<void>

  noteSeen(now: number): Promise<void>
}

/**
 * The ledger's contract (docs/architecture.md §7). Every write is fenced: it names the state (and attempt,
 * generation, worker) that it expects, and "zero rows changed" is an outcome, not an error: `Stale`, which
 * tells what the row was instead.
 *
 * Writes of the same moment share one transaction and one sync (group commit). A write's
 * promise settles after that commit, never before. When the commit fails, every write of the group
 * rejects with `OjsError('backend_error')`, status 503, and nothing of the group is stored.
 *
 * Reads see committed rows only: `known` what this gateway knows without asking, `read` the rows. A caller
 * that must see the writes that still wait for their commit awaits `written` first.
 *
 * Callbacks that a write is given run inside it, perhaps more than once. They are pure: they read what the gateway
 * knows, and change nothing. What they say is in the write's outcome.
 */
export interface Ledger extends LeaseLedger, DeadLetterLedger, NativeLedger {
  readonly known: Known
  readonly read: Reads
  /** The recurring jobs. */
  readonly cron: CronLedger
  readonly schemas: SchemaLedger
  readonly pauses: QueuePauses
  readonly maintenance: MaintenanceLedger
  readonly queueSettings: QueueSettingsLedger
  readonly lost: LostQueues
  readonly unwritten: UnwrittenQueues
  readonly epochs: LedgerEpochs
  readonly idle: IdleQueues
  readonly lostMessages: LostMessages
  readonly workflows: WorkflowLedger
  readonly idempotency: IdempotencyMemory
  readonly history: HistoryLedger
  readonly progress: ProgressLedger
  readonly checkpoints: CheckpointLedger
  readonly bulk: BulkLedger
  readonly concurrency: ConcurrencyLedger
  readonly audit: AuditLedger

  /**
   * PUSH: stores the job in the state that `job.start` names, attempt 0. An `available` job gets a fresh
   * outbox nonce; the others have no job message yet (`messageOut` false). The same transaction cancels the
   * jobs that its `unique` policy replaces, and stores the idempotency key of the request. Fence: no row with
   * this id, or an erased one (then generation + 1); no job that conflicts with its `unique` policy; the
   * idempotency key is not remembered.
   */
  insert(job: NewJob, now: number, terms?: EnqueueTerms): Promise<Inserted>

  /**
   * PUSH batch: stores all jobs in one transaction, in order. Each is stored as `insert` does it, and sees
   * the jobs before it. When one is refused, none is stored; `index` is the place of the refused job.
   */
  insertAll(jobs: readonly NewJob[], now: number, terms?: EnqueueTerms): Promise<InsertedAll>

  /**
   * Clears a nonce: the broker has confirmed the job message or the broadcast that was published for it. For
   * the copy of a discarded job, call `copyConfirmed` instead. Lazy: the write rides on the next group commit
   * (or gets one of its own after 10 ms, on a slow disk after 1 s at most), and nobody waits for it. Fence:
   * the row still carries this nonce, or the one by which `promote` replaced it. In the second case the
   * confirmed message is in its retry queue, and the row owes nothing, as if the confirm had come before the
   * promotion. No nonce is given out twice.
   */
  confirmed(outbox: number): void

  /**
   * Erases the row (`isErased`) of a PUSH that was refused after its insert. `key`: the idempotency key of
   * the request, which is forgotten in the same write.
   * Fence: `available`, attempt 0, same nonce. False: the row has moved on; for one, a worker has the job.
   */
  withdraw(id: string, outbox: number, key?: string): Promise<boolean>

  /**
   * Erases the rows of a refused batch, in one transaction. Returns the ids that could not be withdrawn
   * because their jobs have started or ended.
   * Fence: this generation, attempt 0, `available`, `scheduled` or `pending`. The nonce is no part of the
   * fence, because a confirm may have cleared it already.
   */
  withdrawAll(rows: readonly WithdrawFence[], key?: string): Promise<string[]>

  /**
   * ACTIVATE: `pending → available` with a fresh outbox nonce, or `pending → scheduled` when `dueAt` is
   * still ahead of `wall`. Sets `activatedAt`, and `enqueuedAt` if the job becomes available.
   * Fence: `pending`.
   */
  activate(id: string, now: number, wall: number, cause?: Cause): Promise<JobRow | Stale>

  /**
   * Makes due `retryable` rows (by `now`) and `scheduled` rows (by `wall`) `available`, the most overdue
   * first, at most `limit` of them: `enqueuedAt` = now, `dueAt` cleared. A row whose job message waits in a
   * retry queue gets no nonce, because that message comes by itself; any other row gets a fresh one. That
   * includes a row whose message for the retry queue is not confirmed: it owes its message to the job queue
   * from now on, unless the confirm for the retry queue comes after all (`confirmed`).
   */
  promote(now: number, wall: number, limit: number): Promise<JobRow[]>

  /**
   * Gives `scheduled` rows that are due by `until` (wall) a nonce, so that the relay publishes their job
   * messages to the delay plugin's exchange. Returns how many rows.
   */
  sendAhead(until: number, limit: number): Promise<number>

  /**
   * Discards `available`, `scheduled`, `pending` and `retryable` rows whose `expires_at` has passed, at most
   * `limit` of them. Commits even if there are none: ask `Reads.expiring` before. No copy in the DLX queue is
   * owed (`deadLetterCopied` is set); the job is listed as a dead letter only if its own policy says so.
   */
  expire(terms: DueTerms): Promise<Expired[]>

  /**
   * Retention: deletes ended rows whose job message has come back and whose retention time is over, at most
   * `limit`; fewer where rows are large or are kept for their workflow. A discarded row is only erased
   * (`isErased`) at first: its copy in the DLX queue may outlive it, and the sweep needs the row to
   * recognize that copy. So is a row with a generation above 0: the message of the life before may have been
   * in a retry queue when the job was retried, and would be adopted as a new job. Returns how many rows it changed; even after 0, the next call may find some.
   */
  prune(cutoffs: PruneCutoffs, now: number, limit: number): Promise<number>

  /**
   * What `boundWaits` is for leases, for retention: a prunable row whose end lies after `now` (the clock was
   * set back) counts as ended at `now`. Changes at most `limit` rows, and returns how many.
   */
  boundEnds(now: number, limit: number): Promise<number>

  /** Remembers a retry queue before its first job message goes there; no effect when it is known. */
  recordRetryQueue(retryQueue: RetryQueue): Promise<void>

  /**
   * Recovers from the loss of a retry queue and every job message in it: each `retryable` or `available` row
   * whose message went there gets a fresh outbox nonce, and its `retryQueueMs` is cleared, so that the ledger
   * holds the job until it is due. Returns how many. Works in pages like `rearm`. Ended rows stop waiting for
   * a message that was in the retry queue. A message that was due may have left the retry queue before, so it
   * counts as being in the job queue.
   */
  rearmRetryQueue(retryQueue: RetryQueue, now: number): Promise<number>

  /**
   * CANCEL: any non-terminal state → `cancelled`. The row owes a broadcast to the workers (`outbox`) when
   * its job message may be out or the job runs. Fence: not terminal.
   */
  cancel(id: string, now: number, cause?: Cause): Promise<Cancelled | Stale>

  /**
   * Drops results whose `Carry.resultTtlMs` is over, at most `limit`; a result with 0 was never kept. Returns how
   * many it has looked at; 0: there are no more. By index.
   */
  pruneResults(now: number, limit: number): Promise<number>

  /**
   * PATCH: another priority for a job that is `available`, `scheduled` or `pending`. A job with a message
   * (`hasMessage`) goes on in the next generation: an `available` one with a fresh nonce, a `scheduled` one is
   * held by the ledger from now on; native workers are told by `Reads.tombstones` that the message before is
   * void. `mayReplace` false: such a job stays as it is (`message_out`). Fence: state, generation and attempt as
   * read. Nothing is written if the priority is the same.
   */
  prioritize(
    id: string,
    priority: number,
    terms: { now: number; cause: Cause; mayReplace: boolean },
  ): Promise<Prioritized>

  /**
   * Purge: erases (`isErased`) those of these jobs that are in one of `states`. A job that waits is cancelled
   * first, as by `cancel`. The erased rows stay for as long as `PruneCutoffs.withdrawn` says, so that messages
   * of the jobs are dropped when they arrive. The rows of a workflow's jobs stay as they are. All in one commit.
   */
  purge(ids: readonly string[], terms: PurgeTerms): Promise<Purged[]>

  /**
   * CANCEL of any id, known or not, in one write. A known job is cancelled as by `cancel`. An unknown id
   * leaves a tombstone: its job message is dropped when it arrives, and a job that is stored under this id
   * later begins with generation 1, so that its message is not dropped too. Tombstones are kept for as
   * long as `PruneCutoffs.withdrawn` says, the newest 100,000 of them. `queue`: whose workers are told.
   * `isScoped`: only a job of that queue is meant, known or not; `elsewhere`: the job, or the tombstone, is
   * of another.
   */
  cancelAny(
    id: string,
    queue: string,
    now: number,
    isScoped?: boolean,
    cause?: Cause,
  ): Promise<Cancelled | Stale | 'tombstoned' | 'elsewhere'>

  /**
   * Recovers from the loss of a queue and every job message in it: each `available` row of the queue gets a
   * new outbox nonce, in order of arrival. Returns how many. A long queue takes several commits; when one
   * fails, the call rejects and may be repeated. A `retryable` row that is due by `now` or soon loses its
   * `retryQueueMs`: its message may have left the retry queue before the loss, so the ledger holds the job. A
   * `scheduled` row whose message the delay plugin has loses its `retryQueueMs` as well. Later retries stay
   * as they are, because their message is still in its retry queue. Ended rows stop waiting for a message
   * that was in the queue (`messageOut`). The last commit also forgets the queue's identity, and that the
   * queue was lost (`lost`).
   */
  rearm(queue: string, now: number): Promise<number>

  /**
   * Clears `messageOut` of an ended row, so that it may be pruned: its job message has come back and was
   * settled, or never reached a queue (a withdrawn row whose publish was nacked or returned). Does the same
   * for a retry that the ledger holds, which may then be pruned once it is cancelled. `attempt`: that of the
   * message, if known. Where the row's next message is in a retry queue, a message that is not ahead of the
   * row's attempt is an older one, and changes nothing. Lazy.
   */
  messageReturned(id: string, generation: number, attempt?: number): void

  /** Remembers the queue; no effect when it is known. */
  recordQueue(name: string, now: number): Promise<void>

  /** Stores the identity of a queue; no effect if the queue is not recorded. */
  recordIdentity(name: string, identity: string): Promise<void>

  /**
   * Resolves when every write requested before is committed; at once when none waits. Rejects (503) when
   * the last group of them cannot be committed. Does not cover lazy writes.
   */
  written(): Promise<void>

  /** Commits the writes that wait, and closes. Idempotent. */
  close(): Promise<void>
}

/** `before`: as it was; `isReplaced`: its message is void, and it owes one, or the ledger holds it. */
export type Prioritized =
  | { outcome: 'prioritized'; job: JobRow; before: JobRow; isReplaced: boolean }
  | { outcome: PriorityRefusal | 'message_out'; row: JobRow | null }

export interface PurgeTerms {
  states: readonly JobState[]
  now: number
  cause?: Cause
}

export interface Purged {
  /** As it was before it was erased. */
  job: JobRow
  /** It had waited. */
  cancelled: Cancelled | null
  /** Its workflow needs its row, which stays. */
  isKept: boolean
}

export interface WithdrawFence {
  id: string
  generation: number
}

export interface DueTerms {
  now: number
  wall: number
  limit: number
}

/** Rows that ended before these instants (clock time) may be pruned. */
export interface PruneCutoffs {
  completed: number
  cancelled: number
  /** Discarded jobs that are not listed as dead letters. */
  discarded: number
  /** Erased rows (`isErased`), by when they were erased, and tombstones. */
  withdrawn: number
  deadLetters: number
}
