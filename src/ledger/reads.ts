/** Reads of the ledger's rows: committed, and asked of the ledger itself. */
import type { CronEntry, CronStanding } from '../job/cron/entry.ts'
import type { Checkpoint, JobRow, JobStanding, OwedMessage } from '../job/job.ts'
import type { ProgressNote } from '../job/progress.ts'
import type { WorkflowHead, WorkflowRow } from '../job/workflow/row.ts'
import type { AuditReads } from './audit.ts'
import type { BulkOperation, OwedKind } from './bulk.ts'
import type { KeyStanding } from './concurrency.ts'
import type { CronRun, DueEntry } from './cron.ts'
import type { DeadLetterStats } from './dead-letters.ts'
import type { JobHistory } from './history.ts'
import type { Remembered } from './idempotency.ts'
import type { WorkerLeases } from './leases.ts'
import type { CancelledMessage } from './native.ts'
import type { EnqueuedSpan, TrafficPoint, TrafficQuery } from './queues.ts'
import type { SchemaRecord, SchemaSummary } from './schemas.ts'
import type { JobSearch } from './search.ts'
import type { WorkflowQuery } from './workflows.ts'

/** How much room the ledger takes, in bytes. */
interface LedgerSize {
  bytes: number
  /** Of it free: rows that went have left it for others. */
  freeBytes: number
}

/**
 * Reads of the truth. They see every row that was committed before the call, and may cost a round trip: a
 * hot path asks `Known`, or learns what it needs from the outcome of its write. Reject with 503 when the
 * ledger cannot be read.
 */
export interface Reads {
  readonly cron: CronReads
  readonly audit: AuditReads
  readonly schemas: SchemaReads
  readonly workflows: WorkflowReads
  readonly idempotency: IdempotencyReads
  readonly lostMessages: LostMessageReads
  readonly epochs: EpochReads
  readonly history: HistoryReads
  readonly traffic: TrafficReads
  readonly search: JobSearch
  readonly bulk: BulkReads
  readonly progress: ProgressReads
  readonly checkpoints: CheckpointReads
  readonly concurrency: ConcurrencyReads

  /** Cheap. */
  size(): Promise<LedgerSize>

  /** By primary key. Rows that are erased are returned too; operations hide them. */
  find(id: string): Promise<JobRow | null>

  /** The same without the long texts, which may be megabytes: for callers that look at a thousand rows. */
  standing(id: string): Promise<JobStanding | null>

  /** The same of several, by id; without those that there are not. One statement. */
  standings(ids: readonly string[]): Promise<ReadonlyMap<string, JobStanding>>

  /**
   * The active rows of each worker, by worker id; rows without a worker id are left out. Looks at no more than
   * `limit` active rows: those whose leases end first.
   */
  activeByWorker(limit: number): Promise<ReadonlyMap<string, WorkerLeases>>

  /**
   * The ids of the active jobs of this worker, among the leases that end at `from` or later, the first to end
   * first; by index. Looks at some `limit` leases of all workers. `next`: the `from` of the next page; null:
   * there are no more. A job may be in two pages.
   */
  leasedTo(
    workerId: string,
    from: number,
    limit: number,
  ): Promise<{ ids: string[]; next: number | null }>

  /** The queues of the rows that `expire` would discard, at most `limit` of them, and how many they are; by index. */
  expiring(wall: number, limit: number): Promise<{ queues: readonly string[]; count: number }>

  /**
   * True when this id was cancelled before the ledger knew a job of it (`cancelAny`). `queue`: where its
   * job message came from; absent: wherever.
   */
  isTombstoned(id: string, queue?: string | null): Promise<boolean>

  /**
   * Lists the cancelled jobs and ids of these queues whose job message may still be in the broker, newest
   * first; by index. `truncated`: there are more than `limit`.
   */
  tombstones(
    queues: readonly string[],
    limit: number,
  ): Promise<{ cancelled: CancelledMessage[]; truncated: boolean }>

  /**
   * Returns rows that owe a message, oldest nonce first, with nonces above `after`; without those whose
   * confirm is known and waits for its commit. Empty: no more. By index. The state tells what is owed:
   * `available`: a job message for the queue; `retryable`: one for its retry queue; `scheduled`: one for the
   * delay plugin; `discarded`: a copy for the dead letter exchange; `cancelled`: a broadcast to its workers.
   */
  outboxPage(after: number, limit: number): Promise<OwedMessage[]>

  /**
   * Returns the rows that owe these messages (`outbox`) now, whole, oldest nonce first; without those whose confirm
   * is known and waits for its commit. By index. All of them are in memory at once: `OwedMessage.bytes` tells how
   * large they are.
   */
  owed(outboxes: readonly number[]): Promise<JobRow[]>

  /**
   * How many rows owe a message, counted up to `atMost`; with `kind`, only such messages. Then it looks at three
   * times as many, and takes the count for `atMost` if there are more. By index.
   */
  owedMessages(atMost: number, kind?: OwedKind): Promise<number>

