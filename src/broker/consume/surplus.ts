/** Deliveries that nobody here fetches, given back while other consumers want them. */
import type { Clock } from '../../clock.ts'
import type { Logger } from '../../logger.ts'
import type { QueueConsumer } from './queue-consumer.ts'

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
  giveBack(queueConsumer: QueueConsumer): void
}

/**
 * Finds deliveries that are buffered, or set aside beside other consumers, for too long. A consumer channel takes
 * as many as its prefetch allows, whoever else waits for them: one slow HTTP worker would keep dozens of jobs
 * from idle native workers. Costs nothing per delivery, and asks RabbitMQ only about queues whose deliveries are
 * not fetched at once.
 */
export class Surplus {
  readonly #deps: SurplusDeps
  /** Those that may have something buffered, or set aside beside other consumers. */
  readonly #holding = new Set<QueueConsumer>()
  #timer: NodeJS.Timeout | undefined
  #isLooking = false

  constructor(deps: SurplusDeps) {
    this.#deps = deps
  }

  /** Something was buffered or set aside, or others have come who could start what was set aside. */
  watch(queueConsumer: QueueConsumer): void {
    this.#holding.add(queueConsumer)
    this.#timer ??= setTimeout(() => this.#tick(), TICK_MS).unref()
  }

  stop(): void {
    this.#holding.clear()
    clearTimeout(this.#timer)
  }

  #tick(): void {
    this.#timer = undefined
    const toLookAt: QueueConsumer[] = []
    for (const queueConsumer of this.#holding) {
      if (!isHolding(queueConsumer)) this.#holding.delete(queueConsumer)
      else if (this.#isTooLong(queueConsumer)) this.#deps.giveBack(queueConsumer)
      else if (toLookAt.length < MAX_LOOKS && this.#isDoubtful(queueConsumer))
        toLookAt.push(queueConsumer)
    }
    if (this.#holding.size > 0) this.#timer = setTimeout(() => this.#tick(), TICK_MS).unref()
    void this.#look(toLookAt)
  }

  /** Called now and then with the queues that are consumed. */
  lookAround(queueConsumers: Iterable<QueueConsumer>): void {
    const before = this.#deps.clock.now() - KNOWN_FOR_MS
    const toLookAt: QueueConsumer[] = []
    for (const queueConsumer of queueConsumers) {
      if (toLookAt.length >= MAX_LOOKS) break
      const mayHoard = queueConsumer.room > 0 || queueConsumer.setAsideCount > 0
      if (queueConsumer.consumersAskedAt <= before && mayHoard) toLookAt.push(queueConsumer)
    }
    void this.#look(toLookAt)
  }

  #isTooLong(queueConsumer: QueueConsumer): boolean {
    const { idleMs, wantedOf } = this.#deps
    if (!queueConsumer.isShared) return queueConsumer.hasHeld(idleMs, queueConsumer.demand)
    if (queueConsumer.hasSetAside(SHARED_HOLD_MS)) return true
    return queueConsumer.hasHeld(
      wantedOf(queueConsumer.queue) > 0 ? WAITED_HOLD_MS : SHARED_HOLD_MS,
    )
  }

  #isDoubtful(queueConsumer: QueueConsumer): boolean {
    const sinceMs = this.#deps.clock.now() - queueConsumer.consumersAskedAt
    return sinceMs >= LOOK_EVERY_MS && queueConsumer.hasHeld(LOOK_AFTER_MS)
  }

  async #look(queueConsumers: readonly QueueConsumer[]): Promise<void> {
    if (queueConsumers.length === 0 || this.#isLooking) return
    this.#isLooking = true
    // Also those that RabbitMQ will not tell about, or they would keep out the others.
    for (const queueConsumer of queueConsumers)
      queueConsumer.consumersAskedAt = this.#deps.clock.now()
    try {
      const counts = await this.#deps.countConsumers(queueConsumers.map(({ queue }) => queue))
      for (const queueConsumer of queueConsumers) {
        const count = counts.get(queueConsumer.queue)
        if (count !== undefined) this.#counted(queueConsumer, count)
      }
    } catch (error) {
      this.#deps.logger.debug({ err: error }, 'consumers cannot be counted')
    } finally {
      this.#isLooking = false
    }
  }

  #counted(queueConsumer: QueueConsumer, count: number): void {
    const wasShared = queueConsumer.isShared
    queueConsumer.consumersCounted(count)
    const { giveBack, wantedOf } = this.#deps
    if (wasShared || !queueConsumer.isShared) return
    this.watch(queueConsumer)
    if (queueConsumer.room > queueConsumer.prefetchOfNext(wantedOf(queueConsumer.queue)))
      giveBack(queueConsumer)
  }
}

/** Without another consumer, nobody could start what was set aside. */
function isHolding({ buffer, isShared, setAsideCount }: QueueConsumer): boolean {
  return buffer.size > 0 || (isShared && setAsideCount > 0)
}
