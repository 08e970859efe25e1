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
import { ParkedDeliveries } from './parked-deliveries.ts'
import { QueueConsumer } from './queue-consumer.ts'
import { QueueLookup } from './queue-lookup.ts'
import { Surplus } from './surplus.ts'
import { feedGauges, WaitingFetches } from './waiting-fetches.ts'

const SWEEP_MS = 500
/** FETCH may name any queue: above this number, only a queue that is known to exist gets a queueConsumer. */
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
  readonly #queueConsumers = new Map<string, QueueConsumer>()
  readonly #line: WaitingFetches
  readonly #parking: ParkedDeliveries
  readonly #lookup: QueueLookup
  readonly #surplus: Surplus
  #arrivals = 0
  #registrations = 0
  #mayConsume = false
  #isStopped = false
  #sweeper: NodeJS.Timeout | undefined

  constructor(deps: DeliveriesDeps) {
    this.#deps = deps
    this.#line = new WaitingFetches({
      clock: deps.clock,
      isPaused: (queue) => deps.isPaused(queue),
      mayConsume: () => this.#mayConsume,
      queueConsumerOf: (queue) => this.#queueConsumers.get(queue),
      touched: (queue) => this.#touched(queue),
      nourish: (queueConsumer) => this.#nourish(queueConsumer),
    })
    this.#parking = new ParkedDeliveries(deps.clock, (delivery) => this.#rebuffer(delivery))
    this.#lookup = new QueueLookup((queue) => deps.lookUp(queue), deps.clock)
    this.#surplus = new Surplus({
      ...deps,
      wantedOf: (queue) => this.#line.wantedOf(queue),
      giveBack: (queueConsumer) => void this.#giveBackSurplus(queueConsumer),
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
    for (const queueConsumer of this.#queueConsumers.values()) {
      queueConsumer.forgetFailures()
      this.#nourishIfWanted(queueConsumer)
    }
  }

  /** No new consumers until `resume`. */
  suspend(): void {
    this.#mayConsume = false
    for (const queueConsumer of this.#queueConsumers.values()) queueConsumer.exists = false
  }

  /** Another ledger serves this broker now: unassigned deliveries go back to RabbitMQ. */
  async yield(): Promise<void> {
    this.suspend()
    await Promise.all(
      [...this.#queueConsumers.values()].map((queueConsumer) =>
        this.#giveBackUnassigned(queueConsumer),
      ),
    )
  }

  /** The queue was declared or checked: fetches that wait for it can be served. */
  queueReady(queue: string): void {
    this.#lookup.forget(queue)
    const queueConsumer = this.#line.has(queue)
      ? this.#queueConsumerOf(queue)
      : this.#queueConsumers.get(queue)
    if (queueConsumer) this.#nourishIfWanted(queueConsumer)
  }

  /**
   * RabbitMQ has no such queue: end its consumer channels, even if RabbitMQ has not cancelled their
   * consumers.
   */
  queueMissing(queue: string): void {
    const queueConsumer = this.#queueConsumers.get(queue)
    if (!queueConsumer) return
    queueConsumer.exists = false
    for (const consumerChannel of queueConsumer.consumerChannels) {
      if (consumerChannel.isIn('running')) this.#deps.observer.consumerCancelled(queue)
      consumerChannel.orphan()
    }
  }

  /** Paused: unassigned deliveries go back. Resumed: the fetches that have waited are served. */
  pauseChanged(queue: string): void {
    if (this.#deps.isPaused(queue)) {
      const queueConsumer = this.#queueConsumers.get(queue)
      if (queueConsumer) void this.#giveBackUnassigned(queueConsumer)
    } else if (this.#line.has(queue)) {
      const queueConsumer = this.#queueConsumerOf(queue)
      queueConsumer.touch()
      this.#line.dispatchSoon(queueConsumer)
    }
  }

  take(request: TakeRequest): Promise<Delivery[]> {
    if (this.#isStopped || request.signal.aborted) return Promise.resolve([])
    return this.#line.take(request)
  }

  peek(queue: string, limit: number): Delivery[] {
    return this.#servedConsumer(queue)?.buffer.ahead(limit) ?? []
  }

  takeThese(queue: string, deliveries: readonly Delivery[]): Delivery[] {
    const queueConsumer = this.#servedConsumer(queue)
    if (queueConsumer === undefined) return []
    const left = deliveries.filter(
      (delivery): delivery is LiveDelivery =>
        delivery instanceof LiveDelivery && delivery.place === 'buffered',
    )
    queueConsumer.takeThese(left)
    this.#nourishIfWanted(queueConsumer)
    return left
  }

  /** The gateway has published a message to a job queue: a delivery of it may follow. */
  expect({ queue, id, priority }: JobRow, published: Promise<PublishOutcome>): void {
    this.#queueConsumers.get(queue)?.expect(id, { priority, order: ++this.#arrivals }, published)
  }

  putBack(deliveries: readonly Delivery[]): void {
    for (const delivery of deliveries) {
      if (delivery instanceof LiveDelivery && delivery.place === 'out') this.#rebuffer(delivery)
    }
  }

  park(delivery: Delivery, until: number | null, onReturned?: () => number): void {
    if (!(delivery instanceof LiveDelivery) || delivery.place !== 'out') return
    this.#parking.park(delivery, until)
    const queueConsumer = this.#queueConsumers.get(delivery.queue)
    if (onReturned === undefined || queueConsumer === undefined) return
    queueConsumer.setAside(delivery, onReturned)
    this.#surplus.watch(queueConsumer)
  }

  unpark(jobId: string): boolean {
    return this.#parking.unpark(jobId)
  }

  /** Unsettled deliveries of the queue in this process: buffered, in use or parked. */
  heldOf(queue: string): number {
    return this.#queueConsumers.get(queue)?.unacked ?? 0
  }

  /** Our consumers of this queue. */
  consumersOf(queue: string): number {
    return this.#queueConsumers.get(queue)?.running ?? 0
  }

  isCrowded(queue: string): boolean {
    const isCrowded = this.#queueConsumers.get(queue)?.isCrowded ?? false
    return isCrowded || this.#deps.connection.isCrowded
  }

  /** Gives unassigned deliveries back in order, then closes every channel, after its last settlement. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#sweeper)
    this.#surplus.stop()
    this.#line.serveAllEmpty()
    this.#parking.unparkAll()
    const queueConsumers = [...this.#queueConsumers.values()]
    await this.yield()
    await Promise.all(
      queueConsumers.flatMap((queueConsumer) =>
        [...queueConsumer.consumerChannels].map((consumerChannel) => consumerChannel.close()),
      ),
    )
  }

  gauges(): Pick<BrokerGauges, 'consumers' | 'queues'> {
    return feedGauges(this.#queueConsumers, this.#line, this.#deps.isPaused)
  }

  /** Undefined: there is none, or nothing of it may be served. */
  #servedConsumer(queue: string): QueueConsumer | undefined {
    if (this.#isStopped || this.#deps.isPaused(queue)) return undefined
    return this.#queueConsumers.get(queue)
  }

  /** The queueConsumer of a queue that is being fetched from; undefined: nothing of it may be served. */
  #touched(queue: string): QueueConsumer | undefined {
    const mayHold =
      this.#queueConsumers.size < MAX_FEEDS ||
      this.#queueConsumers.has(queue) ||
      this.#deps.isReady(queue)
    if (!mayHold || this.#deps.isPaused(queue)) return undefined
    const queueConsumer = this.#queueConsumerOf(queue)
    queueConsumer.touch()
    if (queueConsumer.consumerChannels.size === 0) this.#nourish(queueConsumer)
    return queueConsumer
  }

  #queueConsumerOf(queue: string): QueueConsumer {
    const known = this.#queueConsumers.get(queue)
    if (known) return known
    const newConsumerChannel = (queueConsumer: QueueConsumer) =>
      this.#newConsumerChannel(queueConsumer)
    const queueConsumer = new QueueConsumer({ ...this.#deps, queue, newConsumerChannel })
    this.#queueConsumers.set(queue, queueConsumer)
    return queueConsumer
  }

  #newConsumerChannel(queueConsumer: QueueConsumer): ConsumerChannel {
    const { names, instance } = this.#deps
    this.#registrations += 1
    return new ConsumerChannel({
      ...this.#deps,
      queue: queueConsumer.queue,
      source: names.jobQueue(queueConsumer.queue),
      // Before 3.12.5 RabbitMQ may never wake a consumer of a quorum queue that reuses a tag (#9158).
      tag: `ojs.${instance}.${queueConsumer.queue}.${this.#registrations}`,
      sizeBeside: (consumers) => {
        queueConsumer.consumersCounted(consumers)
        this.#surplus.watch(queueConsumer)
        return queueConsumer.prefetchOfNext(this.#line.wantedOf(queueConsumer.queue))
      },
      nextOrder: () => ++this.#arrivals,
      onDelivery: (delivery) => this.#onDelivery(queueConsumer, delivery),
      onSettled: (delivery, from, how) => this.#onSettled(queueConsumer, delivery, from, how),
      onEnd: (consumerChannel, end, lost) =>
        this.#onConsumerEnd(queueConsumer, consumerChannel, end, lost),
    })
  }

  #onDelivery(queueConsumer: QueueConsumer, delivery: LiveDelivery): void {
    this.#deps.observer.consumed(queueConsumer.queue, delivery.redelivered)
    this.#buffer(queueConsumer, delivery)
    if (this.#mayConsume) this.#line.dispatchSoon(queueConsumer)
    // The consumer was being registered when another gateway became the owner.
    else void this.#giveBackUnassigned(queueConsumer)
  }

  #onSettled(
    queueConsumer: QueueConsumer,
    delivery: LiveDelivery,
    from: Place,
    how: 'ack' | 'dead-letter',
  ): void {
    if (from === 'parked') {
      this.#parking.forget(delivery)
      queueConsumer.forgetSetAside(delivery)
    }
    if (from === 'buffered') queueConsumer.buffer.remove(delivery)
    if (how === 'ack') this.#deps.observer.acked(queueConsumer.queue)
    else this.#deps.observer.deadLettered(queueConsumer.queue)
  }

  #onConsumerEnd(
    queueConsumer: QueueConsumer,
    consumerChannel: ConsumerChannel,
    end: ConsumerEnd,
    lost: readonly LiveDelivery[],
  ): void {
    const { connection, logger, observer } = this.#deps
    const { queue } = queueConsumer
    queueConsumer.onConsumerEnd(consumerChannel, end, lost)
    for (const delivery of lost) this.#parking.forget(delivery)
    if (end.why === 'closed' || this.#isStopped) return
    if (lost.length > 0) observer.lost(queue, lost.length)
    if (end.why === 'connection-lost' && !connection.isUp) return
    if (!isDenied(end)) logger.warn({ queue, end, lost: lost.length }, 'a consumer has ended')
    if (end.why === 'cancelled-by-broker') observer.consumerCancelled(queue)
    if (isQueueGone(end)) {
      queueConsumer.exists = false
      this.#deps.onQueueGone(queue)
    }
    setTimeout(() => this.#nourishIfWanted(queueConsumer), queueConsumer.restartDelayMs + 1).unref()
  }

  /** Opens a consumer channel where one is missing; first finds out whether the queue exists. */
  #nourish(queueConsumer: QueueConsumer): void {
    if (!this.#mayConsume || this.#isStopped || this.#deps.isPaused(queueConsumer.queue)) return
    // A delayed restart may fire after the queue became idle; by now the queue may have another queueConsumer.
    if (this.#queueConsumers.get(queueConsumer.queue) !== queueConsumer) return
    queueConsumer.exists ||= this.#deps.isReady(queueConsumer.queue)
    if (queueConsumer.exists) queueConsumer.nourish()
    else if (this.#lookup.isPossible(queueConsumer.queue)) void this.#lookUp(queueConsumer)
  }

  #nourishIfWanted(queueConsumer: QueueConsumer): void {
    if (this.#line.has(queueConsumer.queue) || !queueConsumer.isIdle) this.#nourish(queueConsumer)
  }

  async #lookUp(queueConsumer: QueueConsumer): Promise<void> {
    const { queue } = queueConsumer
    queueConsumer.isLookedUp = true
    try {
      queueConsumer.exists = await this.#lookup.ask(queue)
    } catch (error) {
      this.#deps.logger.error({ err: error, queue }, 'queue cannot be looked up')
    }
    queueConsumer.isLookedUp = false
    if (queueConsumer.exists) this.#nourish(queueConsumer)
    else this.#line.reconsider(queue)
  }

  #rebuffer(delivery: LiveDelivery): void {
    const queueConsumer = this.#queueConsumers.get(delivery.queue)
    if (!queueConsumer || !delivery.isLive()) return
    this.#buffer(queueConsumer, delivery)
    this.#line.dispatchSoon(queueConsumer)
  }

  #buffer(queueConsumer: QueueConsumer, delivery: LiveDelivery): void {
    queueConsumer.add(delivery)
    this.#surplus.watch(queueConsumer)
  }

  #sweep(): void {
    this.#lookup.prune()
    if (this.#mayConsume) this.#surplus.lookAround(this.#queueConsumers.values())
    for (const [queue, queueConsumer] of this.#queueConsumers) {
      const isPaused = this.#deps.isPaused(queue)
      if (this.#line.has(queue) && !isPaused) {
        queueConsumer.touch()
        this.#nourish(queueConsumer)
      }
      if (!queueConsumer.isIdle && !isPaused) queueConsumer.retireSurplus()
      else if (queueConsumer.consumerChannels.size > 0) void this.#giveBackUnassigned(queueConsumer)
      else if (!queueConsumer.isLookedUp) this.#queueConsumers.delete(queue)
    }
  }

  /**
   * Gives the buffered deliveries of a queue that is not fetched from, or must not be, back to RabbitMQ. Its
   * channels close once no delivery on them is in use.
   */
  async #giveBackUnassigned(queueConsumer: QueueConsumer): Promise<void> {
    await queueConsumer.quieten()
    // A fetch that came meanwhile takes from the buffer; the next sweep handles the rest.
    const isWanted =
      this.#mayConsume && !queueConsumer.isIdle && !this.#deps.isPaused(queueConsumer.queue)
    if (!isWanted) this.#giveBack(queueConsumer)
  }

  /**
   * Deliveries are buffered that nobody fetches, or not in time. The next fetch opens a smaller consumer
   * channel.
   */
  async #giveBackSurplus(queueConsumer: QueueConsumer): Promise<void> {
    queueConsumer.beModest()
    await queueConsumer.quieten()
    // While nobody else could start them, what was set aside stays, so that fetches look behind it.
    this.#giveBack(queueConsumer, queueConsumer.isShared)
    const consumeAgain = () => {
      if (this.#line.has(queueConsumer.queue)) this.#nourish(queueConsumer)
    }
    const { restartDelayMs } = queueConsumer
    if (restartDelayMs === 0) consumeAgain()
    else setTimeout(consumeAgain, restartDelayMs + 1).unref()
  }

  /** Gives back in order: not before it is sure that no further delivery comes. */
  #giveBack(queueConsumer: QueueConsumer, withSetAside = true): void {
    if (!queueConsumer.isQuiet) return
    if (withSetAside) for (const delivery of queueConsumer.recall()) this.#parking.forget(delivery)
    const count = queueConsumer.giveBack()
    if (count > 0) this.#deps.observer.givenBack(queueConsumer.queue, count)
  }
}
