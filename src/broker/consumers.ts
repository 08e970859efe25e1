/** Everything on the consume connection: the ownership, and the consumers of the owner. */
import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'
import type { Presence } from './broker.ts'
import type { Connection } from './connection/connection.ts'
import type { Denials } from './connection/permissions.ts'
import { withScratchChannel } from './connection/temporary-channel.ts'
import { Deliveries } from './consume/deliveries.ts'
import { SystemConsumer } from './consume/system-consumer.ts'
import { deadLetterOf, scheduledMessageOf } from './consume/system-messages.ts'
import { ControlConsumer } from './control/consumer.ts'
import type { Names } from './names.ts'
import { type BrokerGauges, type BrokerObserver, SILENT_OBSERVER } from './observer.ts'
import type { Arrivals, BrokerOptions, QueueRecords } from './options.ts'
import type { Declarer } from './topology/declarer.ts'
import { lookFor } from './topology/entity.ts'
import { Owner, type OwnerState } from './topology/ownership.ts'
import type { Topology } from './topology/topology.ts'

const PREFETCH = 32
const MAX_CONSUMER_CHANNELS = 64
const IDLE_MS = 2_000

export interface ConsumersDeps {
  connection: Connection
  topology: Topology
  names: Names
  clock: Clock
  logger: Logger
  observer: BrokerObserver
  denials: Denials
  random: () => number
  options: BrokerOptions
  hooks: {
    arrivals: Pick<Arrivals, 'onConsumeUp' | 'onControl' | 'onDeadLetter' | 'onScheduled'>
    queues: Pick<QueueRecords, 'isPaused' | 'onQueueFound'>
  }
  declarer: Declarer
  /**
   * False: the control queue may be dead (`leaderless-queues.ts`); consuming it would cost the connection.
   */
  mayConsumeControl(queue: string): boolean
  /** True when the exchanges and system queues exist. */
  isBaseReady(): boolean
  /** This gateway has become the owner, another one has, or the ownership is unknown. */
  onOwnerChange(): void
}

/**
 * Everything on the consume connection: the claim of ownership and, while this gateway is the owner, the
 * consumers of job queues, control queues, dead letters and native schedules.
 */
export class Consumers {
  readonly deliveries: Deliveries
  readonly control: ControlConsumer
  readonly owner: Owner
  readonly #deps: ConsumersDeps
  readonly #deadLetters: SystemConsumer
  /** Consumes the schedules that native clients have published. */
  readonly #due: SystemConsumer
  #isStopped = false
  /** A system queue was gone, and all of them are about to be declared. */
  #isSystemQueueGone = false

