import { Block, type BlockEnd } from '../broker/block.ts'
import type { LiveDelivery } from '../broker/delivery.ts'
import { lookFor } from '../broker/entity.ts'
import { RestartDelay } from '../broker/reconnect.ts'
import { withScratchChannel } from '../broker/scratch-channel.ts'
import type { AmqpLink, ConsumerGauges } from './link.ts'

export interface IntakeDeps {
  link: AmqpLink
  /** Unacknowledged deliveries per queue. */
  prefetch: number
  /** How long a drained channel stays open. */
  lingerMs: number
  /** Part of the consumer tags. */
  instance: string
  onDelivery(delivery: LiveDelivery): void
  /** Unsettled ones whose channel is gone. */
  onLost(lost: readonly LiveDelivery[]): void
  /** A queue is not there and may not be declared; told once per attempt. */
  onError(error: Error): void
}

interface Source {
  readonly queue: string
  /** The one that consumes; null: none does. */
  block: Block | null
  /** Resolves when that one consumes, or cannot. */
  opened: Promise<void>
  /** Resolves when nothing comes any more from those before that one. */
  ended: Promise<void>
  /** Those that only wait for their deliveries to be settled too. */
  readonly blocks: Set<Block>
  isPaused: boolean
  /** No slot is free for what it would bring. */
  isResting: boolean
  isOpening: boolean
  openedAt: number
  readonly restartDelay: RestartDelay
  timer: NodeJS.Timeout | undefined
}

/** The consumers of one worker: one per queue, each on a channel of its own. */
export class Intake {
  readonly #deps: IntakeDeps
  readonly #sources = new Map<string, Source>()
  /** Until the broker has confirmed their end. */
  readonly #open = new Set<Block>()
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

  /** Everything that is not paused; after each (re)connect. Rejects for nothing. */
  async open(queues: readonly string[]): Promise<void> {
    this.#mayOpen = true
    for (const queue of queues) this.#source(queue).restartDelay.forgetFailures()
    await Promise.all(queues.map((queue) => this.#start(this.#source(queue))))
  }

  /** The broker has nothing more of it for anybody, or has it no more; false where nobody answers. */
  async isEmpty(queue: string): Promise<boolean> {
    const { consume, names } = this.#deps.link
    const entity = { entity: 'queue', name: names.jobQueue(queue) } as const
    const { presence, ready } = await withScratchChannel(consume, (it) => lookFor(it, entity))
    return presence !== 'unavailable' && ready === 0
  }

  /**
   * Consumes nothing more of it until `resume`; also before it was opened. Resolves when nothing
   * comes any more; false: it was resumed meanwhile.
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

  /** As `pause`, until `wake`; false: it was woken meanwhile. */
  async rest(queue: string): Promise<boolean> {
    const source = this.#source(queue)
    source.isResting = true
    await this.#end(source)
    return source.isResting
  }

  /** Those that rest are consumed again. */
  wake(): void {
    for (const source of this.#sources.values()) {
      if (!source.isResting) continue
      source.isResting = false
      void this.#start(source)
    }
  }

  /** No delivery comes any more once this has resolved. */
  async quiet(): Promise<void> {
    this.#isStopped = true
    const sources = [...this.#sources.values()]
    for (const { timer } of sources) clearTimeout(timer)
    await Promise.all(sources.map((source) => this.#end(source)))
  }

  /**
   * Every channel is closed, after what was settled on it; what is unsettled is the broker's again.
   * Also those that close by themselves when they are drained: `connection.close` would overtake
   * their last acknowledgements.
   */
  async close(): Promise<void> {
    await Promise.all([...this.#open].map((block) => block.close()))
  }

  gauges(): ConsumerGauges {
    const sources = [...this.#sources.values()]
    const consumers = sources.flatMap(({ queue, blocks }) =>
      [...blocks].map(({ tag, unacked }) => ({ queue, consumer: tag, unacked })),
    )
    const queues = sources.map(({ queue, block }) => ({
      queue,
      buffered: 0,
      waiters: 0,
      utilization: block === null ? 0 : block.unacked / this.#deps.prefetch,
    }))
    return { consumers, queues }
  }

  #source(queue: string): Source {
    const known = this.#sources.get(queue)
    if (known) return known
    const source: Source = {
      queue,
      block: null,
      opened: Promise.resolve(),
      ended: Promise.resolve(),
      blocks: new Set(),
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
    if (source.isOpening || source.block || !this.#mayConsume(source)) return
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
    const block = new Block({
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
    source.block = block
    source.blocks.add(block)
    this.#open.add(block)
    source.openedAt = link.clock.now()
    source.opened = block.open()
    await source.opened
  }

  /** Resolves when no further delivery can come; it stays open for settlements. */
  #end(source: Source): Promise<void> {
    const { block, opened, ended } = source
    source.block = null
    // Whoever ends it a second time waits as long.
    if (block) source.ended = Promise.all([ended, cancel(block, opened)]).then(() => {})
    return source.ended
  }

  #onEnd(source: Source, block: Block, end: BlockEnd, lost: readonly LiveDelivery[]): void {
    const { link, onLost } = this.#deps
    source.blocks.delete(block)
    // This may be the middle of its close.
    queueMicrotask(() => void block.close().then(() => this.#open.delete(block)))
    if (lost.length > 0) link.observer.lost(source.queue, lost.length)
    onLost(lost)
    if (source.block !== block) return
    source.block = null
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

async function cancel(block: Block, opened: Promise<void>): Promise<void> {
  // An opening consumer cannot be cancelled.
  if (block.isIn('opening')) await opened
  await block.cancel()
}
