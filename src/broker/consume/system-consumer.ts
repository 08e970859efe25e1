/** Consumes a queue of the gateway's own: dead letters, native schedules. */
import type { Clock } from '../../clock.ts'
import { isHopeless } from '../../errors.ts'
import type { Logger } from '../../logger.ts'
import type { Connection } from '../connection/connection.ts'
import type { Denials } from '../connection/permissions.ts'
import { isInTime, pauseBeforeAgain, RestartDelay } from '../connection/reconnect.ts'
import type { BrokerGauges, BrokerObserver } from '../observer.ts'
import { ConsumerChannel, type ConsumerEnd, isDenied, isQueueGone } from './consumer-channel.ts'
import type { LiveDelivery } from './delivery.ts'
import { UnresponsiveQueues } from './unresponsive-queues.ts'

/** Also how many messages are handled at the same time. */
const PREFETCH = 64
/**
 * A quorum queue without a majority of its nodes answers no consume; some 15 s later RabbitMQ ends the
 * connection (541), and with it the deliveries of every queue.
 */
const ANSWER_MS = 5_000

export interface SystemConsumerDeps {
  connection: Connection
  clock: Clock
  logger: Logger
  observer: BrokerObserver
  denials: Denials
  random: () => number
  /** Distinguishes our consumer tags from those of every other process. */
  instance: string
  /** Name of the queue in the broker. */
  source: string
  /** Its name without a prefix, for logs and counters. OJS queue names never begin with `ojs.`. */
  label: `ojs.system.${string}`
  /** Decides how to settle the message; on a rejection, the message is given back after a pause. */
  handle(delivery: LiveDelivery): Promise<'ack' | 'dead-letter'>
  /** The queue was deleted, and its bindings with it. */
  onQueueGone(): void
}

/**
 * Consumes one of the gateway's own queues while it owns the broker: `ojs.system.dead-letters`, its copy of
 * what dies in the broker, or `ojs.system.due`, where native schedules arrive. One consumer; each message is
 * settled when its own hook has settled, whatever came before it.
 */
export class SystemConsumer {
  readonly #deps: SystemConsumerDeps
  readonly #restartDelay: RestartDelay
  readonly #doubts: UnresponsiveQueues
  readonly #handling = new Set<Promise<void>>()
  readonly #stopping = new AbortController()
  #consumerChannel: ConsumerChannel | null = null
  #isWanted = false
  #startedAt = 0
  #registrations = 0
  #restart: NodeJS.Timeout | undefined

  constructor(deps: SystemConsumerDeps) {
    this.#deps = deps
    this.#restartDelay = new RestartDelay(deps.random)
    this.#doubts = new UnresponsiveQueues(deps.clock)
    deps.connection.listen({
      down: (reason) => {
        this.#doubts.connectionEnded(reason)
        this.suspend()
      },
    })
  }

