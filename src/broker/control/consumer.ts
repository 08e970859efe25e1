/** Consumes the control queue of every known queue while this gateway is the owner. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ConsumeMessage } from 'amqplib'
import type { Clock } from '../../clock.ts'
import { untilDeadline } from '../../lifecycle.ts'
import type { Logger } from '../../logger.ts'
import type { ControlMessage, ControlVerdict } from '../broker.ts'
import { classify } from '../connection/channel-error.ts'
import type { Connection } from '../connection/connection.ts'
import type { Denials } from '../connection/permissions.ts'
import { isInTime, RestartDelay } from '../connection/reconnect.ts'
import { ScratchChannel } from '../connection/temporary-channel.ts'
import { UnresponsiveQueues } from '../consume/unresponsive-queues.ts'
import type { Names } from '../names.ts'
import type { BrokerGauges, BrokerObserver } from '../observer.ts'
import { lookFor } from '../topology/entity.ts'
import { ControlBacklog } from './backlog.ts'
import type { ControlChannel } from './channel.ts'
import { ControlChannels } from './channel.ts'
import { CONTROL_LABEL, ControlHandler } from './handler.ts'
import { ControlQueues } from './queues.ts'
import { StallDetector } from './stall-detector.ts'

/** Per queue; also how many of its messages are handled at the same time. */
const PREFETCH = 32
/** How often every consumer is checked for being alive. */
const CHECK_MS = 30_000
/** How long the redeclaration of a missing queue waits for the reports about its jobs. */
const CATCH_UP_MS = 5_000
const LOOK_AGAIN_MS = 50
/** How often a queue is looked at that another consumer has reports of. */
const SHARED_MS = 1_000
/** A quorum queue without a leader answers no consume; after 65 s RabbitMQ ends the connection. */
const ANSWER_MS = 5_000
/** 2026, in seconds: priorities are numbers of 32 bits. */
const PRIORITIES_FROM = 1_767_225_600

export interface ControlConsumerDeps {
  connection: Connection
  names: Names
  clock: Clock
  logger: Logger
  observer: BrokerObserver
  denials: Denials
  random: () => number
  /** Distinguishes our consumer tags from those of every other process. */
  instance: string
  /** False: do not consume; `queueReady` is called when it is allowed. */
  mayConsume(queue: string): boolean
  onControl(message: ControlMessage): Promise<ControlVerdict>
  /** The control queue was looked for and does not exist, or was deleted. */
  onQueueGone(queue: string): void
  /** Called after each `resume`, once `isBacklogConsumed` is true. */
  onBacklogConsumed(): void
}

/**
 * Consumes `ojs.queue.control.{queue}` of every known queue while this gateway owns the broker, and passes
 * the messages to `ControlHandler`.
 */
export class ControlConsumer {
  readonly #deps: ControlConsumerDeps
  readonly #backlog: ControlBacklog
  readonly #handler: ControlHandler
  readonly #queues: ControlQueues
  /** Queues whose consume was not answered. */
  readonly #doubts: UnresponsiveQueues
  readonly #retryDelay: RestartDelay
  readonly #pulse = new StallDetector(CHECK_MS / 2)
  /** Queues whose consumer is to be registered or checked next, in this order. */
  readonly #due = new Set<string>()
  /** Queues that `catchUp` waits for: consumed whatever `mayConsume` says. */
  readonly #alive = new Set<string>()
  /** Queues that are being deleted. */
  readonly #released = new Set<string>()
  readonly #channels: ControlChannels
  readonly #stopping = new AbortController()
  #isActive = false
  #isRegistering = false
  /** The registration of one queue that is under way. */
  #registering: Promise<void> | undefined
  #registrations = 0
  #failedAt = 0
  #check: NodeJS.Timeout | undefined
  #retry: NodeJS.Timeout | undefined
  /** Control queues with another consumer when we began to consume them; looked at again by `#sharing`. */
  readonly #shared = new Set<string>()
  #sharing: NodeJS.Timeout | undefined

