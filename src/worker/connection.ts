/** The RabbitMQ side of a native worker or producer, built from the gateway's parts. */
import type { PublishOutcome } from '../broker/broker.ts'
import { Connection } from '../broker/connection/connection.ts'
import { connectionGauges } from '../broker/connection/connections.ts'
import { Denials } from '../broker/connection/permissions.ts'
import { Opening } from '../broker/connection/wait-until-open.ts'
import { DirectRpc, type RpcReply } from '../broker/control/rpc-client.ts'
import { outgoingControl } from '../broker/messages/control-message.ts'
import { createNames, type Names } from '../broker/names.ts'
import type { BrokerGauges, BrokerObserver, ConnectionName } from '../broker/observer.ts'
import { SILENT_OBSERVER } from '../broker/observer.ts'
import { Publisher } from '../broker/publish/publisher.ts'
import { rechecksBy } from '../broker/recheck-after-publish.ts'
import { Declarer } from '../broker/topology/declarer.ts'
import { EntityChecker } from '../broker/topology/entity-checker.ts'
import { RetryQueues } from '../broker/topology/retry-queues.ts'
import { loadTopology } from '../broker/topology/topology.ts'
import { type Clock, systemClock } from '../clock.ts'
import { untilDeadline } from '../lifecycle.ts'
import type { Logger } from '../logger.ts'
import { uuid7 } from '../uuid.ts'
import type { LinkOptions } from './options.ts'
import { joinMetrics } from './shared-metrics.ts'

/** Gauges that only the owner of the consumers can read. */
export type ConsumerGauges = Pick<BrokerGauges, 'consumers' | 'queues'>

export interface LinkHooks {
  /** Sends `ojs.control.sync` for a queue or one of its retry queues: a gateway declares what is missing. */
  askForQueue(queue: string, retryQueueMs?: number): Promise<unknown>
  gauges(): ConsumerGauges
}

/**
 * The RabbitMQ side of a native worker or producer, built from the gateway's own parts. Two connections: one
 * for everything that publishes, including questions, and one that never publishes and so can still consume
 * and declare under an alarm (docs/architecture.md §4.1).
 */
export class AmqpLink {
  readonly options: LinkOptions
  readonly clock: Clock = systemClock()
  readonly random: () => number = Math.random
  readonly logger: Logger
  readonly names: Names
  readonly observer: BrokerObserver
  readonly publish: Connection
  /** Consumes and declares; never publishes. */
  readonly consume: Connection
  readonly declarer: Declarer
  readonly retryQueues: RetryQueues
  readonly publisher: Publisher
  readonly rpc: DirectRpc
  readonly #opening = new Opening()
  #leaveMetrics: () => void = () => undefined

  /** Does not connect yet. Throws if the topology file is unusable. */
  constructor(options: LinkOptions, hooks: LinkHooks) {
    this.options = options
    const { logger } = options
    this.logger = logger
    this.names = createNames(options.prefix)
    const topology = loadTopology(options)
    this.observer = this.#observe(hooks)
    this.publish = this.#newConnection('publish')
    this.consume = this.#newConnection('consume')
    const checker = new EntityChecker({ options, observer: this.observer, logger })
    const shared = { names: this.names, logger, clock: this.clock, checker, topology }
    this.declarer = new Declarer({
      ...shared,
      connection: this.consume,
      options: { declare: options.declare, queues: [], maxQueues: Number.POSITIVE_INFINITY },
      hooks: {
        queues: {
          recordedQueues: () => [],
          // The queue's job messages are gone with it. A gateway commits a new outbox for their jobs before
          // it declares the queue (docs/architecture.md §2, "Queue missing"). If this process declared it
          // first, no gateway would notice the loss.
          onQueueMissing: async (queue) => {
            await hooks.askForQueue(queue)
            return 'declare'
          },
        },
      },
      onDeclare: (queue) => this.publisher.noteNew(queue),
    })
    this.retryQueues = new RetryQueues({
      ...shared,
      connection: this.consume,
      options,
      // The gateway records a retry queue when a report names it.
      hooks: {
        queues: {
          recordedRetryQueues: () => [],
          onRetryQueueDeclared: nothing,
          onRetryQueueMissing: nothing,
        },
      },
      ensureQueue: (queue) => this.declarer.ensure(queue),
      // The gateway checks its retry queues more often than this process tries again. If this process
      // declared a missing retry queue, no gateway would notice that the job messages in the old one are
      // gone.
      leavesMissing: true,
      // For the same reason, also a retry queue that only other processes have used so far.
      askForRetryQueue: (queue, delayMs) => hooks.askForQueue(queue, delayMs),
    })
    this.publisher = new Publisher({
      names: this.names,
      logger,
      random: this.random,
      observer: this.observer,
      denials: new Denials(logger, this),
      connection: this.publish,
      clock: this.clock,
      timeoutMs: options.publishTimeoutMs,
      ...rechecksBy(this.declarer, this.retryQueues),
      onOpen: () => this.#opening.opened(),
    })
    this.rpc = new DirectRpc(this.publish, logger)
  }

  /** Connects. Resolves after the first attempt of both connections, whether or not they are up. */
  async start(): Promise<void> {
    this.retryQueues.start()
    await Promise.all([this.publish.start(), this.consume.start()])
  }

  /** Waits until something can be published. False: that is still impossible after `waitMs`. */
  untilPublishing(waitMs: number): Promise<boolean> {
    return this.#opening.untilOpen(this.publisher, waitMs)
  }

  /** Publishes a control message: persistent, mandatory, confirmed. Never rejects. */
  tell(queue: string, type: string, body: string): Promise<PublishOutcome> {
    const message = { id: uuid7(), queue, type, body }
    return this.publisher.send(outgoingControl(this.names, message, this.clock.wall()))
  }

  /** Publishes a control message as a question, and resolves with the answer. Never rejects. */
  ask(queue: string, type: string, body: object, timeoutMs: number): Promise<RpcReply> {
    const message = { id: uuid7(), queue, type, body: JSON.stringify(body) }
    return this.rpc.ask(outgoingControl(this.names, message, this.clock.wall()), timeoutMs)
  }

  /** Ends both connections when all publishes are confirmed, or at the deadline. */
  async stop(deadline: AbortSignal): Promise<void> {
    await this.publisher.drain(deadline)
    this.#opening.end()
    this.publisher.stop()
    this.declarer.stop()
    this.retryQueues.stop()
    await untilDeadline(this.rpc.close(), deadline)
    await Promise.all([this.publish.close(deadline), this.consume.close(deadline)])
    this.#leaveMetrics()
  }

  #newConnection(name: ConnectionName): Connection {
    const { urls, connectionName, logger } = this.options
    return new Connection({
      name,
      urls,
      connectionName: `${connectionName} ${name}`,
      logger,
      random: this.random,
      observer: this.observer,
    })
  }

  #observe(hooks: LinkHooks): BrokerObserver {
    const { registry } = this.options
    if (registry === null) return SILENT_OBSERVER
    const read = () => ({ ...this.#gauges(), ...hooks.gauges() })
    const { observer, leave } = joinMetrics(registry, read)
    this.#leaveMetrics = leave
    return observer
  }

  #gauges(): Omit<BrokerGauges, 'consumers' | 'queues'> {
    return {
      ...connectionGauges([this.publish, this.consume], this.publish),
      confirmsPending: this.publisher.pending,
    }
  }
}

async function nothing(): Promise<void> {}
