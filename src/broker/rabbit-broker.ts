import { setTimeout as sleep } from 'node:timers/promises'
import type { JobRow } from '../job/job.ts'
import type { Service } from '../lifecycle.ts'
import type {
  Broker,
  BrokerStatus,
  BrokerWarning,
  Delivery,
  EnsureOutcome,
  PublishOutcome,
  TakeRequest,
} from './broker.ts'
import { Connection } from './connection.ts'
import { Declarer } from './declarer.ts'
import { Deliveries } from './deliveries.ts'
import { DepthSampler } from './depth-sampler.ts'
import type { Presence } from './entity.ts'
import { createNames, type Names } from './names.ts'
import {
  type BrokerGauges,
  type BrokerObserver,
  type ConnectionName,
  SILENT_OBSERVER,
} from './observer.ts'
import type { BrokerDeps, BrokerOptions } from './options.ts'
import { Owner, type OwnerState } from './owner.ts'
import type { Outgoing } from './publish-lane.ts'
import { Publisher } from './publisher.ts'
import { tokenOf } from './token.ts'
import { loadTopology } from './topology.ts'

export { topologyDiff } from './topology-diff.ts'

const PREFETCH = 32
const MAX_BLOCKS = 64
const IDLE_MS = 2_000
const START_WAIT_MS = 10_000

const UP: BrokerStatus = { state: 'up' }

/**
 * RabbitMQ behind the contract. Three connections: one for everything that publishes; one for
 * consumers and one for declares, which never publish, because a connection that has published
 * once under an alarm gets no more deliveries or declares (architecture §4.1).
 */
export class RabbitBroker implements Broker, Service {
  readonly name = 'broker'
  readonly #deps: BrokerDeps
  readonly #observer: BrokerObserver
  readonly #names: Names
  readonly #connections: Record<ConnectionName, Connection>
  readonly #owner: Owner
  readonly #declarer: Declarer
  readonly #publisher: Publisher
  readonly #deliveries: Deliveries
  readonly #sampler: DepthSampler
  /** Exchanges and system queues were seen to on the present declare connection. */
  #isBaseReady = false
  #wasUp = false
  #declaring: Promise<void> = Promise.resolve()
  #onSettled: (() => void) | null = null
  #isStopped = false

