/** The consumers of one worker, one for each queue. */
import { RestartDelay } from '../broker/connection/reconnect.ts'
import { withScratchChannel } from '../broker/connection/temporary-channel.ts'
import { ConsumerChannel, type ConsumerEnd } from '../broker/consume/consumer-channel.ts'
import type { LiveDelivery } from '../broker/consume/delivery.ts'
import { lookFor } from '../broker/topology/entity.ts'
import type { AmqpLink, ConsumerGauges } from './connection.ts'

export interface IntakeDeps {
  link: AmqpLink
  /** Unacknowledged deliveries per queue. */
  prefetch: number
  /** How long a drained channel stays open. */
  lingerMs: number
  /** Part of the consumer tags. */
  instance: string
  onDelivery(delivery: LiveDelivery): void
  /** Called with the unsettled deliveries of a channel that is gone. */
  onLost(lost: readonly LiveDelivery[]): void
  /** Called once per attempt if a queue is missing and may not be declared. */
  onError(error: Error): void
}

interface Source {
  readonly queue: string
  /** The consumer channel that consumes; null if none does. */
  consumerChannel: ConsumerChannel | null
  /** Resolves when `consumerChannel` consumes, or cannot. */
  opened: Promise<void>
  /** Resolves when no delivery can come any more from the consumer channels before `consumerChannel`. */
  ended: Promise<void>
  /** All consumer channels: also those without a consumer that wait until their deliveries are settled. */
  readonly consumerChannels: Set<ConsumerChannel>
  isPaused: boolean
  /** Consumes nothing for now, because no slot is free for its deliveries. */
  isResting: boolean
  isOpening: boolean
  openedAt: number
  readonly restartDelay: RestartDelay
  timer: NodeJS.Timeout | undefined
}

/** The consumers of one worker: one per queue, each on its own channel. */
export class Intake {
  readonly #deps: IntakeDeps
  readonly #sources = new Map<string, Source>()
  /** Consumers whose channel RabbitMQ has not confirmed as closed. */
  readonly #open = new Set<ConsumerChannel>()
  #mayOpen = false
  #isStopped = false
  #order = 0
  #registrations = 0

  constructor(deps: IntakeDeps) {
    this.#deps = deps
    deps.link.consume.listen({
      down: () => {
        this.#mayOpen = false
      },
    })
  }

