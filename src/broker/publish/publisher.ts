/** Confirmed publishes: bounded in flight, each waiting for its own confirm (docs/architecture.md §4.2). */
import type { Clock } from '../../clock.ts'
import { untilDeadline } from '../../lifecycle.ts'
import type { Logger } from '../../logger.ts'
import { partOfHeap } from '../../memory.ts'
import type { PublishOutcome } from '../broker.ts'
import type { Connection } from '../connection/connection.ts'
import type { Denials } from '../connection/permissions.ts'
import type { Outgoing } from '../messages/outgoing-message.ts'
import type { Names } from '../names.ts'
import type { BrokerObserver } from '../observer.ts'
import { ChannelPool, type ChannelPoolDeps } from './channel-pool.ts'
import { type Publication, PublishChannel } from './publish-channel.ts'

/** Most publishes that are unconfirmed or waiting, over all queues. */
const MAX_PENDING = 16_384
/** The same in bytes of body. The heap holds each body a second time, as the text of its row. */
const MAX_PENDING_BYTES = partOfHeap(1 / 4, 256 * 1024 * 1024)
/** The timeout sweep runs no more often than this. */
const MIN_SWEEP_MS = 20

export interface PublisherDeps {
  connection: Connection
  names: Names
  clock: Clock
  logger: Logger
  random: () => number
  observer: BrokerObserver
  denials: Denials
  timeoutMs: number
  /** Publish channels per group. */
  channelCounts?: ChannelPoolDeps['count']
  /** RabbitMQ returned a message of this queue, or of this retry queue of the queue. */
  onReturned(queue: string, retryQueueMs: number | null): void
  /** RabbitMQ did not answer a publish to this queue or retry queue in time. */
  onUnanswered(queue: string, retryQueueMs: number | null): void
  /** Every channel is open (again). */
  onOpen(): void
  /** RabbitMQ closed a publish channel, e.g. with 404 for a missing exchange. */
  onChannelError(code: unknown): void
}

/**
 * Confirmed publishes, streamed: each publish waits for its own confirm only (docs/architecture.md §4.2).
 * `ChannelPool` chooses the channel.
 */
export class Publisher {
  readonly #deps: PublisherDeps
  readonly #publishChannels: ChannelPool
  /** By message id, oldest first. */
  readonly #pending = new Map<string, Publication>()
  #bytes = 0
  /**
   * The largest body that RabbitMQ accepts, once known; a reconnect may change it. RabbitMQ closes the
   * channel for a larger body, which fails every unconfirmed publish on it: this must happen once only.
   */
  #maxBytes = Number.POSITIVE_INFINITY
  #sweeper: NodeJS.Timeout | undefined
  #onEmpty: (() => void) | null = null