  constructor(deps: ConsumersDeps) {
    this.#deps = deps
    const { hooks, options, declarer } = deps
    const consuming = { ...deps, instance: deps.random().toString(36).slice(2, 10) }
    this.deliveries = new Deliveries({
      ...consuming,
      prefetch: options.prefetch ?? PREFETCH,
      maxConsumerChannels: options.maxConsumerChannels ?? MAX_CONSUMER_CHANNELS,
      consumerPriority: options.consumerPriority,
      idleMs: options.idleMs ?? IDLE_MS,
      isReady: (queue) => declarer.isUsable(queue),
      isPaused: (queue) => hooks.queues.isPaused(queue),
      lookUp: (queue) => this.#lookUp(queue),
      countConsumers: (queues) => this.#countConsumers(queues),
      onQueueGone: (queue) => void declarer.recheckDying(queue),
    })
    const onQueueGone = () => this.#recheckBase()
    this.#deadLetters = new SystemConsumer({
      ...consuming,
      // Silent, because this is not a client's queue and must not appear in the counters.
      observer: SILENT_OBSERVER,
      source: deps.names.deadLetters,
      label: 'ojs.system.dead-letters',
      handle: async (delivery) => {
        await hooks.arrivals.onDeadLetter(deadLetterOf(delivery, deps.names))
        return 'ack'
      },
      onQueueGone,
    })
    this.#due = new SystemConsumer({
      ...consuming,
      source: deps.names.due,
      label: 'ojs.system.due',
      handle: async (delivery) => {
        const verdict = await hooks.arrivals.onScheduled(scheduledMessageOf(delivery))
        return verdict === 'handled' ? 'ack' : 'dead-letter'
      },
      onQueueGone,
    })
    this.control = new ControlConsumer({
      ...consuming,
      mayConsume: (queue) => deps.mayConsumeControl(queue),
      onControl: (message) => hooks.arrivals.onControl(message),
      onQueueGone: (queue) => this.#onControlQueueGone(queue),
      onBacklogConsumed: () => this.#consumeSystem(),
    })
    const { ledgerId } = options
    const shared = ledgerId === undefined ? ledgerId : { ledgerId, exchange: deps.names.members }
    this.owner = new Owner({ ...deps, shared, onChange: (state) => this.#onOwner(state) })
  }

  /** Called after every check of the exchanges and system queues, also long after the connect. */
  baseChecked(isReady: boolean): void {
    if (isReady && this.#isSystemQueueGone) this.#renewSystem()
    this.#consumeSystem()
    if (isReady) this.control.queueReady('default')
  }

  /** The queue and the entities that belong to it were declared or checked. */
  queueReady(queue: string): void {
    this.deliveries.queueReady(queue)
    this.control.queueReady(queue)
  }

  /** Resolves when every delivery is settled or given back. */
  async stop(): Promise<void> {
    this.#isStopped = true
    const consumers = [this.deliveries, this.#deadLetters, this.#due, this.control]
    await Promise.all(consumers.map((consumer) => consumer.stop()))
  }

  gauges(): Pick<BrokerGauges, 'consumers' | 'queues'> {
    const { consumers, queues } = this.deliveries.gauges()
    const others = [this.#deadLetters, this.#due, this.control].flatMap((consumer) =>
      consumer.consumers(),
    )
    return { consumers: [...consumers, ...others], queues }
  }

  #onOwner(state: OwnerState): void {
    if (state === 'owner') void this.#consume()
    else if (state === 'foreign') {
      void this.deliveries.yield()
      this.#deadLetters.suspend()
      this.#due.suspend()
      this.control.suspend()
    }
    this.#deps.onOwnerChange()
  }

  async #consume(): Promise<void> {
    const { connection, hooks, logger } = this.#deps
    const { generation } = connection
    try {
      await hooks.arrivals.onConsumeUp()
    } catch (error) {
      logger.error({ err: error }, 'leases were not extended')
    }
    const isOurs = this.owner.state === 'owner' && !this.#isStopped
    if (!isOurs || generation !== connection.generation) return
    this.deliveries.resume()
    this.control.resume()
    this.#consumeSystem()
  }

  /**
   * Starts the system consumers once this gateway is the owner and the system queues are declared. Dead
   * letters wait for the control backlog: they do not say why a job died; the worker's report does, and may
   * not have been handled yet.
   */
  #consumeSystem(): void {
    if (this.#isStopped || !this.#deps.isBaseReady() || !this.deliveries.mayConsume) return
    this.#due.resume()
    if (this.control.isBacklogConsumed) this.#deadLetters.resume()
  }

  #onControlQueueGone(queue: string): void {
    const { declarer, options } = this.#deps
    if (options.declare === 'never') return
    // The control queue of `default` belongs to the system queues.
    if (declarer.isKnown(queue)) void declarer.recheck(queue)
    else this.#recheckBase()
  }

  #recheckBase(): void {
    const { declarer, options } = this.#deps
    if (options.declare === 'never') return
    this.#isSystemQueueGone = true
    void declarer.recheckAll()
  }

  /**
   * RabbitMQ 3.10 does not cancel the consumer of a deleted quorum queue when the name is declared anew
   * within some 50 ms. That happens when two system queues are deleted in quick succession: the loss of the
   * first makes us declare both. The old consumer would be assigned the second's messages and never get
   * them.
   */
  #renewSystem(): void {
    this.#isSystemQueueGone = false
    this.#due.renew()
    this.#deadLetters.renew()
  }

  #countConsumers(queues: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const { connection, names } = this.#deps
    return withScratchChannel(connection, async (scratch) => {
      const counts = new Map<string, number>()
      for (const queue of queues) {
        const name = names.jobQueue(queue)
        const { presence, consumers } = await lookFor(scratch, { entity: 'queue', name })
        if (presence === 'exists') counts.set(queue, consumers)
      }
      return counts
    })
  }

  async #lookUp(queue: string): Promise<Presence> {
    const { declarer, hooks } = this.#deps
    const wasKnown = declarer.isKnown(queue)
    const presence = await declarer.probe(queue)
    if (presence === 'exists' && !wasKnown) {
      hooks.queues.onQueueFound(queue)
      // Another client declared it: its workers report through the control queue that belongs to it.
      void declarer.ensure(queue)
    }
    return presence
  }
}
