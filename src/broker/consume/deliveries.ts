/** Deliveries for FETCH: the consumers and buffers of all queues (docs/architecture.md §4.4). */
import type { Clock } from '../../clock.ts'
import type { JobRow } from '../../job/job.ts'
import type { Logger } from '../../logger.ts'
import type { Delivery, Presence, PublishOutcome, TakeRequest } from '../broker.ts'
import type { Connection } from '../connection/connection.ts'
import type { Denials } from '../connection/permissions.ts'
import type { Names } from '../names.ts'
import type { BrokerGauges, BrokerObserver } from '../observer.ts'
import { ConsumerChannel, type ConsumerEnd, isDenied, isQueueGone } from './consumer-channel.ts'
import { LiveDelivery, type Place } from './delivery.ts'
import { Parking } from './parked-deliveries.ts'
import { Feed } from './queue-consumer.ts'
import { QueueLookup } from './queue-lookup.ts'
import { Surplus } from './surplus.ts'
import { FetchLine, feedGauges } from './waiting-fetches.ts'

const SWEEP_MS = 500
/** FETCH may name any queue: above this number, only a queue that is known to exist gets a feed. */
const MAX_FEEDS = 10_000

export interface DeliveriesDeps {
  connection: Connection
  names: Names
  clock: Clock
  logger: Logger
  random: () => number
  observer: BrokerObserver
  denials: Denials
  prefetch: number
  maxConsumerChannels: number
  consumerPriority: number
  idleMs: number
  /** Distinguishes our consumer tags from those of every other process. */
  instance: string
  /** True when the queue was checked or declared since RabbitMQ last started. */
  isReady(queue: string): boolean
  /** True: nothing is taken from the queue. Answers from memory. */
  isPaused(queue: string): boolean
  /** Asks the broker; declares nothing. */
  lookUp(queue: string): Promise<Presence>
  /** RabbitMQ's number of consumers of each of these queues that it can tell, ours included. */
  countConsumers(queues: readonly string[]): Promise<ReadonlyMap<string, number>>
  /** RabbitMQ cancelled a consumer, or answered its consume with 404. */
  onQueueGone(queue: string): void
}

/** Deliveries for FETCH: the consumer channels and the buffer of every queue (docs/architecture.md §4.4). */
export class Deliveries {
  readonly #deps: DeliveriesDeps
  readonly #feeds = new Map<string, Feed>()
  readonly #line: FetchLine
  readonly #parking: Parking
  readonly #lookup: QueueLookup
  readonly #surplus: Surplus
  #arrivals = 0
  #registrations = 0
  #mayConsume = false
  #isStopped = false
  #sweeper: NodeJS.Timeout | undefined