  /** Throws when the topology file is unusable. Connects to nothing. */
  constructor(options: BrokerOptions, deps: BrokerDeps) {
    this.#deps = deps
    this.#observer = deps.observer ?? SILENT_OBSERVER
    this.#names = createNames(options.prefix)
    const topology = loadTopology(options.prefix, options.queueType, options.topologyPath)
    const publish = this.#newConnection('publish', options)
    const consume = this.#newConnection('consume', options)
    const declare = this.#newConnection('declare', options)
    this.#connections = { publish, consume, declare }
    const { logger, random, hooks, clock } = deps
    const shared = { names: this.#names, observer: this.#observer, logger, random, clock }

    this.#declarer = new Declarer({
      ...shared,
      connection: declare,
      topology,
      options,
      hooks,
      onReady: (queue) => this.#deliveries.queueReady(queue),
      onBase: (outcome) => this.#onBase(outcome),
    })
    this.#publisher = new Publisher({
      ...shared,
      connection: publish,
      timeoutMs: options.publishTimeoutMs,
      onReturned: (queue) => void this.#declarer.recheck(queue),
      onOpen: () => this.#noticeChange(),
      onChannelError: (code) => {
        if (code === 404) void this.#declarer.recheckAll()
      },
    })
    this.#deliveries = new Deliveries({
      ...shared,
      connection: consume,
      prefetch: options.prefetch ?? PREFETCH,
      maxBlocks: options.maxBlocks ?? MAX_BLOCKS,
      consumerPriority: options.consumerPriority ?? 0,
      idleMs: options.idleMs ?? IDLE_MS,
      instance: random().toString(36).slice(2, 10),
      isReady: (queue) => this.#declarer.isReady(queue),
      lookUp: (queue) => this.#lookUp(queue),
      onQueueGone: (queue) => void this.#declarer.recheck(queue),
    })
    this.#owner = new Owner(consume, topology, logger, (state) => this.#onOwner(state))
    this.#sampler = new DepthSampler({
      logger,
      connection: declare,
      names: this.#names,
      now: () => clock.now(),
      queues: () => this.#declarer.knownQueues(),
      available: (queue) => hooks.availableJobs(queue),
      held: (queue) => this.#deliveries.heldOf(queue) + this.#publisher.pending,
    })
    this.#listen()
  }

  /** Resolves when jobs can flow, or when it is clear that they cannot yet; never rejects. */
  async start(): Promise<void> {
    if (this.#isStopped) return
    this.#deliveries.start()
    this.#sampler.start()
    await Promise.all(this.#all.map((connection) => connection.start()))
    if (!this.#all.every((connection) => connection.isUp)) return
    await Promise.race([
      Promise.all([this.#settled(), this.#declaring]),
      sleep(START_WAIT_MS, undefined, { ref: false }),
    ])
  }

  async stop(deadline: AbortSignal): Promise<void> {
    if (this.#isStopped) return
    this.#isStopped = true
    this.#noticeChange()
    this.#sampler.stop()
    this.#declarer.stop()
    const isOver = new Promise<void>((resolve) => {
      if (deadline.aborted) resolve()
      deadline.addEventListener('abort', () => resolve(), { once: true })
    })
    await Promise.race([this.#deliveries.stop(), isOver])
    await this.#publisher.drain(deadline)
    this.#publisher.stop()
    // Only now: who owns the queue may count on it that nobody else consumes or publishes.
    await Promise.race([this.#owner.stop(), isOver])
    await Promise.all(this.#all.map((connection) => connection.close()))
  }

  status(): BrokerStatus {
    if (this.#wasUp) return UP
    const { publish } = this.#connections
    if (this.#isStopped) return { state: 'down', reason: 'stopped' }
    for (const connection of this.#all) {
      if (!connection.isUp) return { state: 'down', reason: connection.downReason }
    }
    if (this.#owner.state === 'foreign') {
      return { state: 'foreign', reason: `${this.#names.owner} belongs to another gateway` }
    }
    if (this.#owner.state === 'owner' && publish.blockedReason !== null) {
      return { state: 'blocked', reason: publish.blockedReason }
    }
    return { state: 'down', reason: 'connecting' }
  }

  publish(row: JobRow): Promise<PublishOutcome> {
    if (!this.#wasUp) return Promise.resolve('refused')
    const message = this.#messageOf(row)
    return message === null ? Promise.resolve('refused') : this.#publisher.send(message)
  }

  isPublishing(id: string): boolean {
    return this.#publisher.isPublishing(id)
  }

  isDeclared(queue: string): boolean {
    return this.#declarer.isReady(queue)
  }

  ensureQueue(queue: string): Promise<EnsureOutcome> {
    return this.#declarer.ensure(queue)
  }

  recheckQueue(queue: string): Promise<EnsureOutcome> {
    return this.#declarer.recheck(queue)
  }

  async probeQueue(queue: string): Promise<'exists' | 'missing' | null> {
    const presence = await this.#declarer.probe(queue)
    return presence === 'unavailable' ? null : presence
  }

  silentlyAcknowledged(queue: string, available: number): number {
    return Math.min(this.#sampler.missing(queue), available)
  }

  take(request: TakeRequest): Promise<Delivery[]> {
    return this.#deliveries.take(request)
  }

  putBack(deliveries: readonly Delivery[]): void {
    this.#deliveries.putBack(deliveries)
  }

  park(delivery: Delivery, until: number | null): void {
    this.#deliveries.park(delivery, until)
  }

  unpark(jobId: string): void {
    this.#deliveries.unpark(jobId)
  }

  warnings(): readonly BrokerWarning[] {
    const silent = this.#sampler.suspects().map(({ queue, missing }) => ({
      code: 'silent_acks',
      message: `About ${missing} available jobs of queue '${queue}' have no message in RabbitMQ: somebody acknowledges without reporting.`,
      details: { queue, missing },
    }))
    return [...this.#declarer.warnings(), ...silent]
  }

  gauges(): BrokerGauges {
    return {
      connectionsActive: this.#all.filter((connection) => connection.isUp).length,
      channelsActive: this.#all.reduce((sum, { channelsActive }) => sum + channelsActive, 0),
      blocked: this.#connections.publish.blockedReason !== null,
      confirmsPending: this.#publisher.pending,
      ...this.#deliveries.gauges(),
    }
  }

  get #all(): Connection[] {
    return Object.values(this.#connections)
  }

  #newConnection(name: ConnectionName, options: BrokerOptions): Connection {
    return new Connection({
      name,
      urls: options.amqpUrls,
      connectionName: `${options.connectionName ?? 'ojs-rabbitmq'} ${name}`,
      logger: this.#deps.logger,
      random: this.#deps.random,
      observer: this.#observer,
    })
  }

  #listen(): void {
    const { publish, consume, declare } = this.#connections
    publish.listen({
      down: () => this.#noticeChange(),
      blocked: () => this.#noticeChange(),
      unblocked: () => this.#noticeChange(),
    })
    consume.listen({ down: () => this.#noticeChange() })
    declare.listen({
      up: () => this.#declareAll(),
      down: () => {
        this.#isBaseReady = false
        this.#noticeChange()
      },
    })
  }

  #declareAll(): void {
    this.#declaring = this.#declarer.ensureKnown()
  }

  /** After each look at the exchanges and system queues, also those long after the connect. */
  #onBase(outcome: EnsureOutcome): void {
    this.#isBaseReady = this.#connections.declare.isUp && outcome !== 'unavailable'
    this.#noticeChange()
  }

  #onOwner(state: OwnerState): void {
    if (state === 'owner') void this.#consume()
    else if (state === 'foreign') void this.#deliveries.yield()
    this.#noticeChange()
  }

  async #consume(): Promise<void> {
    const { generation } = this.#connections.consume
    try {
      await this.#deps.hooks.onConsumeUp()
    } catch (error) {
      this.#deps.logger.error({ err: error }, 'leases were not extended')
    }
    const isOurs = this.#owner.state === 'owner' && !this.#isStopped
    if (isOurs && generation === this.#connections.consume.generation) this.#deliveries.resume()
  }

  /** After anything that decides whether jobs can be published. */
  #noticeChange(): void {
    const { publish } = this.#connections
    const isUp =
      !this.#isStopped &&
      this.#all.every((connection) => connection.isUp) &&
      this.#publisher.isOpen &&
      this.#isBaseReady &&
      this.#owner.state === 'owner' &&
      publish.blockedReason === null
    const isNews = isUp && !this.#wasUp
    this.#wasUp = isUp
    if (this.status().state !== 'down') this.#onSettled?.()
    if (isNews) this.#deps.hooks.onUp()
  }

  /** Up, or not up for a reason that only time or an operator can change. */
  #settled(): Promise<void> {
    return new Promise((resolve) => {
      if (this.status().state !== 'down') resolve()
      else this.#onSettled = resolve
    })
  }

  async #lookUp(queue: string): Promise<Presence> {
    const wasKnown = this.#declarer.isKnown(queue)
    const presence = await this.#declarer.probe(queue)
    if (presence === 'exists' && !wasKnown) this.#deps.hooks.onQueueFound(queue)
    return presence
  }

  #messageOf(row: JobRow): Outgoing | null {
    try {
      const { content, options } = tokenOf(row)
      const { id, queue } = row
      const exchange = this.#names.exchange.direct
      return { id, queue, exchange, routingKey: queue, content, options }
    } catch (error) {
      this.#deps.logger.error({ err: error, job_id: row.id }, 'bug: no token for this row')
      return null
    }
  }
}