  /** This gateway owns the broker, and the queue was ensured. */
  resume(): void {
    if (this.#isWanted || this.#stopping.signal.aborted) return
    this.#isWanted = true
    this.#restartDelay.forgetFailures()
    this.#open()
  }

  /** Consumes nothing new until `resume`; messages already received are handled to the end. */
  suspend(): void {
    this.#isWanted = false
    clearTimeout(this.#restart)
    void this.#consumerChannel?.cancel()
  }

  /**
   * Replaces the consumer, because the queue may have been declared anew without the consumer being
   * cancelled. Messages being handled are redelivered, as after a lost connection.
   */
  renew(): void {
    this.#consumerChannel?.orphan()
  }

  /** First finishes the messages that are being handled. */
  async stop(): Promise<void> {
    this.#isWanted = false
    clearTimeout(this.#restart)
    this.#stopping.abort()
    await this.#consumerChannel?.cancel()
    while (this.#handling.size > 0) await Promise.all(this.#handling)
    await this.#consumerChannel?.close()
  }

  consumers(): BrokerGauges['consumers'] {
    const consumerChannel = this.#consumerChannel
    const { label } = this.#deps
    return consumerChannel
      ? [{ queue: label, consumer: consumerChannel.tag, unacked: consumerChannel.unacked }]
      : []
  }

  #open(): void {
    // A consumer channel that is still draining is replaced when it has ended.
    if (this.#consumerChannel || !this.#isWanted) return
    const aloneMs = this.#doubts.leftAloneMs(this.#deps.source)
    if (aloneMs > 0) {
      this.#openIn(aloneMs)
      return
    }
    const consumerChannel = this.#newConsumerChannel()
    this.#consumerChannel = consumerChannel
    const opened = consumerChannel.open().then(() => {
      this.#startedAt = this.#deps.clock.now()
      // A refused consume is an answer too; the end of the connection is none.
      if (consumerChannel.wasAccepted || this.#deps.connection.isUp)
        this.#doubts.clear(this.#deps.source)
      // Suspended before RabbitMQ accepted the consumer.
      if (!this.#isWanted) void consumerChannel.cancel()
    })
    void this.#doubtUnlessAnswered(opened)
  }

  async #doubtUnlessAnswered(opened: Promise<void>): Promise<void> {
    if (await isInTime(opened, ANSWER_MS)) return
    const { label, logger, source } = this.#deps
    const forMs = this.#doubts.add(source)
    logger.warn({ queue: label, forMs }, 'system queue does not answer; it is tried again later')
  }

  #newConsumerChannel(): ConsumerChannel {
    const { instance, label, source } = this.#deps
    this.#registrations += 1
    return new ConsumerChannel({
      ...this.#deps,
      queue: label,
      source,
      tag: `ojs.${instance}.${label.slice('ojs.system.'.length)}.${this.#registrations}`,
      prefetch: PREFETCH,
      consumerPriority: 0,
      // Messages are handled as they come: there is no order to keep.
      nextOrder: () => 0,
      onDelivery: (delivery) => this.#onDelivery(delivery),
      onSettled: () => {},
      onEnd: (consumerChannel, end) => this.#onEnd(consumerChannel, end),
    })
  }

  #onDelivery(delivery: LiveDelivery): void {
    this.#deps.observer.consumed(this.#deps.label, delivery.redelivered)
    delivery.place = 'out'
    const handling = this.#handle(delivery).finally(() => this.#handling.delete(handling))
    this.#handling.add(handling)
  }

  async #handle(delivery: LiveDelivery): Promise<void> {
    const { label, observer } = this.#deps
    const how = await this.#decide(delivery)
    if (how === 'again') {
      await pauseBeforeAgain(this.#stopping.signal)
      delivery.giveBack()
      return
    }
    if (delivery.consumerChannel.settle(delivery, how) !== 'settled') return
    if (how === 'ack') observer.acked(label)
    else observer.deadLettered(label)
  }

  async #decide(delivery: LiveDelivery): Promise<'ack' | 'dead-letter' | 'again'> {
    const { handle, label, logger } = this.#deps
    try {
      return await handle(delivery)
    } catch (error) {
      const fields = { err: error, queue: label, jobId: delivery.id }
      if (!isHopeless(error) || !delivery.redelivered) {
        logger.warn(fields, 'system message could not be handled; RabbitMQ delivers it again')
        return 'again'
      }
      // `PREFETCH` such messages, redelivered for ever, would block the queue.
      logger.error(fields, 'system message could not be handled again; it is dead-lettered')
      return 'dead-letter'
    }
  }

  #onEnd(consumerChannel: ConsumerChannel, end: ConsumerEnd): void {
    const { connection, label, logger } = this.#deps
    if (this.#consumerChannel === consumerChannel) this.#consumerChannel = null
    if (!this.#isWanted) return
    if (end.why === 'closed') {
      // The consumer channel was drained after a `suspend`, and `resume` was called since.
      this.#open()
      return
    }
    if (end.why === 'connection-lost' && !connection.isUp) return
    if (!isDenied(end))
      logger.warn({ end, queue: label }, 'the consumer of a system queue has ended')
    if (isQueueGone(end)) this.#deps.onQueueGone()
    const livedMs = consumerChannel.wasAccepted ? this.#deps.clock.now() - this.#startedAt : 0
    this.#openIn(this.#restartDelay.after(livedMs))
  }

  #openIn(delayMs: number): void {
    clearTimeout(this.#restart)
    this.#restart = setTimeout(() => this.#open(), delayMs)
    this.#restart.unref()
  }
}
