/** What this gateway knows of the ledger without asking it: committed, in memory. */
import type { JobState } from '../job/job.ts'
import type { Maintenance } from './maintenance.ts'
import type { QueueSettings } from './queue-settings.ts'
import type { Traffic } from './queues.ts'

/**
 * What this gateway knows of the ledger: committed, and at most `staleMs` old. Its own writes are in it from
 * the moment at which their promises settle. Never waits and never throws: hot paths may ask it.
 */
export interface Known {
  /** How old the answers may be, in ms. 0: they are of this moment, because no one else writes. */
  readonly staleMs: number

  readonly pauses: KnownPauses
  readonly lost: KnownLosses
  readonly unwritten: KnownUnwritten
  readonly traffic: KnownTraffic
  readonly idle: KnownIdle
  readonly schemas: KnownSchemas
  readonly workflows: KnownWorkflows
  readonly maintenance: KnownMaintenance
  readonly queueSettings: KnownQueueSettings
  readonly replication: KnownReplication

  /** Every queue that was recorded and is not forgotten, oldest first. */
  queues(): readonly QueueRecord[]

  hasQueue(name: string): boolean

  /** The retry queues that were declared in this or earlier runs. */
  retryQueues(): readonly RetryQueue[]

  /** Kept up to date by every write, not counted when asked: O(1) at any number of rows. */
  counts(queue: string): StateCounts

  /**
   * How many jobs are `available` without those whose job message a native worker still has
   * (docs/architecture.md §2, "visibility expired"), and those that are held back. Kept, not counted.
   */
  claimable(queue: string): number

  /** How many `available` jobs their concurrency keys hold back (`isHeldByKey`). Kept, not counted. */
  held(queue: string): number

  /** The number of dead letters of one queue, or of all. Kept, not counted. */
  deadLetterCount(queue?: string): number

  /**
   * Returns the queues whose DLX queue holds stale copies (copies that nobody needs any more), each with the
   * mark of its newest stale copy. The returned map does not change later.
   */
  staleCopies(): ReadonlyMap<string, number>

  /** Null while writes succeed; else the reason why the last group commit failed. */
  fault(): string | null

  /** What an operator should look at. */
  warnings(): LedgerWarning[]
}

/** Paused queues, which hand out no jobs (seed 001 §11.3). */
export interface KnownPauses {
  /** Since when the queue is paused; null: it is not. Every PUSH asks this. */
  since(queue: string): number | null

  /**
   * Returns the queues whose native workers must be told whether the queue is paused: those that were paused
   * or resumed without a broadcast since, and at start every paused queue, because a worker may have started
   * while no gateway could answer it.
   */
  owed(): ReadonlySet<string>
}

/**
 * Lost queues: they are gone from the broker, and their jobs may have run unnoticed. Nothing is published
 * to a lost queue before `rearm` takes it off this list.
 */
export interface KnownLosses {
  has(queue: string): boolean

  all(): readonly string[]
}

/** Queues that RabbitMQ may come back without if it is killed now: see `UnwrittenQueues`. */
export interface KnownUnwritten {
  has(queue: string): boolean
}

/** What happened in a queue within the last hour: kept by the minute, not counted from the rows. */
export interface KnownTraffic {
  /** The 60 minutes up to `now`. */
  lastHour(queue: string, now: number): Traffic

  /** The last `minutes` whole minutes before that of `now`; at most 59. */
  wholeMinutes(queue: string, now: number, minutes: number): Traffic
}

export interface KnownIdle {
  /** Can the queue still be forgotten, as far as committed counts tell? */
  isIdle(queue: string): boolean

  /** Has it neither live jobs nor dead letters? */
  isEmpty(queue: string): boolean
}

export interface KnownSchemas {
  /**
   * Returns the number of the uri's registration, which is never used again, not even for a later
   * registration of the same uri. Null: not registered. Every PUSH that names a schema calls this.
   */
  registration(uri: string): number | null
}

export interface KnownWorkflows {
  /** Runs any workflow? While none does, no job is a step whose end would begin others. */
  isAnyRunning(): boolean
}

/** See `MaintenanceLedger`. */
interface KnownMaintenance {
  /** Null: there is none. From memory, as committed. Every PUSH asks this. */
  current(): Maintenance | null
}

/** See `QueueSettingsLedger`. */
interface KnownQueueSettings {
  /** Null: nothing is set, also for an unknown queue. From memory, as committed. Every PUSH asks this. */
  of(queue: string): QueueSettings | null
}

/** What is left when machines are lost. */
export interface KnownReplication {
  readonly kind: 'sqlite' | 'postgres'

  /** Does a commit survive the loss of any one machine? */
  isReplicated(): boolean

  /** How many other gateways wait to take over; always 0 with SQLite. */
  standbys(): number
}

/** A condition of the ledger that an operator should look at. */
export interface LedgerWarning {
  code:
    | 'ledger_cut_short'
    | 'ledger_exposed'
    | 'ledger_not_replicated'
    | 'ledger_slow'
    | 'clock_offset'
  message: string
  details: Record<string, unknown>
}

export interface RetryQueue {
  queue: string
  delayMs: number
}

export type StateCounts = Readonly<Record<JobState, number>>

export interface QueueRecord {
  name: string
  createdAt: number
}