  constructor(deps: ControlConsumerDeps) {
    this.#deps = deps
    this.#retryDelay = new RestartDelay(deps.random)
    this.#doubts = new UnresponsiveQueues(deps.clock)
    this.#backlog = new ControlBacklog(deps.clock, () => deps.onBacklogConsumed())
    this.#queues = new ControlQueues((queue) => this.#backlog.queueKnown(queue))
    this.#handler = new ControlHandler({
      ...deps,
      onSettled: (queue) => this.#backlog.settled(queue),
      stopping: this.#stopping.signal,
    })
    this.#channels = new ControlChannels({
      connection: deps.connection,
      prefetch: PREFETCH,
      onMessage: (channel, queue, message) => this.#onMessage(channel, queue, message),
      onCancelled: (channel, queue) => this.#onCancelled(channel, queue),
      onClosed: (closed, unsettled, error) => this.#onClosed(closed, unsettled, error),
    })
    deps.connection.listen({
      down: (reason) => {
        this.#doubts.connectionEnded(reason)
        this.suspend()
      },
    })
  }

  /** See `Broker.controlBacklogConsumed`. */
  get isBacklogConsumed(): boolean {
    return this.#backlog.isConsumed
  }

  /** See `Broker.mayReportsReturn`. */
  mayReportsReturn(queue: string): boolean {
    return this.#backlog.isUnknown(queue) && !this.#backlog.isConsumed
  }

  /** The control queue was declared or checked; called again after each reconnect. */
  queueReady(queue: string): void {
    this.#released.delete(queue)
    this.#queues.getOrCreate(queue)
    if (!this.#queues.isDenied(queue)) this.#ensure([queue])
  }

  /** The control queue does not exist; `queueReady` follows once it is declared anew. */
  queueMissing(queue: string): void {
    this.#doubts.clear(queue)
    const known = this.#queues.find(queue)
    if (known?.channel) known.isRenewed = true
  }

  /** The queue is being deleted: stops consuming its control queue until `queueReady`. */
  async release(queue: string): Promise<void> {
    this.#released.add(queue)
    this.#due.delete(queue)
    // A consumer that is just being registered could not be cancelled.
    await this.#registering
    const known = this.#queues.find(queue)
    this.#queues.forget(queue)
    this.#doubts.clear(queue)
    this.#pulse.forget(queue)
    this.#backlog.gone(queue)
    await known?.channel?.cancel(queue)
    await this.#handler.reportsOf(queue)
  }

  /** The queue is deleted. */
  forget(queue: string): void {
    this.#released.delete(queue)
  }

  /**
   * Resolves when the messages waiting in these control queues are settled, or after `CATCH_UP_MS`. The caller
   * then decides about jobs of the queues by what their rows say, and a report handled only after that would
   * come too late: it may say that a job is done, or that its retry waits in RabbitMQ. False: some may be left.
   */
  async catchUp(queues: readonly string[], scratch: ScratchChannel): Promise<boolean> {
    const { clock } = this.#deps
    const until = clock.now() + CATCH_UP_MS
    let waiting = await this.#haveMessages(queues, scratch)
    while (waiting.length > 0 && clock.now() < until) {
      // A queue that has messages is not dead.
      for (const queue of waiting) this.#alive.add(queue)
      this.#ensure(waiting)
      await sleep(LOOK_AGAIN_MS, undefined, { ref: false })
      waiting = await this.#haveMessages(waiting, scratch)
    }
    const left = AbortSignal.timeout(Math.max(0, until - clock.now()))
    const reports = Promise.all(queues.map((queue) => this.#handler.reportsOf(queue)))
    await untilDeadline(reports, left)
    for (const queue of queues) this.#alive.delete(queue)
    return waiting.length === 0 && !left.aborted
  }

  async #haveMessages(queues: readonly string[], scratch: ScratchChannel): Promise<string[]> {
    const found: string[] = []
    for (const queue of queues) {
      const name = this.#deps.names.controlQueue(queue)
      if ((await lookFor(scratch, { entity: 'queue', name })).ready > 0) found.push(queue)
    }
    return found
  }

  /** Every queue known from earlier runs was checked. */
  allKnown(): void {
    this.#backlog.listComplete()
  }

  /** The consume connection is up and this gateway owns the broker. */
  resume(): void {
    if (this.#isActive || this.#stopping.signal.aborted) return
    this.#isActive = true
    this.#retryDelay.forgetFailures()
    const queues = this.#queues.names()
    this.#backlog.begin(queues)
    this.#ensure(queues)
    this.#check = setInterval(() => this.#ensure(this.#queues.checkable()), CHECK_MS)
    this.#check.unref()
  }

  /** Consumes nothing new until `resume`; messages already received are handled to the end. */
  suspend(): void {
    for (const channel of this.#deactivate()) void channel.drain()
  }

  /** Returns the channels that were in use. */
  #deactivate(): ControlChannel[] {
    this.#isActive = false
    this.#backlog.end()
    clearInterval(this.#check)
    clearTimeout(this.#retry)
    this.#retry = undefined
    clearTimeout(this.#sharing)
    this.#sharing = undefined
    this.#shared.clear()
    this.#due.clear()
    this.#queues.disconnected()
    return this.#channels.takeAll()
  }

  /** First finishes the messages that are being handled. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    const channels = this.#deactivate()
    for (const channel of channels) channel.mute()
    await this.#handler.finished()
    await Promise.all(channels.map((channel) => channel.close()))
  }

  /** One entry for all control queues: there may be a thousand, most of them silent. */
  consumers(): BrokerGauges['consumers'] {
    const unacked = this.#channels.unsettled
    return this.#isActive ? [{ queue: CONTROL_LABEL, consumer: CONTROL_LABEL, unacked }] : []
  }

  #ensure(queues: Iterable<string>): void {
    if (!this.#isActive) return
    for (const queue of queues) this.#due.add(queue)
    if (!this.#isRegistering) void this.#registerDue()
  }

  /** One after another: a thousand take two seconds, and nothing waits for the last of them. */
  async #registerDue(): Promise<void> {
    this.#isRegistering = true
    const scratch = new ScratchChannel(this.#deps.connection)
    // Iterating a set also visits what is added meanwhile.
    for (const queue of this.#due) {
      this.#due.delete(queue)
      this.#registering = this.#register(queue, scratch).catch((error) =>
        this.#onFailure(queue, error),
      )
      await this.#registering
    }
    this.#isRegistering = false
    await scratch.close()
  }

  async #register(queue: string, scratch: ScratchChannel): Promise<void> {
    const { clock, instance, mayConsume, names } = this.#deps
    if (this.#doubts.leftAloneMs(queue) > 0) return
    if (!mayConsume(queue) && !this.#alive.has(queue)) return
    const source = names.controlQueue(queue)
    const { messageCount, consumerCount } = await scratch.run((scratchChannel) =>
      scratchChannel.checkQueue(source),
    )
    if (this.#released.has(queue)) return
    const known = this.#queues.getOrCreate(queue)
    known.isUnsure = false
    if (!this.#isActive) return
    const own = known.channel === null ? 0 : 1
    if (this.#backlog.isUnknown(queue)) this.#count(queue, messageCount, { own, consumerCount })
    if (known.channel !== null) {
      const isDeaf =
        known.isRenewed ||
        consumerCount === 0 ||
        this.#pulse.isMissed(queue, messageCount, clock.now())
      if (isDeaf) this.#replace(known.channel)
      return
    }
    known.isRenewed = false
    // RabbitMQ answers a forbidden consume by closing the channel: no other queue may be on it.
    const isDoubtful = this.#doubts.has(queue) || this.#queues.isDenied(queue)
    const channel = this.#channels.next({ isDoubtful })
    known.channel = channel
    this.#registrations += 1
    const consumerTag = `ojs.${instance}.control.${queue}.${this.#registrations}`
    // A gateway that stands still is a consumer for RabbitMQ until its heartbeats fail; whoever took over came later.
    const priority = Math.floor(clock.now() / 1_000) - PRIORITIES_FROM
    const consumed = channel.consume(queue, source, { consumerTag, priority })
    if (await isInTime(consumed, ANSWER_MS)) this.#onAccepted(queue, source)
    else this.#leaveAlone(queue, channel, consumed)
    known.isToldMissing = false
  }

  /**
   * Counts what waits in a queue before it is consumed. While a gateway that stands still is its consumer too, the
   * reports that it was given are in no count: they come back when RabbitMQ gives its connection up.
   */
  #count(
    queue: string,
    messages: number,
    { own, consumerCount }: { own: number; consumerCount: number },
  ): void {
    const isShared = consumerCount > own || (own > 0 && messages > 0)
    if (isShared) this.#lookAgain(queue)
    else if (own === 0) this.#backlog.depth(queue, messages)
    else void this.#handler.reportsOf(queue).then(() => this.#backlog.depth(queue, 0))
  }

  #lookAgain(queue: string): void {
    this.#shared.add(queue)
    this.#sharing ??= setTimeout(() => {
      this.#sharing = undefined
      const queues = [...this.#shared].filter((name) => !this.#queues.isDenied(name))
      this.#shared.clear()
      this.#ensure(queues)
    }, SHARED_MS).unref()
  }

  #onAccepted(queue: string, source: string): void {
    this.#doubts.clear(queue)
    this.#deps.denials.mayConsume(source)
    this.#ensure(this.#queues.allow(queue))
  }

  /** Stops waiting for an unanswered consume: the other queues' reports would not be heard meanwhile. */
  #leaveAlone(queue: string, channel: ControlChannel, consumed: Promise<void>): void {
    const forMs = this.#doubts.add(queue)
    this.#deps.logger.warn(
      { queue, forMs },
      'control queue does not answer; it is tried again later',
    )
    this.#channels.avoidUntil(channel, consumed)
    consumed.then(
      () => this.#doubts.clear(queue),
      () => {},
    )
  }

  /**
   * When a quorum queue is deleted and declared anew at once, RabbitMQ 3.10 does not cancel the old consumer:
   * it stays silent for ever, and may even be counted as a consumer of the new queue. Its channel is
   * closed, and the unsettled messages on it are redelivered.
   */
  #replace(channel: ControlChannel): void {
    const queues = this.#queues.on(channel)
    this.#deps.logger.warn(
      { queues: queues.slice(0, 10) },
      'consumers of control queues get no messages; their channel is replaced',
    )
    void channel.close()
    this.#ensure(queues)
  }

  #onMessage(channel: ControlChannel, queue: string, message: ConsumeMessage): void {
    this.#deps.observer.consumed(CONTROL_LABEL, message.fields.redelivered)
    this.#pulse.beat(queue)
    this.#handler.take(channel, queue, message)
  }

  #onCancelled(channel: ControlChannel, queue: string): void {
    const known = this.#queues.getOrCreate(queue)
    if (known.channel !== channel) return
    known.channel = null
    this.#deps.observer.consumerCancelled(CONTROL_LABEL)
    this.#onGone(queue)
  }

  #onClosed(closed: ControlChannel, unsettled: number, error: unknown): void {
    const { connection, logger, observer } = this.#deps
    if (unsettled > 0) observer.lost(CONTROL_LABEL, unsettled)
    // The channel was drained, or has been replaced already.
    if (!this.#channels.remove(closed)) return
    this.#queues.closed(closed)
    if (!this.#isActive || !connection.isUp) return
    const failure = classify(error)
    if (failure.kind !== 'unavailable' && failure.kind !== 'access-refused') {
      logger.warn({ failure }, 'a channel of control queues was closed')
    }
    this.#retryLater()
  }

  /**
   * The control queue could not be checked or consumed. An existing consumer stays: its channel reports when
   * it is gone, and a second consumer beside it would mix up the order of the queue's messages.
   */
  #onFailure(queue: string, error: unknown): void {
    if (!this.#isActive || !this.#deps.connection.isUp) return
    const failure = classify(error)
    const known = this.#queues.getOrCreate(queue)
    if (failure.kind === 'not-found') {
      known.channel = null
      this.#onGone(queue)
      return
    }
    if (failure.kind === 'access-refused') {
      this.#onDenied(queue, failure.text)
      return
    }
    // Log once: the queue's node may be down for hours, and this is retried every few seconds.
    if (!known.isUnsure) {
      this.#deps.logger.warn({ queue, failure }, 'a control queue cannot be consumed')
    }
    known.isUnsure = true
    this.#retryLater()
  }

  #onDenied(queue: string, text: string): void {
    this.#queues.deny(queue)
    this.#deps.denials.mayNotConsume(this.#deps.names.controlQueue(queue), text)
  }

  #onGone(queue: string): void {
    this.#backlog.gone(queue)
    if (!this.#isActive) return
    const known = this.#queues.getOrCreate(queue)
    if (!known.isToldMissing) this.#deps.logger.warn({ queue }, 'a control queue is gone')
    known.isToldMissing = true
    this.#deps.onQueueGone(queue)
    this.#retryLater()
  }

  #retryLater(): void {
    if (this.#retry !== undefined) return
    const now = this.#deps.clock.now()
    const delayMs = this.#retryDelay.after(now - this.#failedAt)
    this.#failedAt = now
    this.#retry = setTimeout(() => {
      this.#retry = undefined
      this.#ensure(this.#queues.unwell())
    }, delayMs)
    this.#retry.unref()
  }
}
