/** The broker's options, and the hooks by which it asks the ledger. */
import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'
import type { ControlMessage, ControlVerdict, DeadLetter, ScheduledMessage } from './broker.ts'
import type { BrokerObserver } from './observer.ts'
import type { TopologyOptions } from './topology/topology.ts'

/**
 * - `eager`: every configured queue at start; a queue that is neither configured nor present is `missing`.
 * - `lazy`: at first use.
 * - `never`: nothing is declared or bound; what is missing becomes a warning.
 */
type DeclareStrategy = 'eager' | 'lazy' | 'never'

/** The names match those of `Config`, which can be passed as it is. */
export interface BrokerOptions extends TopologyOptions {
  /** At least one; tried in order. May contain credentials, which never reach a log or an error. */
  amqpUrls: readonly string[]
  /** RabbitMQ's management API; without a user, those of the first AMQP URL. Null or absent: unknown. */
  managementUrl?: string | null
  declare: DeclareStrategy
  /** Configured queues (`OJS_QUEUES`). */
  queues: readonly string[]
  /** Of a ledger that several gateways share: those stand by, and are no rivals (`ownership.ts`). */
  ledgerId?: string
  /** The most job queues that we declare for clients (`OJS_MAX_QUEUES`). */
  maxQueues: number
  /** The most retry queues that we declare, over all queues (`OJS_MAX_RUNGS`). */
  maxRetryQueues: number
  /** How long a new retry queue gets no job message; default 2000. Tests of other things set 0. */
  retryQueueSettleMs?: number
  /** How often queue depths and identities are checked; default 10,000. */
  watchMs?: number
  /** How long a queue must be empty before its available jobs count as lost; default 60,000. */
  driftMs?: number
  publishTimeoutMs: number
  /** Unacknowledged deliveries per consumer channel; default 32. */
  prefetch?: number
  /** Consumer channels per queue; default 64. */
  maxConsumerChannels?: number
  /** AMQP consumer `x-priority`; below 0, native workers are served first. */
  consumerPriority: number
  /** A queue not fetched from for this long gives its unassigned deliveries back; default 2000. */
  idleMs?: number
}

/**
 * What the broker layer asks of the ledger and tells it, by who answers; `RabbitBroker.attach` takes it. Members
 * that return something throw or reject when the ledger cannot be read or written; mere notifications do not.
 */
export interface BrokerHooks {
  queues: QueueRecords
  jobs: JobCounts
  epochs: LedgerEpochs
  arrivals: Arrivals
}

/** What the ledger remembers of job queues and retry queues, and what it does when one is gone. */
export interface QueueRecords {
  /** Queues that the ledger recorded in earlier runs. Called after every (re)connect. */
  recordedQueues(): readonly string[]
  /** A FETCH asked for a queue that another client has declared. */
  onQueueFound(queue: string): void
  /**
   * The job queue is gone from the broker, with every job message in it. Awaited **before** the queue is
   * declared again: a new outbox nonce for its rows is committed here (docs/architecture.md §2, "Queue
   * missing"). `leave`: a consumer acknowledges silently, and an operator has to decide. `isRenewed`: another
   * queue of this name exists already, and consumers of the old one may not know that it is gone.
   */
  onQueueMissing(queue: string, isRenewed: boolean): Promise<'declare' | 'leave'>
  /** The queue's last recorded identity, of this run or an earlier one, unless it is lost; or null. */
  identityOf(queue: string): Promise<string | null>
  /** Remembers the identity until the queue is missing. May reject: then it is tried again. */
  recordIdentity(queue: string, identity: string): Promise<void>
  /** True: we declared the queue, and RabbitMQ may lose it if it is killed now. From memory. */
  isUnwritten(queue: string): boolean
  /** RabbitMQ has written the queue down, or we did not declare it. May reject: then it is tried again. */
  onWritten(queue: string): Promise<void>
  /** True: nothing may be handed out of this queue. Called often, so it answers from memory. */
  isPaused(queue: string): boolean
  /** Retry queues declared in earlier runs or in this one. Called after every (re)connect. */
  recordedRetryQueues(): readonly { queue: string; delayMs: number }[]
  /** Awaited before a retry queue receives its first job message: the ledger records the retry queue. */
  onRetryQueueDeclared(queue: string, delayMs: number): Promise<void>
  /**
   * The retry queue is gone from the broker, with every job message in it. Awaited **before** the retry queue
   * is declared again: from then on the ledger holds the jobs that waited in it.
   */
  onRetryQueueMissing(queue: string, delayMs: number): Promise<void>
}

/** How many jobs the ledger has of a queue, to compare with what RabbitMQ has. From memory, but for `onDrift`. */
export interface JobCounts {
  /** True when a job's message may be in the queue, or with a native worker of it. */
  hasMessages(queue: string): boolean
  /** Jobs of this queue that are `available` in the ledger now; O(1). For the depth sample. */
  availableJobs(queue: string): Promise<number>
  /** Jobs of this queue that are available, without those whose message a native worker has; O(1). */
  claimableJobs(queue: string): number
  /**
   * RabbitMQ has no messages of jobs that have been available since before `before`, unless another consumer
   * holds them. Completes them if `isPlain`. Else publishes those again that became available after
   * `aloneSince` (null: none), when there was no other consumer any more. Returns how many are left (at most
   * 10,000 are counted); null: what native workers have reported about them is not recorded yet.
   */
  onDrift(drift: {
    queue: string
    before: number
    aloneSince: number | null
    isPlain: boolean
  }): Promise<number | null>
}

/** Which ledger this is, so that a restored or an empty one is noticed. */
export interface LedgerEpochs {
  /** True when the ledger knew of no queue at the start of this process. */
  isLedgerNew(): boolean
  /** The epochs that the ledger has, newest first. */
  all(): Promise<readonly number[]>
  /** Awaited before the epoch is declared. */
  record(epoch: number, before: number): Promise<void>
}

/** What comes from RabbitMQ to the gateway itself: messages that are no job deliveries, and the connections. */
export interface Arrivals {
  /** A message of `ojs.system.dead-letters`; acknowledged when this resolves. */
  onDeadLetter(letter: DeadLetter): Promise<void>
  /**
   * A message of a control queue; settled by the verdict, given back after a pause on a rejection. Called in
   * queue order, without waiting for earlier calls.
   */
  onControl(message: ControlMessage): Promise<ControlVerdict>
  /**
   * A message of `ojs.system.due`: a schedule that a native client published. Settled by the verdict, given
   * back after a pause on a rejection.
   */
  onScheduled(message: ScheduledMessage): Promise<ControlVerdict>
  /** Publishing has become possible (again): the relay runs. */
  onUp(): void
  /** Awaited before anything is consumed after a (re)connect: leases are extended here. */
  onConsumeUp(): Promise<void>
}

export interface BrokerDeps {
  clock: Clock
  logger: Logger
  /** Uniform in [0, 1). */
  random: () => number
  observer: BrokerObserver
}
