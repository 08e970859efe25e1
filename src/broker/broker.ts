/** The broker's contract: what operations and services see of RabbitMQ. */
import type { Turn } from '../job/delivery-order.ts'
import type { Carry, JobRow } from '../job/job.ts'
import type { ShownProperties } from '../job/request.ts'
import type { Inspection } from './monitoring/inspection.ts'
import type { Limits } from './topology/limits.ts'
import type { Removal } from './topology/removal.ts'

export type { Depth, OutgoingView, QueueView, ServerView } from './monitoring/inspection.ts'
export type { LimitsOutcome, QueueLimits } from './topology/limits.ts'

/**
 * What operations and services see of RabbitMQ. The implementation lives in this folder, the only importer of
 * amqplib.
 */
export interface Broker {
  /** Cheap: called on every PUSH and FETCH. */
  status(): BrokerStatus

  /** How long RabbitMQ took with the newest publish, or to open a channel for it; null: unknown. */
  latencyMs(): number | null

  /**
   * Publishes the message that `row` owes, mandatory and confirmed, to where the row's state points:
   *
   * - `retryable` with a `retryQueueMs`: the job message of the next attempt, to `ojs.exchange.retry` with
   *   key `{queue}.{retryQueueMs}`.
   * - `scheduled`: the job message of the first attempt, to the plugin's `ojs.exchange.delayed` with the
   *   remaining time as `x-delay`.
   * - `discarded`: the copy of the failed attempt, to `ojs.exchange.dlx` (seed 002 §5.5; only where there is
   *   no delivery that could be nacked).
   * - any other state: the job message of the next attempt, to `ojs.exchange.direct`.
   *
   * Never rejects: the result is in the outcome, `refused` when the retry queue is not ready. The caller
   * commits the row's outbox nonce before it calls.
   */
  publish(row: JobRow): Promise<PublishOutcome>

  /**
   * Publishes a message that cannot be made into a job to `ojs.exchange.dlx`, mandatory and confirmed. Never
   * rejects: the result is in the outcome.
   */
  publishUnusable(message: Unusable): Promise<PublishOutcome>

  /** Reads a delivery that a worker reports as if the gateway had received that delivery itself. */
  shown(delivery: ShownDelivery): ShownMessage

  /** True when the deliveries held of this queue, or the channels, are close to a limit: hold no more. */
  isCrowded(queue: string): boolean

  /**
   * True when the queue was checked or declared since RabbitMQ last started, as far as is known, and may get
   * messages.
   */
  isDeclared(queue: string): boolean

  /** How many job messages are being published: sent and unconfirmed, or waiting to be sent. */
  readonly publishing: number

  /**
   * Checks the queue and the entities that belong to it, and declares what is missing where the strategy
   * allows it. Single flight per queue. `missing`: the queue does not exist, and the gateway must not declare
   * it.
   */
  ensureQueue(queue: string): Promise<EnsureOutcome>

  /** As `ensureQueue`, but ignores earlier checks. It is no sign that the queue may be gone. */
  recheckQueue(queue: string): Promise<EnsureOutcome>

  /** Cheap. True when this retry queue was declared with our arguments on the present connection. */
  isRetryQueueReady(queue: string, delayMs: number): boolean

  /**
   * Declares the retry queue `ojs.queue.retry.{queue}.{delayMs}` where that is allowed; single flight per
   * retry queue. `unusable`: the retry queue exists with arguments that are not ours (a classic retry queue
   * loses messages at a broker crash, docs/architecture.md §3), it was declared a moment ago
   * (docs/operate/faults.md), `OJS_MAX_RUNGS` is reached, the strategy forbids the declaration, or the broker
   * cannot be asked. The ledger then holds the job.
   */
  ensureRetryQueue(queue: string, delayMs: number): Promise<'ready' | 'unusable'>

  /** As `ensureRetryQueue`, but ignores the results of earlier checks: for a publish that was returned. */
  recheckRetryQueue(queue: string, delayMs: number): Promise<'ready' | 'unusable'>

