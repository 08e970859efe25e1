/** Serves fetches from the buffers, or lets them wait for their turn (docs/architecture.md §4.4). */
import type { Clock } from '../../clock.ts'
import type { Delivery, TakeRequest } from '../broker.ts'
import type { BrokerGauges } from '../observer.ts'
import type { LiveDelivery } from './delivery.ts'
import {
  awaitedFeeds,
  beginLingering,
  bridgeMs,
  GATHERING_MS,
  isPreceded,
  nextLookMs,
  PRECEDENCE_MS,
} from './fetch-wait-rules.ts'
import type { QueueConsumer } from './queue-consumer.ts'
import { type Waiter, Waiters, type Wanted } from './waiter.ts'

const MAX_WAIT_MS = 30_000

export interface WaitingFetchesDeps {
  clock: Clock
  isPaused(queue: string): boolean
  /** False: another gateway owns the broker, or it is down. Then only long polls wait. */
  mayConsume(): boolean
  /** The queue's queueConsumer; undefined: there is none. */
  queueConsumerOf(queue: string): QueueConsumer | undefined
  /** The queueConsumer of a queue that is being fetched from; undefined: nothing of it may be served. */
  touched(queue: string): QueueConsumer | undefined
  /** Opens a consumer where one is missing. */
  nourish(queueConsumer: QueueConsumer): void
}

/**
 * Serves fetches from the buffers, or lets them wait: in the order in which they came, each from its queues
 * from left to right, and from a queue by priority (docs/architecture.md §4.4).
 */
export class WaitingFetches {
  readonly #deps: WaitingFetchesDeps
  readonly #waiters = new Waiters((waiter) => this.#takeFor(waiter))
  /** Feeds whose arrivals are about to be handed to waiters. */
  readonly #dispatches = new Set<QueueConsumer>()

  constructor(deps: WaitingFetchesDeps) {
    this.#deps = deps
  }

  /** True when a fetch waits for this queue. */
  has(queue: string): boolean {
    return this.#waiters.has(queue)
  }

  countFor(queue: string): number {
    return this.#waiters.countFor(queue)
  }

