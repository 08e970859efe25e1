/** The `Broker` on RabbitMQ: builds the parts of this folder and forwards each call to one. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { JobRow } from '../job/job.ts'
import { type Service, untilDeadline } from '../lifecycle.ts'
import { Availability } from './availability.ts'
import type {
  Broadcast,
  Broker,
  BrokerStatus,
  BrokerWarning,
  Delivery,
  EnsureOutcome,
  Presence,
  PublishOutcome,
  Reply,
  ReplyOutcome,
  ShownDelivery,
  ShownMessage,
  SweptDeadLetters,
  TakeRequest,
  Unusable,
} from './broker.ts'
import { Connections } from './connection/connections.ts'
import { Denials } from './connection/permissions.ts'
import { withScratchChannel } from './connection/temporary-channel.ts'
import { virtualHostOf } from './connection/urls.ts'
import { sweepQueue } from './consume/dead-letter-sweep.ts'
import { Consumers } from './consumers.ts'
import { ControlPublisher } from './control/publisher.ts'
import { Inspector } from './inspector.ts'
import { ManagementApi } from './management-api.ts'
import { shownMessage } from './messages/incoming-message.ts'
import type { Outgoing } from './messages/outgoing-message.ts'
import { outgoingOrNull, toDeadLetters } from './messages/owed-message.ts'
import { DeletedQueues } from './monitoring/deleted-queues.ts'
import type { QueueWatch } from './monitoring/queue-watch.ts'
import { createNames, type Names } from './names.ts'
import { newQueueWatch, type Watching } from './new-queue-watch.ts'
import type { BrokerGauges, EventExchangeObserver } from './observer.ts'
import type { BrokerDeps, BrokerHooks, BrokerOptions } from './options.ts'
import { EventPublisher, type EventSource } from './publish/event-publisher.ts'
import { Publisher } from './publish/publisher.ts'
import { PolicyLimits } from './queue-limits.ts'
import { QueueRemoval, type QueueRemovalDeps } from './queue-removal.ts'
import { rechecksBy } from './recheck-after-publish.ts'
import { Declarer } from './topology/declarer.ts'
import { Delays } from './topology/delay-plugin.ts'
import { EntityChecker } from './topology/entity-checker.ts'
import { LeaderlessQueues } from './topology/leaderless-queues.ts'
import { RetryQueues } from './topology/retry-queues.ts'
import { loadTopology, type Topology } from './topology/topology.ts'

/** Longest wait of `start`, before which nothing is served: each silent host alone takes as long. */
const START_WAIT_MS = 10_000
/** Longest wait for checking earlier runs' queues: 1,000 take 10 s, and their jobs flow meanwhile. */
const LOOKS_WAIT_MS = 1_000

/** Hands out the hooks that `attach` brings later than the parts are built, which ask only after `start`. */
class AttachedHooks implements BrokerHooks {
  given: BrokerHooks | null = null

  get queues() {
    return this.#all().queues
  }

  get jobs() {
    return this.#all().jobs
  }

  get epochs() {
    return this.#all().epochs
  }

  get arrivals() {
    return this.#all().arrivals
  }

  #all(): BrokerHooks {
    if (this.given === null) throw new Error('the broker has no hooks yet')
    return this.given
  }
}

/**
 * RabbitMQ behind the `Broker` contract: composes the parts of this folder, and forwards each call to the
 * part that implements it.
 */