  /**
   * Reads `ojs.queue.dlx.{queue}` once, acknowledges every copy for which `isStale` returns true, and gives
   * the others back in their order. Null when the queue does not exist or the channel was lost; copies
   * acknowledged before that stay removed. `isComplete`: the sweep reached the end of the queue within
   * `limit` messages (65,535 at most). `isStale` must not throw. One sweep at a time per queue.
   */
  sweepDeadLetters(
    queue: string,
    limit: number,
    isStale: (copy: DeadLetterCopy) => Promise<boolean>,
  ): Promise<SweptDeadLetters | null>

  /**
   * To be asked after a nack: is the queue gone, or was it within the last seconds? RabbitMQ nacks a publish
   * to a queue that is being deleted just as to a full queue. The answer may be a second old.
   */
  isQueueGone(queue: string): Promise<boolean>

  /** Deletes queues that nobody uses. */
  readonly removal: Removal

  /** What RabbitMQ has, for people to read. */
  readonly inspection: Inspection

  /** Limits of queues that are set at run time. */
  readonly limits: Limits

  /** Asks the broker whether the queue exists; declares nothing. */
  probeQueue(queue: string): Promise<Presence>

  /**
   * How many of `available` jobs have no job message, according to the last depth sample (ready in the broker
   * + held here, sampled every few seconds, at most 15 s old). 0 unless the number is above max(100, 10 %).
   * Such a number means that a consumer acknowledges without reporting (docs/architecture.md §2).
   */
  silentlyAcknowledged(queue: string, available: number): number

  /**
   * RabbitMQ has shown the queue as empty for a minute: jobs that have been available since before this time
   * (clock time) have no message, unless another consumer holds it. Null: nothing of that kind is known.
   */
  driftedBefore(queue: string): number | null

  /**
   * Deliveries for a FETCH: at least one, or none when `waitMs` ran out or `signal` aborted. They are
   * unacknowledged and in no buffer: the caller settles, holds, parks or puts back each of them. Queues are
   * served in the order given, within a queue by exact priority, then by arrival. Queues that do not exist
   * are skipped.
   */
  take(request: TakeRequest): Promise<Delivery[]>

  /** The deliveries that FETCH would take next from this queue, at most `limit`. They stay in the buffer. */
  peek(queue: string, limit: number): readonly Delivery[]

  /** Takes those of these deliveries that are in the buffer still, as `take` does. */
  takeThese(queue: string, deliveries: readonly Delivery[]): Delivery[]

  /**
   * The queue was paused or resumed (`QueueRecords.isPaused` says which). Nothing is taken from a paused
   * queue: its unassigned deliveries go back to RabbitMQ, and the fetches that wait for it go on waiting.
   */
  pauseChanged(queue: string): void

  /** Puts deliveries back at the head of the buffer, for the next fetch. */
  putBack(deliveries: readonly Delivery[]): void

  /**
   * Keeps a delivery unacknowledged until `until` (clock time), or until `unpark` is called for its job; then
   * the delivery goes back into the buffer. `onReturned`: given for a job that other consumers may
   * start. Its delivery goes back to RabbitMQ as one does that nobody fetches; this is called then, and tells
   * when (clock time) a fetch may start the job.
   */
  park(delivery: Delivery, until: number | null, onReturned?: () => number): void
  unpark(jobId: string): boolean

  /**
   * Publishes to every worker that listens for this queue: to `ojs.exchange.direct` with routing key
   * `ojs.control.workers.{queue}`, confirmed, not mandatory (there may be no worker). Never rejects.
   */
  broadcast(message: Broadcast): Promise<PublishOutcome>

  /**
   * Publishes the answer to an RPC, confirmed. `returned`: the asker is gone (cannot be detected for an asker
   * that uses `amq.rabbitmq.reply-to`). `refused`: not sent, also when `replyTo` is an address that the
   * gateway does not publish to: one of our own names, longer than 255 bytes, or with control characters, or
   * a queue that RabbitMQ could not be asked about. Never rejects.
   */
  reply(message: Reply): Promise<ReplyOutcome>

  /**
   * False until the messages that waited in the control queues when the consume connection opened have been
   * settled, and those that another gateway had been given, which stands still; for 60 s at most. False too while
   * nothing can be consumed. Until then the gateway does not know
   * what native workers have done in the meantime (docs/architecture.md §2, "Restart").
   */
  controlBacklogConsumed(): boolean

