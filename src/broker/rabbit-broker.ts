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
  SweptDeadLetters,
  TakeRequest,
} from './broker.ts'
import { Connection } from './connection.ts'
import { DeadLetterConsumer } from './dead-letter-consumer.ts'
import { sweepQueue } from './dead-letter-sweep.ts'
import { Declarer } from './declarer.ts'
import { Deliveries } from './deliveries.ts'
import { DepthSampler } from './depth-sampler.ts'
import type { Presence } from './entity.ts'
import { EntityChecker } from './entity-checker.ts'
import { createNames, type Names } from './names.ts'
import {
  type BrokerGauges,
  type BrokerObserver,
  type ConnectionName,
  SILENT_OBSERVER,
} from './observer.ts'
import type { BrokerDeps, BrokerOptions } from './options.ts'
import { outgoingOf } from './outgoing.ts'
import { Owner, type OwnerState } from './owner.ts'
import type { Outgoing } from './publish-lane.ts'
import { Publisher } from './publisher.ts'
import { Rungs } from './rungs.ts'
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
  readonly #checker: EntityChecker
  readonly #declarer: Declarer
  readonly #rungs: Rungs
  readonly #publisher: Publisher
  readonly #deliveries: Deliveries
  readonly #deadLetters: DeadLetterConsumer
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
    const instance = random().toString(36).slice(2, 10)
    const shared = { names: this.#names, observer: this.#observer, logger, random, clock }

    this.#checker = new EntityChecker({ ...shared, options })
    const declaring = { checker: this.#checker, connection: declare, topology, options, hooks }
    this.#declarer = new Declarer({
      ...shared,
      ...declaring,
      onReady: (queue) => this.#deliveries.queueReady(queue),
      onMissing: (queue) => this.#deliveries.queueMissing(queue),
      onBase: (outcome) => this.#onBase(outcome),
    })
    this.#rungs = new Rungs({
      ...shared,
      ...declaring,
      ensureQueue: (queue) => this.#declarer.ensure(queue),
    })
    this.#publisher = new Publisher({
      ...shared,
      connection: publish,
      timeoutMs: options.publishTimeoutMs,
      onReturned: (queue, rungMs) => this.#onReturned(queue, rungMs),
      onOpen: () => this.#noticeChange(),
      onChannelError: (code) => {
        if (code === 404) void this.#declarer.recheckAll().then(() => this.#rungs.recheckAll())
      },
    })
    this.#deliveries = new Deliveries({
      ...shared,
      connection: consume,
      prefetch: options.prefetch ?? PREFETCH,
      maxBlocks: options.maxBlocks ?? MAX_BLOCKS,
      consumerPriority: options.consumerPriority ?? 0,
      idleMs: options.idleMs ?? IDLE_MS,
      instance,
      isReady: (queue) => this.#declarer.isReady(queue),
      lookUp: (queue) => this.#lookUp(queue),
      onQueueGone: (queue) => void this.#declarer.recheck(queue),
    })
    this.#deadLetters = new DeadLetterConsumer({
      ...shared,
      connection: consume,
      instance,
      onDeadLetter: (letter) => hooks.onDeadLetter(letter),
      onQueueGone: () => {
        if (options.declare !== 'never') void this.#declarer.recheckAll()
      },
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
    this.#rungs.start()
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
    this.#rungs.stop()
    const isOver = new Promise<void>((resolve) => {
      if (deadline.aborted) resolve()
      deadline.addEventListener('abort', () => resolve(), { once: true })
    })
    const consumersEnd = Promise.all([this.#deliveries.stop(), this.#deadLetters.stop()])
    await Promise.race([consumersEnd, isOver])
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
    // A rung that is not known to be ours loses jobs (architecture §3).
    if (message && message.rungMs !== null && !this.#rungs.isReady(row.queue, message.rungMs)) {
      void this.#rungs.ensure(row.queue, message.rungMs)
      return Promise.resolve('refused')
    }
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

  isRungReady(queue: string, delayMs: number): boolean {
    return this.#rungs.isReady(queue, delayMs)
  }

  ensureRung(queue: string, delayMs: number): Promise<'ready' | 'unusable'> {
    return this.#rungs.ensure(queue, delayMs)
  }

  recheckRung(queue: string, delayMs: number): Promise<'ready' | 'unusable'> {
    return this.#rungs.recheck(queue, delayMs)
  }

  async sweepDeadLetters(
    ...[queue, limit, isStale]: Parameters<Broker['sweepDeadLetters']>
  ): Promise<SweptDeadLetters | null> {
    if (this.#owner.state !== 'owner') return null
    return sweepQueue(this.#connections.consume, this.#names.dlxQueue(queue), limit, isStale)
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
    return [...this.#checker.warnings(), ...this.#sampler.warnings()]
  }

  gauges(): BrokerGauges {
    const deliveries = this.#deliveries.gauges()
    return {
      connectionsActive: this.#all.filter((connection) => connection.isUp).length,
      channelsActive: this.#all.reduce((sum, { channelsActive }) => sum + channelsActive, 0),
      blocked: this.#connections.publish.blockedReason !== null,
      confirmsPending: this.#publisher.pending,
      ...deliveries,
      consumers: [...deliveries.consumers, ...this.#deadLetters.consumers()],
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
    // Nothing that flows waits for rungs: a retry asks for its own.
    void this.#declaring.then(() => this.#rungs.ensureKnown())
  }

  /** After each look at the exchanges and system queues, also those long after the connect. */
  #onBase(outcome: EnsureOutcome): void {
    this.#isBaseReady = this.#connections.declare.isUp && outcome !== 'unavailable'
    this.#noticeChange()
    this.#consumeDeadLetters()
  }

  #onReturned(queue: string, rungMs: number | null): void {
    if (rungMs === null) void this.#declarer.recheck(queue)
    else void this.#rungs.recheck(queue, rungMs)
  }

  #onOwner(state: OwnerState): void {
    if (state === 'owner') void this.#consume()
    else if (state === 'foreign') {
      void this.#deliveries.yield()
      this.#deadLetters.suspend()
    }
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
    if (!isOurs || generation !== this.#connections.consume.generation) return
    this.#deliveries.resume()
    this.#consumeDeadLetters()
  }

  /** After the first of the two that comes last: the broker is ours, the system queues are there. */
  #consumeDeadLetters(): void {
    if (this.#isBaseReady && this.#deliveries.mayConsume) this.#deadLetters.resume()
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
      return outgoingOf(row, this.#names)
    } catch (error) {
      this.#deps.logger.error({ err: error, job_id: row.id }, 'bug: no token for this row')
      return null
    }
  }
}