  constructor(deps: DeliveriesDeps) {
    this.#deps = deps
    this.#line = new FetchLine({
      clock: deps.clock,
      isPaused: (queue) => deps.isPaused(queue),
      mayConsume: () => this.#mayConsume,
      feedOf: (queue) => this.#feeds.get(queue),
      touched: (queue) => this.#touched(queue),
      nourish: (feed) => this.#nourish(feed),
    })
    this.#parking = new Parking(deps.clock, (delivery) => this.#rebuffer(delivery))
    this.#lookup = new QueueLookup((queue) => deps.lookUp(queue), deps.clock)
    this.#surplus = new Surplus({
      ...deps,
      wantedOf: (queue) => this.#line.wantedOf(queue),
      giveBack: (feed) => void this.#giveBackSurplus(feed),
    })
    deps.connection.listen({ down: () => this.suspend() })
  }

  /** False until `resume`: another gateway may own the broker. */
  get mayConsume(): boolean {
    return this.#mayConsume
  }

  start(): void {
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_MS)
    this.#sweeper.unref()
  }

  /** The consume connection is up and this gateway owns the broker. */
  resume(): void {
    this.#mayConsume = true
    this.#lookup.forgetAll()
    for (const feed of this.#feeds.values()) {
      feed.forgetFailures()
      this.#nourishIfWanted(feed)
    }
  }

  /** No new consumers until `resume`. */
  suspend(): void {
    this.#mayConsume = false
    for (const feed of this.#feeds.values()) feed.exists = false
  }

  /** Another ledger serves this broker now: unassigned deliveries go back to RabbitMQ. */
  async yield(): Promise<void> {
    this.suspend()
    await Promise.all([...this.#feeds.values()].map((feed) => this.#giveBackUnassigned(feed)))
  }

  /** The queue was declared or checked: fetches that wait for it can be served. */
  queueReady(queue: string): void {
    this.#lookup.forget(queue)
    const feed = this.#line.has(queue) ? this.#feedOf(queue) : this.#feeds.get(queue)
    if (feed) this.#nourishIfWanted(feed)
  }

  /**
   * RabbitMQ has no such queue: end its consumer channels, even if RabbitMQ has not cancelled their
   * consumers.
   */
  queueMissing(queue: string): void {
    const feed = this.#feeds.get(queue)
    if (!feed) return
    feed.exists = false
    for (const consumerChannel of feed.consumerChannels) {
      if (consumerChannel.isIn('running')) this.#deps.observer.consumerCancelled(queue)
      consumerChannel.orphan()
    }
  }

  /** Paused: unassigned deliveries go back. Resumed: the fetches that have waited are served. */
  pauseChanged(queue: string): void {
    if (this.#deps.isPaused(queue)) {
      const feed = this.#feeds.get(queue)
      if (feed) void this.#giveBackUnassigned(feed)
    } else if (this.#line.has(queue)) {
      const feed = this.#feedOf(queue)
      feed.touch()
      this.#line.dispatchSoon(feed)
    }
  }

  take(request: TakeRequest): Promise<Delivery[]> {
    if (this.#isStopped || request.signal.aborted) return Promise.resolve([])
    return this.#line.take(request)
  }

  /** The gateway has published a message to a job queue: a delivery of it may follow. */
  expect({ queue, id, priority }: JobRow, published: Promise<PublishOutcome>): void {
    this.#feeds.get(queue)?.expect(id, { priority, order: ++this.#arrivals }, published)
  }

  putBack(deliveries: readonly Delivery[]): void {
    for (const delivery of deliveries) {
      if (delivery instanceof LiveDelivery && delivery.place === 'out') this.#rebuffer(delivery)
    }
  }

  park(delivery: Delivery, until: number | null): void {
    if (delivery instanceof LiveDelivery && delivery.place === 'out') {
      this.#parking.park(delivery, until)
    }
  }

  unpark(jobId: string): boolean {
    return this.#parking.unpark(jobId)
  }

  /** Unsettled deliveries of the queue in this process: buffered, in use or parked. */
  heldOf(queue: string): number {
    return this.#feeds.get(queue)?.unacked ?? 0
  }

  /** Our consumers of this queue. */
  consumersOf(queue: string): number {
    return this.#feeds.get(queue)?.running ?? 0
  }

  isCrowded(queue: string): boolean {
    const isCrowded = this.#feeds.get(queue)?.isCrowded ?? false
    return isCrowded || this.#deps.connection.isCrowded
  }

  /** Gives unassigned deliveries back in order, then closes every channel, after its last settlement. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#sweeper)
    this.#surplus.stop()
    this.#line.serveAllEmpty()
    this.#parking.unparkAll()
    const feeds = [...this.#feeds.values()]
    await this.yield()
    await Promise.all(
      feeds.flatMap((feed) =>
        [...feed.consumerChannels].map((consumerChannel) => consumerChannel.close()),
      ),
    )
  }

  gauges(): Pick<BrokerGauges, 'consumers' | 'queues'> {
    return feedGauges(this.#feeds, this.#line, this.#deps.isPaused)
  }

  /** The feed of a queue that is being fetched from; undefined: nothing of it may be served. */
  #touched(queue: string): Feed | undefined {
    const mayHold =
      this.#feeds.size < MAX_FEEDS || this.#feeds.has(queue) || this.#deps.isReady(queue)
    if (!mayHold || this.#deps.isPaused(queue)) return undefined
    const feed = this.#feedOf(queue)
    feed.touch()
    if (feed.consumerChannels.size === 0) this.#nourish(feed)
    return feed
  }

  #feedOf(queue: string): Feed {
    const known = this.#feeds.get(queue)
    if (known) return known
    const newConsumerChannel = (feed: Feed) => this.#newConsumerChannel(feed)
    const feed = new Feed({ ...this.#deps, queue, newConsumerChannel })
    this.#feeds.set(queue, feed)
    return feed
  }

  #newConsumerChannel(feed: Feed): ConsumerChannel {
    const { names, instance } = this.#deps
    this.#registrations += 1
    return new ConsumerChannel({
      ...this.#deps,
      queue: feed.queue,
      source: names.jobQueue(feed.queue),
      // Before 3.12.5 RabbitMQ may never wake a consumer of a quorum queue that reuses a tag (#9158).
      tag: `ojs.${instance}.${feed.queue}.${this.#registrations}`,
      sizeBeside: (consumers) => {
        feed.consumersCounted(consumers)
        return feed.prefetchOfNext(this.#line.wantedOf(feed.queue))
      },
      nextOrder: () => ++this.#arrivals,
      onDelivery: (delivery) => this.#onDelivery(feed, delivery),
      onSettled: (delivery, from, how) => this.#onSettled(feed, delivery, from, how),
      onEnd: (consumerChannel, end, lost) => this.#onConsumerEnd(feed, consumerChannel, end, lost),
    })
  }

  #onDelivery(feed: Feed, delivery: LiveDelivery): void {
    this.#deps.observer.consumed(feed.queue, delivery.redelivered)
    this.#buffer(feed, delivery)
    if (this.#mayConsume) this.#line.dispatchSoon(feed)
    // The consumer was being registered when another gateway became the owner.
    else void this.#giveBackUnassigned(feed)
  }

  #onSettled(feed: Feed, delivery: LiveDelivery, from: Place, how: 'ack' | 'dead-letter'): void {
    if (from === 'parked') this.#parking.forget(delivery)
    if (from === 'buffered') feed.buffer.remove(delivery)
    if (how === 'ack') this.#deps.observer.acked(feed.queue)
    else this.#deps.observer.deadLettered(feed.queue)
  }

  #onConsumerEnd(
    feed: Feed,
    consumerChannel: ConsumerChannel,
    end: ConsumerEnd,
    lost: readonly LiveDelivery[],
  ): void {
    const { connection, logger, observer } = this.#deps
    const { queue } = feed
    feed.onConsumerEnd(consumerChannel, end, lost)
    for (const delivery of lost) this.#parking.forget(delivery)
    if (end.why === 'closed' || this.#isStopped) return
    if (lost.length > 0) observer.lost(queue, lost.length)
    if (end.why === 'connection-lost' && !connection.isUp) return
    if (!isDenied(end)) logger.warn({ queue, end, lost: lost.length }, 'a consumer has ended')
    if (end.why === 'cancelled-by-broker') observer.consumerCancelled(queue)
    if (isQueueGone(end)) {
      feed.exists = false
      this.#deps.onQueueGone(queue)
    }
    setTimeout(() => this.#nourishIfWanted(feed), feed.restartDelayMs + 1).unref()
  }

  /** Opens a consumer channel where one is missing; first finds out whether the queue exists. */
  #nourish(feed: Feed): void {
    if (!this.#mayConsume || this.#isStopped || this.#deps.isPaused(feed.queue)) return
    // A delayed restart may fire after the queue became idle; by now the queue may have another feed.
    if (this.#feeds.get(feed.queue) !== feed) return
    feed.exists ||= this.#deps.isReady(feed.queue)
    if (feed.exists) feed.nourish()
    else if (this.#lookup.isPossible(feed.queue)) void this.#lookUp(feed)
  }

  #nourishIfWanted(feed: Feed): void {
    if (this.#line.has(feed.queue) || !feed.isIdle) this.#nourish(feed)
  }

  async #lookUp(feed: Feed): Promise<void> {
    const { queue } = feed
    feed.isLookedUp = true
    try {
      feed.exists = await this.#lookup.ask(queue)
    } catch (error) {
      this.#deps.logger.error({ err: error, queue }, 'queue cannot be looked up')
    }
    feed.isLookedUp = false
    if (feed.exists) this.#nourish(feed)
    else this.#line.reconsider(queue)
  }

  #rebuffer(delivery: LiveDelivery): void {
    const feed = this.#feeds.get(delivery.queue)
    if (!feed || !delivery.isLive()) return
    this.#buffer(feed, delivery)
    this.#line.dispatchSoon(feed)
  }

  #buffer(feed: Feed, delivery: LiveDelivery): void {
    feed.add(delivery)
    this.#surplus.watch(feed)
  }

  #sweep(): void {
    this.#lookup.prune()
    if (this.#mayConsume) this.#surplus.lookAround(this.#feeds.values())
    for (const [queue, feed] of this.#feeds) {
      const isPaused = this.#deps.isPaused(queue)
      if (this.#line.has(queue) && !isPaused) {
        feed.touch()
        this.#nourish(feed)
      }
      if (!feed.isIdle && !isPaused) feed.retireSurplus()
      else if (feed.consumerChannels.size > 0) void this.#giveBackUnassigned(feed)
      else if (!feed.isLookedUp) this.#feeds.delete(queue)
    }
  }

  /**
   * Gives the buffered deliveries of a queue that is not fetched from, or must not be, back to RabbitMQ. Its
   * channels close once no delivery on them is in use.
   */
  async #giveBackUnassigned(feed: Feed): Promise<void> {
    await feed.quieten()
    // A fetch that came meanwhile takes from the buffer; the next sweep handles the rest.
    const isWanted = this.#mayConsume && !feed.isIdle && !this.#deps.isPaused(feed.queue)
    if (!isWanted) this.#giveBack(feed)
  }

  /**
   * Deliveries are buffered that nobody fetches, or not in time. The next fetch opens a smaller consumer
   * channel.
   */
  async #giveBackSurplus(feed: Feed): Promise<void> {
    feed.beModest()
    await feed.quieten()
    this.#giveBack(feed)
    if (this.#line.has(feed.queue)) this.#nourish(feed)
  }

  /** Gives back in order: not before it is sure that no further delivery comes. */
  #giveBack(feed: Feed): void {
    if (!feed.isQuiet) return
    const count = feed.giveBack()
    if (count > 0) this.#deps.observer.givenBack(feed.queue, count)
  }
}