  /**
   * Another gateway that stands still may have been given reports about jobs of this queue, which come back when RabbitMQ
   * gives its connection up; for 60 s at most after taking over.
   */
  mayReportsReturn(queue: string): boolean

  /**
   * Resolves when what native workers had reported about jobs of these queues is recorded; after 5 s with false.
   * Rejects when RabbitMQ cannot be asked.
   */
  catchUp(queues: readonly string[]): Promise<boolean>

  /** Differences between the broker's entities and those we would declare, and other problems. */
  warnings(): readonly BrokerWarning[]
}

export type BrokerStatus =
  | { state: 'up' }
  /** `blocked`: memory or disk alarm. `foreign`: another ledger serves this broker and prefix. */
  | { state: 'down' | 'blocked' | 'foreign'; reason: string }

export type PublishOutcome =
  | 'confirmed'
  /** The queue refused the message: it is full (`reject-publish`) or deleted (`isQueueGone`). */
  | 'nacked'
  /** Unroutable: no queue took the message. Or not sent, because the queue may be a dead one. */
  | 'returned'
  /** No confirm in time, or the channel closed first: the message may or may not have arrived. */
  | 'unknown'
  /** As `unknown`, and RabbitMQ closed the channel because the user may not publish (403). */
  | 'forbidden'
  /** Larger than RabbitMQ's `max_message_size`: RabbitMQ refused the message, or it was not even sent. */
  | 'too-large'
  /** Not sent: RabbitMQ refused an earlier publish to this exchange because the user lacks the permission. */
  | 'denied'
  /** Not sent: no connection, blocked, the retry queue is not ready, or too many publishes in flight. */
  | 'refused'

/** `not-exclusive`: not sent, because others than the asker can use the queue that it named. */
export type ReplyOutcome = PublishOutcome | 'not-exclusive'

/** `unavailable`: the broker cannot be asked at the moment. */
export type Presence = 'exists' | 'missing' | 'unavailable'

export type EnsureOutcome =
  | 'ready'
  /** The queue does not exist, and the strategy or a limit forbids declaring it. */
  | 'missing'
  /** The queue is gone with messages that may have been processed; only an operator may declare it again. */
  | 'lost'
  | 'too-many-queues'
  /** The queue exists and is consumed, but gets no messages: it can drop them without a trace. */
  | 'lossy'
  /** The broker cannot be asked at the moment. */
  | 'unavailable'
  /** 403: the user lacks the permission. */
  | 'access-refused'

/** How the broker orders a job queue: by priority level, highest first, and FIFO within each level. */
export interface PriorityOrder {
  /** 1: by arrival only. */
  levels: number
  /** False: lower levels get a share even while higher ones have messages. */
  isStrict: boolean
}

/** A message that a worker reported as a job, but that cannot be made into one. */
export interface Unusable {
  id: string
  /** The queue it came from. */
  queue: string
  content: Buffer
}

export interface Broadcast {
  /** OJS queue. */
  queue: string
  type: string
  /** JSON. */
  body: string
}

export interface Reply {
  replyTo: string
  correlationId: string | null
  type: string
  /** JSON. */
  body: string
}

export interface TakeRequest {
  queues: readonly string[]
  count: number
  /** How long the client wants to wait for a first job; 0 = not at all. */
  waitMs: number
  /**
   * True while the ledger knows more than `beyond` (default 0) claimable jobs in this queue: worth a short
   * wait.
   */
  hasClaimable(queue: string, beyond?: number): boolean
  /**
   * Bytes of the jobs that the caller has taken already: this call continues that fetch, and waits only for
   * jobs that are sure to come soon. Absent: the caller has none.
   */
  takenBytes?: number
  signal: AbortSignal
}

/**
 * One message from a job queue, bound to the channel that delivered it. Settling answers `lost` when that
 * channel is gone (the broker then delivers the message again). It never touches another channel, so it can
 * never settle another job (docs/architecture.md, law 6).
 */