  /**
   * Returns the identity of the broker queue that took our job messages: the name of an exchange that is
   * bound to it (`broker/monitoring/queue-identity.ts`). Null: the queue has none.
   */
  queueIdentity(name: string): Promise<string | null>

  /**
   * The numbers of the dead letters of these queues; an empty list: of all. Looks at the newest 100,000, in
   * slices of some 10 ms.
   */
  deadLetterStats(queues: readonly string[]): Promise<DeadLetterStats>
}

/** The recurring jobs. */
export interface CronReads {
  find(name: string): Promise<CronEntry | null>

  /** Oldest first; by index. */
  list(page: { limit: number; offset: number }): Promise<{ entries: CronEntry[]; total: number }>

  /**
   * Returns enabled entries whose time has come, the most overdue first; by index. Fewer than `limit` if
   * they are large, because all of them are in memory at once.
   */
  due(wall: number, limit: number): Promise<DueEntry[]>

  /** Returns entries whose next time is later than `wall`, in order of `seq`, from behind `after` on. */
  ahead(wall: number, after: number, limit: number): Promise<CronStanding[]>

  /**
   * Returns enabled entries that have queued ticks, and whose jobs are all over, by name from behind `after`
   * on; by index. Fewer than `limit` if they are large; none: there are no more.
   */
  releasable(after: string, limit: number): Promise<CronEntry[]>

  /** The newest runs of an entry, newest first, and how many are kept, at most `KEPT_RUNS`. */
  runs(
    name: string,
    page: { limit: number; offset: number },
  ): Promise<{ runs: CronRun[]; total: number }>
}

export interface SchemaReads {
  /** The JSON Schema of a registration (`KnownSchemas`) as JSON text. Null: it was deleted. */
  content(registration: number): Promise<string | null>

  find(uri: string): Promise<SchemaRecord | null>

  /** One page, oldest first. */
  list(limit: number, offset: number): Promise<{ schemas: SchemaSummary[]; total: number }>
}

export interface WorkflowReads {
  /** By primary key. Null: unknown. */
  find(id: string): Promise<WorkflowRow | null>

  /** Newest first, all or those of one state; by index. `total` is kept, not counted. */
  list(query: WorkflowQuery): Promise<{ workflows: WorkflowHead[]; total: number }>
}

export interface IdempotencyReads {
  /** Null: the key was not used, or more than a day ago. By index. */
  find(key: string, now: number): Promise<Remembered | null>
}

/** See `LostMessages`. */
export interface LostMessageReads {
  /** The ids of those that became available within the span, oldest first. */
  list(queue: string, span: EnqueuedSpan, limit: number): Promise<string[]>
}

/** See `LedgerEpochs`. */
export interface EpochReads {
  /** The newest, and the one before it, if there are any. */
  all(): Promise<number[]>

  /** When a gateway used this ledger last, as far as was noted; null: none did. */
  seenAt(): Promise<number | null>
}

/** See `HistoryLedger`. */
export interface HistoryReads {
  /** Null: there is no such job, or it is erased (`isErased`). By primary key. */
  find(id: string): Promise<JobHistory | null>
}

/** What happened in queues: kept by the minute and the hour, not counted from the rows. */
export interface TrafficReads {
  /**
   * The minutes of the last 24 hours, or the hours of the last 30 days, that begin within the query, oldest
   * first; those in which nothing happened are left out. A kill forgets the last second before it. Where
   * very many queues are used, the oldest are dropped before their time.
   */
  history(query: TrafficQuery): Promise<TrafficPoint[]>
}

/** See `BulkLedger`. */
interface BulkReads {
  /** By primary key. */
  find(id: string): Promise<BulkOperation | null>

  /** Newest first. */
  list(page: {
    limit: number
    offset: number
  }): Promise<{ operations: BulkOperation[]; total: number }>

  /** All that run, oldest first; by index. */
  running(): Promise<BulkOperation[]>
}

/** See `ProgressLedger`. */
export interface ProgressReads {
  /** By primary key. Null: nothing was reported of this job. */
  find(id: string): Promise<ProgressNote | null>

  /** What was reported in the present attempts of these jobs, by their ids; by primary key. */
  present(ids: readonly string[]): Promise<ReadonlyMap<string, ProgressNote>>
}

/** See `CheckpointLedger`. */
export interface CheckpointReads {
  /** By primary key. */
  find(id: string): Promise<Checkpoint | null>
}

/** See `ConcurrencyLedger`. */
interface ConcurrencyReads {
  /** How many jobs of the key are active. */
  active(key: string): Promise<number>

  /** The keys of active and of available jobs from behind `after` on, in their order, at most `limit`; by index. */
  keys(after: string, limit: number): Promise<string[]>

  /** How these keys stand, without those that `keys` would not name; by index. */
  standings(keys: readonly string[]): Promise<ReadonlyMap<string, KeyStanding>>
}