  /** How many jobs the fetches that wait for this queue want. */
  wantedOf(queue: string): number {
    let sum = 0
    for (const { count } of this.#waiters.forQueue(queue)) sum += count
    return sum
  }

  waitedFor(): Iterable<string> {
    return this.#waiters.queues()
  }

  serveAllEmpty(): void {
    this.#waiters.serveAllEmpty()
  }

  async take(request: TakeRequest): Promise<Delivery[]> {
    const taken: LiveDelivery[] = []
    const { queues } = request
    const wanted = { ...request, isLongPoll: request.waitMs > 0, since: this.#deps.clock.now() }
    const isPutOff = this.#isPutOff(wanted)
    let isHeldBack = isPutOff
    for (const queue of queues) {
      const queueConsumer = this.#deps.touched(queue)
      if (queueConsumer === undefined) continue
      queueConsumer.asked(request.count)
      const mayTake = !isPutOff && !this.#isPreceded(wanted, queue)
      if (mayTake) queueConsumer.takeInto(taken, request.count, request.takenBytes)
      else if (queueConsumer.buffer.size > 0) {
        isHeldBack = true
        this.dispatchSoon(queueConsumer)
      }
      this.#deps.nourish(queueConsumer)
      if (taken.length >= request.count) break
    }
    if (taken.length > 0) return taken
    const waitMs = this.#waitMs(request, isHeldBack)
    if (waitMs === 0) return []
    const deliveries = await this.#waiters.wait(wanted, waitMs, request.signal)
    for (const queue of queues) this.#deps.queueConsumerOf(queue)?.touch()
    return deliveries
  }

  /** Dispatches after amqplib has parsed the chunk: deliveries that arrived together are served together. */
  dispatchSoon(queueConsumer: QueueConsumer): void {
    if (this.#dispatches.has(queueConsumer)) return
    this.#dispatches.add(queueConsumer)
    queueMicrotask(() => {
      const pauseMs = beginLingering(
        this.#waiters.first(queueConsumer.queue),
        queueConsumer.buffer.size,
      )
      if (pauseMs > 0) setTimeout(() => this.#dispatch(queueConsumer), pauseMs)
      else this.#dispatch(queueConsumer)
    })
  }

  /** The queue does not exist: ends short waits for which no other queue can bring anything. */
  reconsider(queue: string): void {
    for (const waiter of this.#waiters.forQueue(queue)) {
      const hasHope = waiter.queues.some((name) => this.#deps.queueConsumerOf(name)?.mayExist)
      if (!waiter.isLongPoll && !hasHope) this.#waiters.serve(waiter, [])
    }
  }

  #dispatch(queueConsumer: QueueConsumer): void {
    this.#dispatches.delete(queueConsumer)
    if (this.#deps.isPaused(queueConsumer.queue)) return
    while (queueConsumer.buffer.size > 0) {
      const waiter = this.#waiters.first(queueConsumer.queue)
      if (!waiter) return
      const pauseMs = this.#pauseMs(waiter, queueConsumer)
      if (pauseMs > 0) {
        this.#dispatches.add(queueConsumer)
        setTimeout(() => this.#dispatch(queueConsumer), pauseMs)
        return
      }
      this.#waiters.serve(waiter, this.#takeFor(waiter))
    }
    if (this.#waiters.has(queueConsumer.queue)) this.#deps.nourish(queueConsumer)
  }

  #pauseMs(waiter: Waiter, queueConsumer: QueueConsumer): number {
    if (this.#isPreceded(waiter, queueConsumer.queue)) return PRECEDENCE_MS
    return nextLookMs(waiter, this.#awaited(waiter), this.#deps.clock.now())
  }

  /** True: this fetch waits for more jobs, or an earlier one does, to which the buffered jobs belong. */
  #isPutOff(wanted: Wanted): boolean {
    const isOthers = (queue: string) => {
      const waiter = this.#waiters.first(queue)
      return waiter !== undefined && this.#awaited(waiter).length > 0
    }
    if (wanted.queues.some(isOthers)) return true
    return awaitedFeeds(wanted, (queue) => this.#deps.touched(queue)).length > 0
  }

  #awaited(waiter: Waiter): readonly QueueConsumer[] {
    return awaitedFeeds(waiter, (queue) => this.#servedFeed(queue))
  }

  #isPreceded(wanted: Wanted, queue: string): boolean {
    return isPreceded(wanted, queue, (earlier) => this.#servedFeed(earlier))
  }

  #servedFeed(queue: string): QueueConsumer | undefined {
    return this.#deps.isPaused(queue) ? undefined : this.#deps.queueConsumerOf(queue)
  }

  /** Takes what is buffered for this waiter, but not from queues where an earlier waiter waits for more. */
  #takeFor(waiter: Waiter): LiveDelivery[] {
    const taken: LiveDelivery[] = []
    for (const queue of waiter.queues) {
      if (this.#waiters.first(queue) !== waiter) continue
      this.#servedFeed(queue)?.takeInto(taken, waiter.count, waiter.takenBytes)
    }
    return taken
  }

  /** 0: there is nothing to wait for. */
  #waitMs(request: TakeRequest, isHeldBack: boolean): number {
    if (request.takenBytes !== undefined) return isHeldBack ? GATHERING_MS : 0
    if (request.waitMs > 0) return Math.min(request.waitMs, MAX_WAIT_MS)
    if (!this.#deps.mayConsume()) return 0
    return Math.max(...request.queues.map((queue) => this.#bridgeMs(queue, request)))
  }

  #bridgeMs(queue: string, request: TakeRequest): number {
    const queueConsumer = this.#servedFeed(queue)
    return queueConsumer ? bridgeMs(queueConsumer, request.hasClaimable(queue)) : 0
  }
}

/** Gauges of the queues that are consumed for FETCH, and of the paused queues that fetches wait for. */
export function feedGauges(
  queueConsumers: ReadonlyMap<string, QueueConsumer>,
  line: WaitingFetches,
  isPaused: (queue: string) => boolean,
): Pick<BrokerGauges, 'consumers' | 'queues'> {
  const queues = new Set([...queueConsumers.keys(), ...[...line.waitedFor()].filter(isPaused)])
  return {
    consumers: [...queueConsumers.values()].flatMap(({ queue, consumerChannels }) =>
      [...consumerChannels].map(({ tag, unacked }) => ({ queue, consumer: tag, unacked })),
    ),
    queues: [...queues].map((queue) => ({
      queue,
      buffered: queueConsumers.get(queue)?.buffer.size ?? 0,
      waiters: line.countFor(queue),
      utilization: queueConsumers.get(queue)?.utilization ?? 0,
    })),
  }
}