export interface Delivery extends Turn {
  readonly queue: string
  /** `message_id`, or the id in the body when the property is missing; '' when neither is there. */
  readonly id: string
  readonly generation: number
  /** `x-ojs-attempt`; 1 when missing or unusable. */
  readonly attempt: number
  readonly redelivered: boolean
  /** `x-ojs-max-attempts`; null when missing or unusable. */
  readonly maxAttempts: number | null
  /**
   * The parts of a foreign message that matter here; see `incoming-message.ts`. Built anew at each access.
   */
  readonly message: ForeignMessage
  /** Size of the body in bytes; 0 after `forgetContent`. */
  readonly size: number
  /** Searches the body, without parsing it, for a rate limit. False is certain, true a guess. */
  mayBeLimited(): boolean
  /** What must survive every republish of an adopted message: trace, cleaned headers, … */
  carry(): Carry
  /** Drops the body, which the row holds now: it must not stay in memory for a lease of minutes. */
  forgetContent(): void
  /** True until the delivery is settled or the channel that delivered it is gone. */
  isLive(): boolean
  ack(): Settled
  /** `basic.nack requeue=false`: to `ojs.exchange.dlx`. */
  deadLetter(): Settled
}

export type Settled = 'settled' | 'lost'

export interface SweptDeadLetters {
  removed: number
  kept: number
  isComplete: boolean
}

/** One message of `ojs.queue.dlx.{queue}`. */
export interface DeadLetterCopy {
  /** As `Delivery.id`. */
  readonly id: string
  readonly generation: number
  readonly attempt: number
}

/**
 * One message of `ojs.system.dead-letters`: the gateway's own copy of a message that died in the broker. The
 * broker layer acknowledges it when the hook that received it has resolved, and gives it back after a pause
 * when the hook rejected.
 */
export interface DeadLetter extends DeadLetterCopy {
  /** The OJS queue it died in, by the first `x-death` entry; else by the routing key. */
  readonly queue: string
  /**
   * `x-death[0].reason`; `unknown` when there is no such header (published to the dead letter exchange by
   * hand or by us) or when it is none of the four reasons.
   */
  readonly reason: 'rejected' | 'expired' | 'maxlen' | 'delivery_limit' | 'unknown'
  /** The message died in a control queue: it is a worker's control message, not a job. */
  readonly isControl: boolean
  readonly maxAttempts: number | null
  readonly message: ForeignMessage
  carry(): Carry
}

/**
 * One message of a control queue. The broker layer settles it by the verdict of the hook that received it,
 * and gives it back after a pause when the hook rejected.
 */
export interface ControlMessage {
  /** The OJS queue whose control queue delivered the message. */
  readonly queue: string
  /** '' when it has none. */
  readonly type: string
  readonly content: Buffer
  readonly redelivered: boolean
  /** The message died in its queue and comes late: newer ones may have been handled before it. */
  readonly isLate?: boolean
  /** The messages behind it in its queue wait until it is handled, however long that takes. */
  readonly isLarge?: boolean
  /** Null: there is no reply address, or not one that the gateway publishes to (see `Broker.reply`). */
  readonly replyTo: string | null
  readonly correlationId: string | null
}

/** `malformed`: `basic.nack requeue=false`, to the dead letters of the queue that delivered the message. */
export type ControlVerdict = 'handled' | 'malformed'

/**
 * One message of `ojs.system.due`: a message that a native client published to `ojs.exchange.delayed` (seed
 * 002 §9.1.2). The broker layer settles it by the verdict of the hook that received it.
 */
export interface ScheduledMessage extends DeadLetterCopy {
  /** The routing key: the OJS queue that the message is for, if the key is a valid queue name. */
  readonly queue: string
  readonly maxAttempts: number | null
  readonly message: ForeignMessage
  carry(): Carry
}

/** A delivery that a worker reports. Its content is not validated yet. */
export interface ShownDelivery {
  readonly content: Buffer
  readonly headers: Readonly<Record<string, unknown>>
  readonly properties: ShownProperties
}

export interface ShownMessage {
  readonly message: ForeignMessage
  readonly maxAttempts: number | null
  readonly carry: Carry
}

/** The parts of an AMQP message that matter to the job model. */
export interface ForeignMessage {
  readonly content: Buffer
  readonly headers: Readonly<Record<string, unknown>>
  readonly properties: Readonly<{
    messageId?: string
    type?: string
    priority?: number
    correlationId?: string
    timestamp?: number
    appId?: string
    replyTo?: string
  }>
}

export interface BrokerWarning {
  /** `queue_differs`, `queue_missing`, `silent_acks`, … */
  code: string
  message: string
  details?: Record<string, unknown>
}