  /** Consumes all queues that are not paused; called after each (re)connect. Never rejects. */
  async open(queues: readonly string[]): Promise<void> {
    this.#mayOpen = true
    for (const queue of queues) this.#source(queue).restartDelay.forgetFailures()
    await Promise.all(queues.map((queue) => this.#start(this.#source(queue))))
  }

  /** Whether the queue has no ready messages or does not exist; false if RabbitMQ does not answer. */
  async isEmpty(queue: string): Promise<boolean> {
    const { consume, names } = this.#deps.link
    const entity = { entity: 'queue', name: names.jobQueue(queue) } as const
    const { presence, ready } = await withScratchChannel(consume, (channel) =>
      lookFor(channel, entity),
    )
    return presence !== 'unavailable' && ready === 0
  }

  /**
   * Stops consuming a queue until `resume`; may be called before `open`. Resolves when no delivery can come
   * any more; false: the queue was resumed meanwhile.
   */
  async pause(queue: string): Promise<boolean> {
    const source = this.#source(queue)
    source.isPaused = true
    clearTimeout(source.timer)
    await this.#end(source)
    return source.isPaused
  }

  async resume(queue: string): Promise<void> {
    const source = this.#source(queue)
    source.isPaused = false
    await this.#start(source)
  }

  /** As `pause`, but until `wake`; false: the queue was woken meanwhile. */
  async rest(queue: string): Promise<boolean> {
    const source = this.#source(queue)
    source.isResting = true
    await this.#end(source)
    return source.isResting
  }

  /** Consumes resting queues again. */
  wake(): void {
    for (const source of this.#sources.values()) {
      if (!source.isResting) continue
      source.isResting = false
      void this.#start(source)
    }
  }

  /** Stops all consumers. Once it has resolved, no delivery can come any more. */
  async quiet(): Promise<void> {
    this.#isStopped = true
    const sources = [...this.#sources.values()]
    for (const { timer } of sources) clearTimeout(timer)
    await Promise.all(sources.map((source) => this.#end(source)))
  }

  /**
   * Closes every channel after its last settlement; RabbitMQ requeues unsettled deliveries. Includes channels
   * that would close by themselves when they are drained: `connection.close` would overtake their last
   * acknowledgements.
   */
  async close(): Promise<void> {
    await Promise.all([...this.#open].map((consumerChannel) => consumerChannel.close()))
  }

  gauges(): ConsumerGauges {
    const sources = [...this.#sources.values()]
    const consumers = sources.flatMap(({ queue, consumerChannels }) =>
      [...consumerChannels].map(({ tag, unacked }) => ({ queue, consumer: tag, unacked })),
    )
    const queues = sources.map(({ queue, consumerChannel }) => ({
      queue,
      buffered: 0,
      waiters: 0,
      utilization: consumerChannel === null ? 0 : consumerChannel.unacked / this.#deps.prefetch,
    }))
    return { consumers, queues }
  }

  #source(queue: string): Source {
    const known = this.#sources.get(queue)
    if (known) return known
    const source: Source = {
      queue,
      consumerChannel: null,
      opened: Promise.resolve(),
      ended: Promise.resolve(),
      consumerChannels: new Set(),
      isPaused: false,
      isResting: false,
      isOpening: false,
      openedAt: 0,
      restartDelay: new RestartDelay(this.#deps.link.random),
      timer: undefined,
    }
    this.#sources.set(queue, source)
    return source
  }

  async #start(source: Source): Promise<void> {
    if (source.isOpening || source.consumerChannel || !this.#mayConsume(source)) return
    source.isOpening = true
    const { link, onError } = this.#deps
    const outcome = await link.declarer.ensure(source.queue)
    source.isOpening = false
    if (!this.#mayConsume(source)) return
    if (outcome === 'ready') await this.#consume(source)
    else {
      onError(new Error(`queue '${source.queue}' cannot be consumed: ${outcome}`))
      this.#startLater(source, 0)
    }
  }

  #mayConsume(source: Source): boolean {
    return this.#mayOpen && !this.#isStopped && !source.isPaused && !source.isResting
  }

  async #consume(source: Source): Promise<void> {
    const { link, prefetch, instance, onDelivery } = this.#deps
    const { queue } = source
    const { observer } = link
    this.#registrations += 1
    const consumerChannel = new ConsumerChannel({
      connection: link.consume,
      queue,
      source: link.names.jobQueue(queue),
      tag: `${instance}-${this.#registrations}`,
      prefetch,
      consumerPriority: 0,
      lingerMs: this.#deps.lingerMs,
      nextOrder: () => ++this.#order,
      onDelivery: (delivery) => {
        observer.consumed(queue, delivery.redelivered)
        onDelivery(delivery)
      },
      onSettled: (_delivery, _from, how) => {
        if (how === 'ack') observer.acked(queue)
        else observer.deadLettered(queue)
      },
      onGivenBack: () => observer.givenBack(queue, 1),
      onEnd: (ended, end, lost) => this.#onEnd(source, ended, end, lost),
    })
    source.consumerChannel = consumerChannel
    source.consumerChannels.add(consumerChannel)
    this.#open.add(consumerChannel)
    source.openedAt = link.clock.now()
    source.opened = consumerChannel.open()
    await source.opened
  }

  /** Cancels the consumer. Resolves when no further delivery can come. The channel stays for settlements. */
  #end(source: Source): Promise<void> {
    const { consumerChannel, opened, ended } = source
    source.consumerChannel = null
    // A second caller waits as long as the first.
    if (consumerChannel)
      source.ended = Promise.all([ended, cancel(consumerChannel, opened)]).then(() => {})
    return source.ended
  }

  #onEnd(
    source: Source,
    consumerChannel: ConsumerChannel,
    end: ConsumerEnd,
    lost: readonly LiveDelivery[],
  ): void {
    const { link, onLost } = this.#deps
    source.consumerChannels.delete(consumerChannel)
    // The consumer channel may be in the middle of its own `close`.
    queueMicrotask(
      () => void consumerChannel.close().then(() => this.#open.delete(consumerChannel)),
    )
    if (lost.length > 0) link.observer.lost(source.queue, lost.length)
    onLost(lost)
    if (source.consumerChannel !== consumerChannel) return
    source.consumerChannel = null
    if (end.why === 'closed' || !link.consume.isUp) return
    if (end.why === 'cancelled-by-broker') link.observer.consumerCancelled(source.queue)
    link.logger.warn({ queue: source.queue, end }, 'consumer ended')
    this.#startLater(source, link.clock.now() - source.openedAt)
  }

  #startLater(source: Source, livedMs: number): void {
    clearTimeout(source.timer)
    source.timer = setTimeout(() => void this.#restart(source), source.restartDelay.after(livedMs))
  }

  async #restart(source: Source): Promise<void> {
    if (!this.#mayConsume(source)) return
    await this.#deps.link.declarer.recheck(source.queue)
    await this.#start(source)
  }
}

async function cancel(consumerChannel: ConsumerChannel, opened: Promise<void>): Promise<void> {
  // A consumer that is still opening cannot be cancelled.
  if (consumerChannel.isIn('opening')) await opened
  await consumerChannel.cancel()
}
