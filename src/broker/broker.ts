import type { Carry, JobRow } from '../job/job.ts'
import type { ShownProperties } from '../job/request.ts'
import type { Turn } from '../job/turn.ts'

/**
 * What operations and services see of RabbitMQ. Everything behind it lives in this folder, the
 * only importer of amqplib.
 */
export interface Broker {
  /** Cheap; called on every PUSH and FETCH. */
  status(): BrokerStatus

  /** How long RabbitMQ took with the newest publish, or to open a channel for it; null: not known. */
  latencyMs(): number | null

  /**
   * Publishes what `row` owes, mandatory and confirmed, to where its state points:
   *
   * - `retryable` with a `rungMs`: the token of the next attempt, to `ojs.exchange.retry` with key
   *   `{queue}.{rungMs}`.
   * - `scheduled`: the token of the first attempt, to the plugin's `ojs.exchange.delayed` with the
   *   time that remains as `x-delay`.
   * - `discarded`: the copy of the attempt that failed, to `ojs.exchange.dlx` (seed 002 §5.5; only
   *   where there is no delivery that could be nacked).
   * - else: the token of the next attempt, to `ojs.exchange.direct`.
   *
   * Never rejects: what happened is the outcome; `refused` where the rung is not ready. The caller
   * has the row's outbox nonce committed before it calls.
   */
  publish(row: JobRow): Promise<PublishOutcome>

  /**
   * Publishes what no job can be made of to `ojs.exchange.dlx`, mandatory and confirmed. Never
   * rejects: what happened is the outcome.
   */
  publishUnusable(message: Unusable): Promise<PublishOutcome>

  /** A delivery that a worker tells of, as if it had come here. */
  shown(delivery: ShownDelivery): ShownMessage

  /** Of the deliveries that we may hold of this queue few are left: others should not be kept. */
  isCrowded(queue: string): boolean

  /** True when this queue was checked or declared since RabbitMQ was last started, as far as is known. */
  isDeclared(queue: string): boolean

  /** How many tokens are under way to RabbitMQ, unconfirmed or waiting. */
  readonly publishing: number

  /**
   * Checks, and where the strategy allows declares, the queue and what belongs to it; single
   * flight per queue. `missing`: not there and not to be declared by us.
   */
  ensureQueue(queue: string): Promise<EnsureOutcome>

  /** The same, believing nothing that was found out before. */
  recheckQueue(queue: string): Promise<EnsureOutcome>

  /** True when this rung was declared as ours on the present connection: cheap. */
  isRungReady(queue: string, delayMs: number): boolean

  /**
   * Declares the rung `ojs.queue.retry.{queue}.{delayMs}` where that is allowed; single flight per
   * rung. `unusable`: it exists with arguments that are not ours (a classic rung loses messages at
   * a broker crash, architecture §3), it was declared a moment ago (docs/faults.md), `OJS_MAX_RUNGS`
   * is reached, the strategy forbids it, or the broker cannot be asked. The job is then held by the
   * ledger.
   */
  ensureRung(queue: string, delayMs: number): Promise<'ready' | 'unusable'>

  /** The same, believing nothing that was found out before: a publish was returned. */
  recheckRung(queue: string, delayMs: number): Promise<'ready' | 'unusable'>

  /**
   * Reads `ojs.queue.dlx.{queue}` once, acknowledges every copy that `isStale` names, and gives the
   * others back in their order. Null when the queue is not there or the channel was lost; what was
   * acknowledged until then stays so. `isComplete`: the end of the queue was reached within `limit`,
   * of which no more than 65,535 count. `isStale` must not throw. One at a time per queue.
   */
  sweepDeadLetters(
    queue: string,
    limit: number,
    isStale: (copy: DeadLetterCopy) => boolean,
  ): Promise<SweptDeadLetters | null>

  /**
   * After a nack: is the queue gone, or was it within the last seconds? A queue that dies nacks
   * what was on its way into it, as a full one does. The answer may be a second old.
   */
  isQueueGone(queue: string): Promise<boolean>

  /** Is the queue there? Asks the broker, declares nothing. */
  probeQueue(queue: string): Promise<Presence>

  /**
   * How many of `available` jobs have no token according to the last depth sample (ready in the
   * broker + held here, sampled every few seconds, at most 15 s old): 0 unless it is more than
   * max(100, 10 %). Then somebody acknowledges without reporting (architecture §2).
   */
  silentlyAcknowledged(queue: string, available: number): number

  /**
   * Deliveries for a FETCH: at least one, or none when `waitMs` ran out or `signal` aborted.
   * They are unacknowledged and out of every buffer: the caller settles, holds, parks or puts
   * back each of them. Queues are served in order, within a queue by exact priority, then by
   * arrival. Queues that do not exist are skipped.
   */
  take(request: TakeRequest): Promise<Delivery[]>

  /**
   * The queue was paused or resumed (`BrokerHooks.isPaused` says which). Nothing is taken from a
   * paused one: what nobody has goes back to RabbitMQ, and fetches that wait for it go on waiting.
   */
  pauseChanged(queue: string): void

  /** Back to the head of the buffer, for the next fetch. */
  putBack(deliveries: readonly Delivery[]): void

  /**
   * Keeps a delivery unacknowledged until `until` (clock time), or until `unpark` of its job;
   * then it is in the buffer again.
   */
  park(delivery: Delivery, until: number | null): void
  unpark(jobId: string): boolean

  /**
   * To every worker that listens for this queue: `ojs.exchange.direct` with routing key
   * `ojs.control.workers.{queue}`, confirmed, not mandatory (there may be none). Never rejects.
   */
  broadcast(message: Broadcast): Promise<PublishOutcome>