  constructor(deps: PublisherDeps) {
    this.#deps = deps
    const { connection, clock, logger, timeoutMs, channelCounts } = deps
    const newPublishChannel: ChannelPoolDeps['newPublishChannel'] = (kind) =>
      this.#newPublishChannel(kind)
    this.#publishChannels = new ChannelPool({
      connection,
      clock,
      logger,
      timeoutMs,
      newPublishChannel,
      count: channelCounts,
    })
    connection.listen({
      down: () => {
        this.#maxBytes = Number.POSITIVE_INFINITY
      },
    })
  }

  get isOpen(): boolean {
    return this.#publishChannels.isOpen
  }

  get pending(): number {
    return this.#pending.size
  }

  /** This job queue, and with it its dead letter queue, is about to be declared. */
  noteNew(queue: string): void {
    const { direct, dlx } = this.#deps.names.exchange
    for (const exchange of [direct, dlx])
      this.#publishChannels.noteNew({ exchange, routingKey: queue })
  }

  isPublishing(id: string): boolean {
    return this.#pending.has(id)
  }

  /** Never rejects. `refused`: not sent, for one of the reasons given in `PublishOutcome`. */
  send(message: Outgoing): Promise<PublishOutcome> {
    if (message.content.length > this.#maxBytes) return Promise.resolve('too-large')
    const isTooMuch =
      this.#pending.size >= MAX_PENDING || this.#bytes + message.content.length > MAX_PENDING_BYTES
    // A second publish with the same id would make a return ambiguous (docs/architecture.md, law 3).
    if (isTooMuch || this.#pending.has(message.id)) return Promise.resolve('refused')
    return new Promise((resolve) => {
      const publication: Publication = {
        id: message.id,
        queue: message.queue,
        retryQueueMs: message.retryQueueMs,
        exchange: message.exchange,
        routingKey: message.routingKey,
        bytes: message.content.length,
        message,
        publishChannel: null,
        resolve,
        // Monotonic, for durations only.
        since: performance.now(),
        isSent: false,
        isReturned: false,
        isSettled: false,
      }
      this.#pending.set(message.id, publication)
      this.#bytes += message.content.length
      this.#sweeper ??= this.#sweepIn(this.#deps.timeoutMs)
      this.#publishChannels.channelFor(message).send(publication)
    })
  }

  /** Resolves when no publish is pending any more, or when the deadline aborts. */
  async drain(deadline: AbortSignal): Promise<void> {
    if (this.#pending.size === 0) return
    const empty = new Promise<void>((resolve) => {
      this.#onEmpty = resolve
    })
    await untilDeadline(empty, deadline)
  }

  stop(): void {
    clearTimeout(this.#sweeper)
  }

  #newPublishChannel({ isProbe }: { isProbe: boolean }): PublishChannel {
    const { observer, denials } = this.#deps
    return new PublishChannel({
      connection: this.#deps.connection,
      logger: this.#deps.logger,
      random: this.#deps.random,
      isProbe,
      onSent: ({ queue }) => observer.published(queue),
      onOutcome: (publication, outcome) => {
        if (isAnswer(outcome)) {
          this.#publishChannels.onAnswered(publication)
          denials.mayPublish(publication.exchange)
        }
        if (outcome === 'nacked') this.#publishChannels.onRefused(publication)
        this.#settle(publication, outcome)
      },
      onReturned: (id) => this.#onReturned(id),
      onOpen: () => {
        if (this.isOpen) this.#deps.onOpen()
      },
      onChannelError: (code) => this.#deps.onChannelError(code),
      onTooLarge: (maxBytes) => this.#onTooLarge(maxBytes),
      onForbidden: (text) => denials.mayNotPublish(text),
    })
  }

  #onTooLarge(maxBytes: number): void {
    if (this.#maxBytes === maxBytes) return
    this.#maxBytes = maxBytes
    const text = 'RabbitMQ has refused a message that is larger than its max_message_size'
    this.#deps.logger.warn({ maxBytes }, text)
  }

  /**
   * The return comes before the confirm. It may belong to an earlier, timed-out publish of the same id: then
   * this one counts as returned too and is published again, which costs a duplicate. Ignoring it could lose a
   * job.
   */
  #onReturned(id: string): void {
    const pending = this.#pending.get(id)
    if (!pending) return
    pending.isReturned = true
    this.#deps.observer.returned(pending.queue)
    this.#deps.onReturned(pending.queue, pending.retryQueueMs)
  }

  #settle(publication: Publication, outcome: PublishOutcome): void {
    if (publication.isSettled) return
    publication.isSettled = true
    this.#pending.delete(publication.id)
    this.#bytes -= publication.bytes
    this.#observe(publication, outcome)
    // The publish channel reopens its channel after a 403: say why. Sent now, the message would close the
    // channel again.
    const isDenied = outcome === 'refused' && this.#deps.denials.isDenied(publication.exchange)
    publication.resolve(isDenied ? 'denied' : outcome)
    if (this.#pending.size === 0) this.#onEmpty?.()
  }

  #observe({ queue, since }: Publication, outcome: PublishOutcome): void {
    const { observer, connection } = this.#deps
    if (outcome === 'confirmed') {
      const latencyMs = performance.now() - since
      connection.latencyMs = latencyMs
      observer.confirmed(queue, latencyMs / 1000)
    } else if (outcome === 'nacked') observer.publishNacked(queue)
    else if (outcome === 'unknown' || outcome === 'forbidden') observer.publishUnknown(queue)
  }

  /** One timer for all: publishes time out in the order in which they came. */
  #sweepIn(delayMs: number): NodeJS.Timeout {
    return setTimeout(() => this.#sweep(), Math.max(delayMs, MIN_SWEEP_MS))
  }

  #sweep(): void {
    this.#sweeper = undefined
    const { timeoutMs } = this.#deps
    const now = performance.now()
    for (const pending of this.#pending.values()) {
      const leftMs = pending.since + timeoutMs - now
      if (leftMs > 0) {
        this.#sweeper = this.#sweepIn(leftMs)
        return
      }
      this.#publishChannels.onOverdue(pending)
      if (pending.isSent) this.#deps.onUnanswered(pending.queue, pending.retryQueueMs)
      this.#settle(pending, pending.isSent ? 'unknown' : 'refused')
    }
  }
}

/** The queue has answered, or the exchange did because the message was unroutable. */
function isAnswer(outcome: PublishOutcome): boolean {
  return outcome === 'confirmed' || outcome === 'nacked' || outcome === 'returned'
}
