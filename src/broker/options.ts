import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'
import type { QueueProfile } from './arguments.ts'
import type { ControlMessage, ControlVerdict, DeadLetter, ScheduledMessage } from './broker.ts'
import type { BrokerObserver } from './observer.ts'
import type { DelayMode } from './topology.ts'

/**
 * - `eager`: every configured queue at start; a queue that is neither configured nor there is
 *   `missing`.
 * - `lazy`: at first use.
 * - `never`: nothing is declared or bound; what is missing becomes a warning.
 */
type DeclareStrategy = 'eager' | 'lazy' | 'never'

/** The names are those of `Config`, which can be passed as it is. */
export interface BrokerOptions {
  /** At least one; tried in order. May carry credentials, which never reach a log or an error. */
  amqpUrls: readonly string[]
  /** `''`, or e.g. `tenant1` for `tenant1.ojs.queue.email`. */
  prefix: string
  queueType: QueueProfile
  declare: DeclareStrategy
  /** Configured queues (`OJS_QUEUES`). */
  queues: readonly string[]
  /** The most job queues that we declare for clients (`OJS_MAX_QUEUES`). */
  maxQueues: number
  /** Rungs over all queues that we declare (`OJS_MAX_RUNGS`). */
  maxRungs: number
  /** How long a new rung gets no token; default 2000. Tests that are not about it want 0. */
  rungSettleMs?: number
  /** How often the queues are looked at: their depths and markers; default 10,000. */
  watchMs?: number
  publishTimeoutMs: number
  /** What `ojs.exchange.delayed` is: ours, or the plugin's. Default `ttl`. */
  delayMode?: DelayMode
  /** Null: the shipped file. */
  topologyPath: string | null
  /** Unacknowledged deliveries per consumer block; default 32. */
  prefetch?: number
  /** Consumer blocks per queue; default 64. */
  maxBlocks?: number
  /** AMQP consumer `x-priority`; below 0 native workers are served first. Default 0. */
  consumerPriority?: number
  /** Nobody fetching for so long gives unassigned deliveries back; default 2000. */
  idleMs?: number
  /** Shown by RabbitMQ's management as `{connectionName} publish` …; default `ojs-rabbitmq`. */
  connectionName?: string
}

/**
 * What the composition root puts between the broker and the rest. Those that are asked for something
 * throw or reject where the ledger cannot be read or written; those that are told something do not.
 */
export interface BrokerHooks {
  /** Queues that the ledger has recorded in earlier runs. Asked after every (re)connect. */
  recordedQueues(): readonly string[]
  /**
   * The job queue is gone from the broker, with every token in it. Awaited **before** it is
   * declared again: a new outbox nonce for its rows is committed here (architecture §2, "Queue
   * missing"). `leave`: somebody acknowledges silently; an operator has to decide. `isRenewed`:
   * another one of its name is there already, and who consumed the old one may not know.
   */
  onQueueMissing(queue: string, isRenewed: boolean): Promise<'declare' | 'leave'>
  /** It knew of no queue when this process began. */
  isLedgerNew(): boolean
  /** What the queue was marked with in this run or an earlier one, and not lost since; or null. */
  markerOf(queue: string): string | null
  /** Remembered until the queue is missing. May reject: then it is tried again. */
  onMarked(queue: string, marker: string): Promise<void>
  /** We have declared it, and RabbitMQ may come back without it when it is killed. From memory. */
  isUnwritten(queue: string): boolean
  /** RabbitMQ has written it down, or we did not declare it. May reject: then it is tried again. */
  onWritten(queue: string): Promise<void>
  /** Some job's token may be in the queue, or with a native worker of it. */
  hasTokens(queue: string): boolean
  /** Rungs that were declared in earlier runs, or in this one. Asked after every (re)connect. */
  recordedRungs(): readonly { queue: string; delayMs: number }[]
  /** Awaited before a rung takes its first token: the ledger remembers it. */
  onRungDeclared(queue: string, delayMs: number): Promise<void>
  /**
   * The rung is gone from the broker, with every token in it. Awaited **before** it is declared
   * again: the jobs that waited in it are held by the ledger from then on.
   */
  onRungMissing(queue: string, delayMs: number): Promise<void>
  /** A message of `ojs.system.dead-letters`; acknowledged when this resolves. */
  onDeadLetter(letter: DeadLetter): Promise<void>
  /**
   * A message of a control queue; settled by what this answers, given back after a pause when it
   * rejects. Called in the order of the queue, without waiting for the call before.
   */
  onControl(message: ControlMessage): Promise<ControlVerdict>
  /**
   * A message of `ojs.system.due`: a schedule that was published natively. Settled by what this
   * answers, given back after a pause when it rejects.
   */
  onScheduled(message: ScheduledMessage): Promise<ControlVerdict>
  /** Jobs of this queue that are `available` in the ledger now; O(1). For the depth sample. */
  availableJobs(queue: string): number
  /** Nothing may be handed out of this queue. Asked often: from memory. */
  isPaused(queue: string): boolean
  /** FETCH asked for a queue that somebody else has declared. */
  onQueueFound(queue: string): void
  /** Publishing is possible (again): the relay runs. */
  onUp(): void
  /** Awaited before anything is consumed after a (re)connect: leases are extended here. */
  onConsumeUp(): Promise<void>
}

export interface BrokerDeps {
  clock: Clock
  logger: Logger
  /** Uniform in [0, 1). */
  random: () => number
  hooks: BrokerHooks
  observer?: BrokerObserver
}