  /**
   * The answer to an RPC, confirmed. `returned`: the asker is gone (of one that asked by
   * `amq.rabbitmq.reply-to` that cannot be told). `refused`: not sent, also where `replyTo` is no
   * address that we publish to: our own names, longer than 255 bytes, control characters. Never
   * rejects.
   */
  reply(message: Reply): Promise<PublishOutcome>

  /**
   * False until what lay in the control queues when the consume connection was made has been
   * settled, at most for 60 s; false too while nothing can be consumed. Until then nobody knows
   * what native workers have done meanwhile (architecture §2, "Restart").
   */
  controlBacklogConsumed(): boolean

  /** Differences between what exists in the broker and what we would declare, and other doubts. */
  warnings(): readonly BrokerWarning[]
}

export type BrokerStatus =
  | { state: 'up' }
  /** `blocked`: memory or disk alarm. `foreign`: another ledger serves this broker and prefix. */
  | { state: 'down' | 'blocked' | 'foreign'; reason: string }

export type PublishOutcome =
  | 'confirmed'
  /** The queue refused it: it is full (`reject-publish`), or died under it (`isQueueGone`). */
  | 'nacked'
  /** No queue took it, or none could be: it may be a dead one, and was not sent. */
  | 'returned'
  /** No confirm in time, or the channel went first: it may or may not have arrived. */
  | 'unknown'
  /** As `unknown`, and the channel went because the user may not publish (403). */
  | 'forbidden'
  /** Larger than RabbitMQ's `max_message_size`: refused, or not even sent. */
  | 'too-large'
  /** Not sent, and the user may not publish there, as RabbitMQ has said of the last that was. */
  | 'denied'
  /** Not sent: no connection, blocked, a rung that is not ready, too many publishes in flight. */
  | 'refused'

/** `unavailable`: the broker cannot be asked at the moment. */
export type Presence = 'exists' | 'missing' | 'unavailable'

export type EnsureOutcome =
  | 'ready'
  /** Not there, and the strategy or a limit forbids declaring it. */
  | 'missing'
  /** Gone with messages that may have been worked on; only an operator may declare it again. */
  | 'lost'
  | 'too-many-queues'
  /** The broker cannot be asked at the moment. */
  | 'unavailable'
  /** 403: the user may not. */
  | 'access-refused'

/** In how many levels a job queue of the broker is ordered: of a higher one first, FIFO in each. */
export interface PriorityOrder {
  /** 1: by arrival alone. */
  levels: number
  /** False: those of a lower level get a share even so. */
  isStrict: boolean
}

/** What a worker showed us as a job, and is none. */
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
   * True while the ledger knows of claimable jobs in this queue, more than `beyond` (default 0):
   * worth a short wait.
   */
  hasClaimable(queue: string, beyond?: number): boolean
  /**
   * Bytes of the jobs that it has already: it goes on with this, and only what is sure to come soon is
   * waited for. Not said: it has none.
   */
  takenBytes?: number
  signal: AbortSignal
}

/**
 * One message from a job queue, bound to the channel that delivered it. Settling answers `lost`
 * when that channel is gone (the broker then delivers the message again); it never touches
 * another channel, so it can never settle another job (law 6).
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
  /** Everything a foreign message brought along; see `message.ts`. Made anew each time it is asked for. */
  readonly message: ForeignMessage
  /** Of the body, in bytes; 0 once it is forgotten. */
  readonly size: number
  /** A look at the body without reading it: false is certain, true may be anything of that name. */
  mayBeLimited(): boolean
  /** What must survive every republish of an adopted message: trace, cleaned headers, … */
  carry(): Carry
  /** The row has the body now: a lease of minutes must not keep it here. */
  forgetContent(): void
  /** True until the channel that delivered it is gone or it was settled. */
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
 * One message of `ojs.system.dead-letters`: the gateway's own copy of what died in the broker. The
 * broker layer acknowledges it when the hook that was given it has settled, and gives it back after
 * a pause when the hook rejected.
 */
export interface DeadLetter extends DeadLetterCopy {
  /** The OJS queue it died in (`x-first-death-queue` / the first `x-death` entry). */
  readonly queue: string
  /**
   * `x-death[0].reason`; `unknown` where there is none (published to the dead letter exchange by
   * hand or by us) or where it is none of the four.
   */
  readonly reason: 'rejected' | 'expired' | 'maxlen' | 'delivery_limit' | 'unknown'
  /** It died in a control queue: what a worker has said, and no job. */
  readonly isControl: boolean
  readonly maxAttempts: number | null
  readonly message: ForeignMessage
  carry(): Carry
}

/**
 * One message of a control queue. The broker layer settles it by what the hook that was given it
 * answers, and gives it back after a pause when the hook rejected.
 */
export interface ControlMessage {
  /** The OJS queue whose control queue it came by. */
  readonly queue: string
  /** '' when it has none. */
  readonly type: string
  readonly content: Buffer
  readonly redelivered: boolean
  /** It died in its queue, and what was said after it may have been heard before. */
  readonly isLate?: boolean
  /** Null: it names no address, or none that we publish to (see `Broker.reply`). */
  readonly replyTo: string | null
  readonly correlationId: string | null
}

/** `malformed`: `basic.nack requeue=false`, to the dead letters of the queue that it came by. */
export type ControlVerdict = 'handled' | 'malformed'

/**
 * One message of `ojs.system.due`: what a native client has published to `ojs.exchange.delayed`
 * (seed 002 §9.1.2). The broker layer settles it by what the hook that was given it answers.
 */
export interface ScheduledMessage extends DeadLetterCopy {
  /** The routing key: the OJS queue that it is for, if it is a name of one. */
  readonly queue: string
  readonly maxAttempts: number | null
  readonly message: ForeignMessage
  carry(): Carry
}

/** A delivery that a worker tells of; nobody has looked at what is in it. */
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