export class RabbitBroker implements Broker, Service {
  readonly name = 'broker'
  readonly removal: QueueRemoval
  readonly limits: PolicyLimits
  readonly inspection: Inspector
  readonly #deps: BrokerDeps
  readonly #hooks = new AttachedHooks()
  readonly #delays: Delays
  readonly #names: Names
  readonly #connections: Connections
  readonly #checker: EntityChecker
  readonly #denials: Denials
  readonly #declarer: Declarer
  readonly #deaths = new DeletedQueues({
    now: () => this.#deps.clock.now(),
    probe: (queue) => this.#declarer.probe(queue),
  })
  readonly #retryQueues: RetryQueues
  readonly #dead: LeaderlessQueues
  readonly #publisher: Publisher
  readonly #controlPublisher: ControlPublisher
  /** Null: events are not published. */
  #events: EventPublisher | null = null
  readonly #consumers: Consumers
  readonly #watch: QueueWatch
  readonly #availability: Availability
  #declaring: Promise<void> = Promise.resolve()
  #isStopped = false

  /** Throws when the topology file is unusable. Opens no connection. `attach` before `start`. */
  constructor(options: BrokerOptions, deps: BrokerDeps) {
    this.#deps = deps
    const { logger, random, clock, observer } = deps
    const hooks = this.#hooks
    this.#names = createNames(options.prefix)
    const topology = loadTopology(options)
    this.#connections = new Connections({ urls: options.amqpUrls, logger, random, observer })
    const { publish, consume, declare, reply } = this.#connections
    this.#denials = new Denials(logger, { publish, consume })
    const shared = { names: this.#names, observer, denials: this.#denials, logger, random, clock }

    this.#delays = new Delays(options, this.#names.exchange.delayed, logger)
    this.#checker = new EntityChecker({ ...shared, options })
    const declaring = { checker: this.#checker, connection: declare, topology, options, hooks }
    this.#dead = new LeaderlessQueues({
      ...shared,
      ...declaring,
      isReady: (queue) => this.#declarer.isReady(queue),
      onMended: (queue) => this.#consumers.control.queueReady(queue),
    })
    this.#declarer = new Declarer({
      ...shared,
      ...declaring,
      dead: this.#dead,
      prepareBase: () => this.#delays.prepare(),
      isSame: (scratch, queue) => this.#watch.isSame(scratch, queue),
      isElsewhereUp: () => publish.isUp && consume.isUp,
      catchUp: (queue, scratch) => this.#consumers.control.catchUp([queue], scratch),
      onReady: (queue) => this.#onReady(queue),
      onDeclare: (queue) => this.#onDeclare(queue),
      onMissing: (queue) => this.#onMissing(queue),
      onBase: (outcome) => this.#onBase(outcome),
      onControlMissing: (queue) => this.#consumers.control.queueMissing(queue),
      onKnown: () => this.#consumers.control.allKnown(),
    })
    const ensureQueue = (queue: string) => this.#declarer.ensure(queue)
    this.#retryQueues = new RetryQueues({ ...shared, ...declaring, ensureQueue })
    const rechecks = rechecksBy(this.#declarer, this.#retryQueues)
    const publishing = {
      ...shared,
      connection: publish,
      timeoutMs: options.publishTimeoutMs,
      onOpen: () => this.#availability.notice(),
      ...rechecks,
    }
    this.#publisher = new Publisher(publishing)
    this.#controlPublisher = new ControlPublisher({ ...publishing, reply, declare })
    this.#consumers = new Consumers({
      ...shared,
      connection: consume,
      ...{ topology, options, hooks, declarer: this.#declarer },
      mayConsumeControl: (queue) => !this.#dead.isBesideDoubtful(queue),
      isBaseReady: () => this.#availability.isBaseReady,
      onOwnerChange: () => this.#availability.notice(),
    })
    this.#availability = new Availability({
      connections: { publish, consume, declare },
      names: this.#names,
      isPublisherOpen: () => this.#publisher.isOpen,
      owner: () => this.#consumers.owner,
      onUp: () => hooks.arrivals.onUp(),
    })
    this.#watch = this.#newWatch({ ...shared, ...declaring, ...rechecks })
    this.limits = new PolicyLimits(new ManagementApi(options), this.#names)
    this.inspection = this.#newInspector(topology, options)
    this.removal = this.#newRemoval({ ...declaring, logger })
    this.#listen()
  }

  /** To be called once, before `start`: what answers the hooks is built with this broker in its hands. */
  attach(hooks: BrokerHooks): void {
    this.#hooks.given = hooks
  }

  /** Publishes the events of this source, which begins to be read at `start`. To be called once, before. */
  publishEvents(source: EventSource, observer: EventExchangeObserver): void {
    const { logger, random } = this.#deps
    this.#events = new EventPublisher({
      ...{ source, logger, random, observer },
      connection: this.#connections.events,
      exchange: this.#names.exchange.events,
      onChannelError: rechecksBy(this.#declarer, this.#retryQueues).onChannelError,
    })
  }

  /**
   * Resolves when jobs can flow, or when it is clear that they cannot yet. Rejects only when a broker answers
   * that lacks the delayed-message plugin which `OJS_DELAY_MODE=plugin` promises.
   */
  async start(): Promise<void> {
    if (this.#isStopped) return
    await this.#delays.require()
    this.#consumers.deliveries.start()
    this.#watch.start()
    this.#retryQueues.start()
    this.#events?.start()
    await Promise.race([this.#firstAttempt(), sleep(START_WAIT_MS, undefined, { ref: false })])
  }

  async #firstAttempt(): Promise<void> {
    if (!(await this.#connections.start())) return
    await this.#availability.settled()
    const enough = sleep(LOOKS_WAIT_MS, undefined, { ref: false })
    await Promise.all([this.#declarer.ensureConfigured(), Promise.race([this.#declaring, enough])])
  }

  async stop(deadline: AbortSignal): Promise<void> {
    if (this.#isStopped) return
    this.#isStopped = true
    this.#availability.stop()
    this.#watch.stop()
    this.#declarer.stop()
    this.#retryQueues.stop()
    this.#dead.stop()
    // Close this one first, or a busy RabbitMQ works off obsolete checks before it answers the stops below.
    void this.#connections.declare.close()
    await untilDeadline(this.#consumers.stop(), deadline)
    for (const publisher of [this.#publisher, this.#controlPublisher]) {
      await publisher.drain(deadline)
      publisher.stop()
    }
    await this.#events?.stop(deadline)
    // Last: the next owner of `ojs.system.owner` relies on no other gateway consuming or publishing.
    await untilDeadline(this.#consumers.owner.stop(), deadline)
    await this.#connections.close()
  }

  status(): BrokerStatus {
    return this.#availability.status()
  }

  latencyMs(): number | null {
    return this.#connections.publish.latencyMs
  }

  publish(row: JobRow): Promise<PublishOutcome> {
    const message = this.#availability.isUp ? outgoingOrNull(row, this.#deps, this.#names) : null
    if (message === null) return Promise.resolve('refused')
    if (!this.#mayTake(message)) return Promise.resolve('returned')
    // A retry queue that is not known to have our arguments loses jobs (docs/architecture.md §3).
    if (
      message.retryQueueMs !== null &&
      !this.#retryQueues.isReady(row.queue, message.retryQueueMs)
    ) {
      void this.#retryQueues.ensure(row.queue, message.retryQueueMs)
      return Promise.resolve('refused')
    }
    const published = this.#publisher.send(message)
    if (message.group === 'jobs') this.#consumers.deliveries.expect(row, published)
    return published
  }

  publishUnusable(message: Unusable): Promise<PublishOutcome> {
    const outgoing = toDeadLetters(message, this.#names)
    // No other copy of the message exists: after `refused` the caller tries again.
    if (!this.#availability.isUp || !this.#mayTake(outgoing)) return Promise.resolve('refused')
    return this.#publisher.send(outgoing)
  }

  /**
   * False: the message would go to a queue that may be dead and is not checked yet, or that drops messages.
   */
  #mayTake({ exchange, queue }: Outgoing): boolean {
    const { direct, dlx } = this.#names.exchange
    if (exchange === direct) return !this.#dead.isDoubtful(queue) && !this.#declarer.isClosed(queue)
    return exchange !== dlx || !this.#dead.isBesideDoubtful(queue)
  }

  shown(delivery: ShownDelivery): ShownMessage {
    return shownMessage(delivery)
  }

  isQueueGone(queue: string): Promise<boolean> {
    return this.#deaths.isGone(queue)
  }

  isCrowded(queue: string): boolean {
    return this.#consumers.deliveries.isCrowded(queue)
  }

  get publishing(): number {
    return this.#publisher.pending
  }

  isDeclared(queue: string): boolean {
    return this.#declarer.isUsable(queue)
  }

  ensureQueue(queue: string): Promise<EnsureOutcome> {
    return this.#declarer.ensure(queue)
  }

  recheckQueue(queue: string): Promise<EnsureOutcome> {
    return this.#declarer.lookAgain(queue)
  }

  isRetryQueueReady(queue: string, delayMs: number): boolean {
    return this.#retryQueues.isReady(queue, delayMs)
  }

  ensureRetryQueue(queue: string, delayMs: number): Promise<'ready' | 'unusable'> {
    return this.#retryQueues.ensure(queue, delayMs)
  }

  recheckRetryQueue(queue: string, delayMs: number): Promise<'ready' | 'unusable'> {
    return this.#retryQueues.recheck(queue, delayMs)
  }

  async sweepDeadLetters(
    ...[queue, limit, isStale]: Parameters<Broker['sweepDeadLetters']>
  ): Promise<SweptDeadLetters | null> {
    if (this.#consumers.owner.state !== 'owner' || this.#dead.isBesideDoubtful(queue)) return null
    return sweepQueue(this.#connections.consume, this.#names.dlxQueue(queue), limit, isStale)
  }

  probeQueue(queue: string): Promise<Presence> {
    return this.#declarer.probe(queue)
  }

  silentlyAcknowledged(queue: string, available: number): number {
    return Math.min(this.#watch.missing(queue), available)
  }

  driftedBefore(queue: string): number | null {
    return this.#watch.driftedBefore(queue)
  }

  take(request: TakeRequest): Promise<Delivery[]> {
    return this.#consumers.deliveries.take(request)
  }

  peek(queue: string, limit: number): Delivery[] {
    return this.#consumers.deliveries.peek(queue, limit)
  }

  takeThese(queue: string, deliveries: readonly Delivery[]): Delivery[] {
    return this.#consumers.deliveries.takeThese(queue, deliveries)
  }

  pauseChanged(queue: string): void {
    this.#consumers.deliveries.pauseChanged(queue)
  }

  putBack(deliveries: readonly Delivery[]): void {
    this.#consumers.deliveries.putBack(deliveries)
  }

  park(delivery: Delivery, until: number | null, onReturned?: () => number): void {
    this.#consumers.deliveries.park(delivery, until, onReturned)
  }

  unpark(jobId: string): boolean {
    return this.#consumers.deliveries.unpark(jobId)
  }

  broadcast(message: Broadcast): Promise<PublishOutcome> {
    if (!this.#availability.isUp) return Promise.resolve('refused')
    return this.#controlPublisher.broadcast(message)
  }

  reply(message: Reply): Promise<ReplyOutcome> {
    return this.#controlPublisher.reply(message)
  }

  async catchUp(queues: readonly string[]): Promise<boolean> {
    // On the connection of the reports: what RabbitMQ has sent of them comes before its answers.
    return await withScratchChannel(this.#connections.consume, (scratch) =>
      this.#consumers.control.catchUp(queues, scratch),
    )
  }

  controlBacklogConsumed(): boolean {
    return this.#consumers.control.isBacklogConsumed
  }

  mayReportsReturn(queue: string): boolean {
    return this.#consumers.control.mayReportsReturn(queue)
  }

  warnings(): readonly BrokerWarning[] {
    return [this.#connections, this.#checker, this.#denials, this.#watch].flatMap((part) =>
      part.warnings(),
    )
  }

  /** '' while there is no connection. */
  get serverVersion(): string {
    return this.#connections.declare.serverVersion
  }

  /** Events without a confirm; 0 unless they are published. */
  get eventsPending(): number {
    return this.#events?.pending ?? 0
  }

  gauges(): BrokerGauges {
    return {
      ...this.#connections.gauges(),
      confirmsPending: this.#publisher.pending + this.#controlPublisher.pending,
      ...this.#consumers.gauges(),
    }
  }

  #newWatch(given: Omit<Watching, 'declarer' | 'dead' | 'publisher' | 'deliveries'>): QueueWatch {
    return newQueueWatch({
      ...given,
      ...{ declarer: this.#declarer, dead: this.#dead, publisher: this.#publisher },
      deliveries: this.#consumers.deliveries,
    })
  }

  #newInspector(topology: Topology, options: BrokerOptions): Inspector {
    const { deliveries } = this.#consumers
    return new Inspector({
      ...{ topology, names: this.#names, api: new ManagementApi(options) },
      connections: this.#connections.all,
      declare: this.#connections.declare,
      virtualHost: virtualHostOf(new URL(options.amqpUrls[0] ?? 'amqp://localhost')),
      ...{ clock: this.#deps.clock, logger: this.#deps.logger },
      knownQueues: () => this.#declarer.knownQueues(),
      retryQueues: () => this.#hooks.queues.recordedRetryQueues(),
      held: (queue) => deliveries.heldOf(queue),
    })
  }

  #newRemoval(
    given: Pick<QueueRemovalDeps, 'connection' | 'topology' | 'options' | 'logger'>,
  ): QueueRemoval {
    const { control } = this.#consumers
    return new QueueRemoval({
      ...given,
      ...{ declarer: this.#declarer, dead: this.#dead, retryQueues: this.#retryQueues },
      control,
      memories: [this.#retryQueues, this.#dead, this.#deaths, this.#watch, control],
    })
  }

  #listen(): void {
    const { declare, publish } = this.#connections
    const down = () => this.#availability.baseChanged(false)
    declare.listen({ up: () => this.#declareAll(), down })
    publish.listen({ down: () => this.#declarer.believeNone() })
  }

  #declareAll(): void {
    this.#declaring = this.#declarer.ensureKnown()
    // Retry queues come last: a retry ensures the retry queue that it needs, so no job waits for this.
    void this.#declaring.then(() => this.#retryQueues.ensureKnown())
  }

  /** Called after every check of the exchanges and system queues, also long after the connect. */
  #onBase(outcome: EnsureOutcome): void {
    const isReady = this.#connections.declare.isUp && outcome !== 'unavailable'
    this.#availability.baseChanged(isReady)
    this.#consumers.baseChecked(isReady)
  }

  #onDeclare(queue: string): void {
    this.#publisher.noteNew(queue)
    this.#dead.noteDeclared(queue)
  }

  #onReady(queue: string): void {
    this.#dead.noteReady(queue)
    this.#consumers.queueReady(queue)
  }

  #onMissing(queue: string): void {
    // A queue that is about to be declared for the first time has not died.
    if (this.#declarer.isKnown(queue)) this.#deaths.missed(queue)
    this.#consumers.deliveries.queueMissing(queue)
    this.#watch.forget(queue)
  }
}
