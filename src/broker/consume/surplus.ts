/** Deliveries that nobody here fetches, given back while other consumers want them. */
import type { Clock } from '../../clock.ts'
import type { Logger } from '../../logger.ts'
import type { Feed } from './queue-consumer.ts'

const TICK_MS = 50
/**
 * How long a delivery is held while another consumer is on its queue. With a tick, and with the time in which
 * the consumer is cancelled, it is back in its queue within 250 ms.
 */
const SHARED_HOLD_MS = 150
/** The same when a fetch is about to take it, and waits for more (`GATHERING_MS`). */
const WAITED_HOLD_MS = 250
/**
 * RabbitMQ is asked for other consumers once something was held for so long, and then not more often than
 * that.
 */
const LOOK_AFTER_MS = 100
const LOOK_EVERY_MS = 250
/** How often it is asked about every queue that is consumed: before a burst comes, not when it is held. */
const KNOWN_FOR_MS = 2_000
/** Queues about which RabbitMQ is asked at once. A question takes it 0.2 ms. */
const MAX_LOOKS = 50

export interface SurplusDeps {
  clock: Clock
  logger: Logger
  /** How long a delivery is held that nobody asks for, while no other consumer is on its queue. */
  idleMs: number
  /** How many jobs the fetches that wait for this queue want. */
  wantedOf(queue: string): number
  /** RabbitMQ's number of consumers of each of these queues that it can tell, ours included. */
  countConsumers(queues: readonly string[]): Promise<ReadonlyMap<string, number>>
  giveBack(feed: Feed): void
}

/**
 * Finds deliveries that are buffered for too long. A consumer channel takes as many as its prefetch allows,
 * whoever else waits for them: one slow HTTP worker would keep dozens of jobs from idle native workers. Costs
 * nothing per delivery, and asks RabbitMQ only about queues whose deliveries are not fetched at once.
 */
export class Surplus {
  readonly #deps: SurplusDeps
  /** Feeds that may have something buffered. */
  readonly #holding = new Set<Feed>()
  #timer: NodeJS.Timeout | undefined
  #isLooking = false

  constructor(deps: SurplusDeps) {
    this.#deps = deps
  }

  /** Something was buffered. */
  watch(feed: Feed): void {
    this.#holding.add(feed)
    this.#timer ??= setTimeout(() => this.#tick(), TICK_MS).unref()
  }

  stop(): void {
    this.#holding.clear()
    clearTimeout(this.#timer)
  }

  #tick(): void {
    this.#timer = undefined
    const toLookAt: Feed[] = []
    for (const feed of this.#holding) {
      if (feed.buffer.size === 0) this.#holding.delete(feed)
      else if (this.#isTooLong(feed)) this.#deps.giveBack(feed)
      else if (toLookAt.length < MAX_LOOKS && this.#isDoubtful(feed)) toLookAt.push(feed)
    }
    if (this.#holding.size > 0) this.#timer = setTimeout(() => this.#tick(), TICK_MS).unref()
    void this.#look(toLookAt)
  }

  /** Called now and then with the queues that are consumed. */
  lookAround(feeds: Iterable<Feed>): void {
    const before = this.#deps.clock.now() - KNOWN_FOR_MS
    const toLookAt: Feed[] = []
    for (const feed of feeds) {
      if (toLookAt.length >= MAX_LOOKS) break
      if (feed.consumersAskedAt <= before && feed.room > 0) toLookAt.push(feed)
    }
    void this.#look(toLookAt)
  }

  #isTooLong(feed: Feed): boolean {
    const { idleMs, wantedOf } = this.#deps
    if (!feed.isShared) return feed.hasHeld(idleMs, feed.demand)
    return feed.hasHeld(wantedOf(feed.queue) > 0 ? WAITED_HOLD_MS : SHARED_HOLD_MS)
  }

  #isDoubtful(feed: Feed): boolean {
    const sinceMs = this.#deps.clock.now() - feed.consumersAskedAt
    return sinceMs >= LOOK_EVERY_MS && feed.hasHeld(LOOK_AFTER_MS)
  }

  async #look(feeds: readonly Feed[]): Promise<void> {
    if (feeds.length === 0 || this.#isLooking) return
    this.#isLooking = true
    // Also those that RabbitMQ will not tell about, or they would keep out the others.
    for (const feed of feeds) feed.consumersAskedAt = this.#deps.clock.now()
    try {
      const counts = await this.#deps.countConsumers(feeds.map(({ queue }) => queue))
      for (const feed of feeds) {
        const count = counts.get(feed.queue)
        if (count !== undefined) this.#counted(feed, count)
      }
    } catch (error) {
      this.#deps.logger.debug({ err: error }, 'consumers cannot be counted')
    } finally {
      this.#isLooking = false
    }
  }

  #counted(feed: Feed, count: number): void {
    const wasShared = feed.isShared
    feed.consumersCounted(count)
    const { giveBack, wantedOf } = this.#deps
    if (wasShared || !feed.isShared) return
    if (feed.room > feed.prefetchOfNext(wantedOf(feed.queue))) giveBack(feed)
  }
}
