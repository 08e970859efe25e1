import type { Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Channel, ChannelModel, ConfirmChannel } from 'amqplib'
import { describeError } from '../logger.ts'
import { hasReplyCode, isUnknownConsumer } from './amqp-error.ts'
import { openModel, type PeerOptions, streamOf, tune } from './amqp-model.ts'
import { AnswerWatch } from './answer-watch.ts'
import { type Beside, BesideConnections } from './beside.ts'
import { ChannelLimit } from './channel-limit.ts'
import { isUnreachable, whyNotOpen } from './connect-error.ts'
import type { ConnectionListener, ConnectionOptions } from './connection-options.ts'
import type { ConnectionName } from './observer.ts'
import { areAllListening, isAnyListening, reconnectDelayMs, waitToReconnect } from './reconnect.ts'

const CLOSE_TIMEOUT_MS = 2_000
const LOOK_AGAIN_MS = 250
/** Seed 002 §11.1. A native worker's handlers may block its event loop that long. */
const HEARTBEAT_S = 60
/** Caps the backoff (16 s) when RabbitMQ accepts the connection but then ends it for too many channels. */
const MAX_LIMITED_ATTEMPT = 5
/** Share of the negotiated channel limit from which a connection counts as crowded. */
const CROWDED = 3 / 4

/**
 * One AMQP connection that reconnects for as long as it is not closed (seed 002 §11.3).
 *
 * amqplib's own `recovery` takes a single URL, its wait cannot be cut short, and it restores neither channels
 * nor consumers; it would save only the ten lines of `#run`.
 */
export class Connection {
  readonly name: ConnectionName
  /** Counts successful connects; channels and deliveries of an older generation are dead. */
  generation = 0
  /**
   * RabbitMQ may have restarted since the last connection. True for the first connection, after one that
   * ended without RabbitMQ announcing its end, after a failed attempt, and while there is no connection.
   */
  isAfterRestart = true
  /** Why RabbitMQ blocks publishers (memory or disk alarm), or null. */
  blockedReason: string | null = null
  /** Why there is no connection. Never contains credentials. */
  downReason = 'not connected yet'
  channelsActive = 0
  /** How long RabbitMQ took for the newest timed answer; null before the first. */
  latencyMs: number | null = null
  readonly channelLimit: ChannelLimit

  readonly #options: ConnectionOptions
  readonly #urls: readonly URL[]
  readonly #listeners: ConnectionListener[] = []
  readonly #stopping = new AbortController()
  #model: ChannelModel | null = null
  #stream: Writable | null = null
  /** Destroys the present socket, however stuck its peer is. */
  #socket = new AbortController()
  #running: Promise<void> | null = null
  readonly #peer: PeerOptions
  readonly #beside: BesideConnections
  /** Failed attempts since the last connection. */
  #failures = 0
  /** RabbitMQ announced the end of the last connection (`connection.close`). */
  #wasClosed = false
  /** RabbitMQ ended the last connection because of its channels, and may do so with the next. */
  #wasLimited = false

  constructor(options: ConnectionOptions) {
    this.name = options.name
    this.#options = options
    this.channelLimit = new ChannelLimit(options.name, options.logger)
    this.#urls = options.urls.map((url) => new URL(url))
    const { connectionName, heartbeatS = HEARTBEAT_S } = options
    this.#peer = { connectionName, heartbeatS }
    this.#beside = new BesideConnections(this.#urls[0], this.#peer)
    for (const prior of options.behind ?? []) {
      prior.listen({ down: () => this.#mustStayDown() && this.#yieldPlace() })
    }
  }

  get isUp(): boolean {
    return this.#model !== null
  }

  /** `serverProperties.version` of the present broker; '' while there is none. */
  get serverVersion(): string {
    return this.#model?.connection.serverProperties.version ?? ''
  }

  /** True when every host of the list accepts TCP connections. A single host is not tested. */
  async areAllHostsUp(): Promise<boolean> {
    return this.hasOneHost || (await areAllListening(this.#urls))
  }

  listen(listener: ConnectionListener): void {
    this.#listeners.push(listener)
  }

  /** Resolves after the first attempt, whether or not it succeeded. Idempotent. */
  start(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#running !== null) return resolve()
      this.#running = this.#run(resolve)
    })
  }

  /** Idempotent; legal without `start`. */
  async close(): Promise<void> {
    this.#stopping.abort()
    this.#beside.close()
    // amqplib's promise never settles when the socket dies before `close-ok`. `#run` ends all the same,
    // because the connection's `close` event always comes.
    if (this.#model) this.#model.close().catch(() => {})
    else this.#socket.abort()
    const giveUp = setTimeout(() => this.#socket.abort(), CLOSE_TIMEOUT_MS)
    // In case the abort has no effect on a TLS socket, which Node.js does not document.
    const isOver = new AbortController()
    const deadline = sleep(2 * CLOSE_TIMEOUT_MS, undefined, { signal: isOver.signal })
    await Promise.race([this.#running, deadline.catch(() => {})])
    isOver.abort()
    clearTimeout(giveUp)
  }

  /**
   * Ends a connection that has become useless; `#run` opens another. Destroys the stream: aborting the
   * socket's signal would give no reason.
   */
  abandon(reason: string): void {
    this.#stream?.destroy(new Error(reason))
  }

  /** True when few channels are left: RabbitMQ allows 2,047 per connection unless configured otherwise. */
  get isCrowded(): boolean {
    return this.channelsActive > CROWDED * this.#channelMax
  }

  /** We have closed it for good, so it no longer needs a place under RabbitMQ's connection limit. */
  get isEnded(): boolean {
    return this.#stopping.signal.aborted
  }

  /** The negotiated `channel_max`, which amqplib's types lack. */
  get #channelMax(): number {
    const { channelMax = 0xffff } = (this.#model?.connection ?? {}) as { channelMax?: number }
    return channelMax
  }

  get hasOneHost(): boolean {
    return this.#urls.length === 1
  }

  /** Opens another connection, to the first host. The caller ends it; it is never reopened. */
  openBeside(name: string): Promise<Beside> {
    return this.#beside.open(name)
  }

  /** Rejects when the connection is down. */
  async openChannel(): Promise<Channel> {
    return this.#watch(await this.#opened((model) => model.createChannel()))
  }

  async openConfirmChannel(): Promise<ConfirmChannel> {
    return this.#watch(await this.#opened((model) => model.createConfirmChannel()))
  }

  async #opened<C>(open: (model: ChannelModel) => Promise<C>): Promise<C> {
    const model = this.#model
    const gone = () => new Error(`no ${this.name} connection: ${this.downReason}`)
    if (!model) throw gone()
    const since = performance.now()
    const channel = await open(model).catch((error: unknown) => {
      this.channelLimit.notOpened(error, this.#channelMax)
      throw error
    })
    this.latencyMs = performance.now() - since
    // The connection went between the answer and here: the channel would never emit `close`.
    if (this.#model !== model) throw gone()
    return channel
  }

  /**
   * An `error` event without a listener on one channel takes down its sibling channels; a listener that
   * throws, without `handler-error`, takes down the whole connection (rabbitmq.md §5).
   */
  #watch<C extends Channel>(channel: C): C {
    this.channelsActive += 1
    channel.on('error', (error: Error & { code?: unknown }) => {
      this.#options.observer.channelError(this.name, Number(error.code ?? 0))
    })
    channel.on('close', () => {
      this.channelsActive -= 1
    })
    channel.on('handler-error', (error: Error, event: string) => {
      if (isUnknownConsumer(error)) this.#endChannelOf(channel, error)
      else this.#options.logger.error({ err: error, event }, 'bug: a channel listener threw')
    })
    return channel
  }

  /** For RabbitMQ such a delivery is unacknowledged until its channel ends. */
  #endChannelOf(channel: Channel, err: Error): void {
    this.#options.logger.warn(
      { connection: this.name, err },
      'delivery for an unknown consumer; its channel is closed',
    )
    void closeChannel(channel)
  }

  async #run(afterFirstAttempt: () => void): Promise<void> {
    const { observer, random } = this.#options
    for (let attempt = 1; !this.#stopping.signal.aborted; attempt++) {
      await this.#untilItMayOpen()
      if (this.#stopping.signal.aborted) break
      const failure = await this.#connectOnce(afterFirstAttempt)
      afterFirstAttempt()
      if (failure.wasUp) attempt = this.#wasLimited ? Math.min(attempt, MAX_LIMITED_ATTEMPT) : 1
      if (this.#stopping.signal.aborted) return
      const wasCut = await waitToReconnect({
        delayMs: reconnectDelayMs(attempt, random),
        portWasOpen: failure.reachedBroker,
        probe: () => isAnyListening(this.#urls),
        random,
        signal: this.#stopping.signal,
      })
      if (this.#stopping.signal.aborted) return
      observer.reconnecting(this.name, attempt)
      // A broker that has just opened its port may not be ready: start again with short waits.
      if (wasCut) attempt = 0
    }
    afterFirstAttempt()
  }

  async #untilItMayOpen(): Promise<void> {
    const { signal } = this.#stopping
    while (this.#mustStayDown() && !signal.aborted) {
      await sleep(LOOK_AGAIN_MS, undefined, { signal, ref: false }).catch(() => {})
    }
  }

  #mustStayDown(): boolean {
    return this.#options.behind?.some((prior) => !prior.isUp && !prior.isEnded) === true
  }

  #yieldPlace(): void {
    this.abandon('it waits until other connections of this process are open')
  }

  /** Tries each host once. Where one answers, resolves after that connection has ended. */
  async #connectOnce(onUp: () => void): Promise<{ wasUp: boolean; reachedBroker: boolean }> {
    let reachedBroker = false
    for (const url of this.#urls) {
      try {
        const ended = this.#adopt(await this.#open(url), url)
        onUp()
        await ended
        return { wasUp: true, reachedBroker: true }
      } catch (error) {
        this.#failures += 1
        reachedBroker ||= !isUnreachable(error)
        this.#noteDown(whyNotOpen(error, url), url)
      }
      if (this.#stopping.signal.aborted) break
    }
    return { wasUp: false, reachedBroker }
  }

  #open(url: URL): Promise<ChannelModel> {
    this.#socket = new AbortController()
    return openModel(url, this.#peer, this.#socket, this.#options.openMs)
  }

  /**
   * Resolves when the connection has ended. Listeners are registered in this same turn. Throws when the
   * connection ended in the same read that opened it: amqplib emitted that before a listener could be
   * registered.
   */
  #adopt(model: ChannelModel, url: URL): Promise<void> {
    const { logger, observer } = this.#options
    const stream = streamOf(model)
    // `writable` rather than "ended": a socket that was reset before amqplib ended it never counts as ended.
    if (stream?.writable === false) {
      this.#endSocket()
      throw new Error('RabbitMQ closed the connection as soon as it was open')
    }
    tune(model, stream, this.#options.isPrompt === true)
    this.#stream = stream
    const ended = new Promise<void>((resolve) => {
      let reason = 'connection closed'
      model.on('error', (error) => {
        reason = describeError(error)
        // amqplib closes the channels next; no channel may be opened on this connection meanwhile.
        this.#model = null
        // amqplib waits for the answer to its own `connection.close`, for ever if heartbeats go on meanwhile.
        setTimeout(() => stream?.destroy(new Error(reason)), CLOSE_TIMEOUT_MS).unref()
      })
      const watch = new AnswerWatch(model, {
        lookMs: this.#options.lookMs,
        isBlocked: () => this.blockedReason !== null,
        onSilent: (silence) => this.abandon(silence),
      })
      model.on('close', (error) => {
        watch.stop()
        this.#wasClosed = hasReplyCode(error)
        this.#lost(error ? describeError(error) : reason, url)
        resolve()
      })
      model.on('blocked', (text) => this.#setBlocked(text))
      model.on('unblocked', () => this.#setBlocked(null))
    })
    this.#model = model
    this.blockedReason = null
    this.downReason = ''
    this.isAfterRestart = !this.#wasClosed || this.#failures > 0
    this.#failures = 0
    this.generation += 1
    logger.info(
      { connection: this.name, host: url.host, version: this.serverVersion },
      'connected to RabbitMQ',
    )
    if (this.generation > 1) observer.reconnected(this.name)
    for (const listener of this.#listeners) listener.up?.()
    // A connection that has precedence may have gone while this one opened, and this one may hold its place.
    if (this.#mustStayDown()) this.#yieldPlace()
    return ended
  }

  #lost(reason: string, url: URL): void {
    this.#model = null
    this.#stream = null
    this.isAfterRestart = true
    this.blockedReason = null
    this.channelsActive = 0
    this.latencyMs = null
    this.#wasLimited = this.channelLimit.ended(reason)
    this.#endSocket()
    this.#noteDown(reason, url)
    for (const listener of this.#listeners) listener.down?.(reason)
  }

  /**
   * Frees a half-open socket, which would otherwise stay until the kernel gives it up. Delayed, so that a
   * last `connection.close-ok` still gets out.
   */
  #endSocket(): void {
    const socket = this.#socket
    setTimeout(() => socket.abort(), CLOSE_TIMEOUT_MS).unref()
  }

  #noteDown(reason: string, url: URL): void {
    if (this.#stopping.signal.aborted) return
    const isNews = this.downReason !== reason
    this.downReason = reason
    const fields = { connection: this.name, host: url.host, reason }
    if (isNews) this.#options.logger.warn(fields, 'no connection to RabbitMQ')
    else this.#options.logger.debug(fields, 'still no connection to RabbitMQ')
  }

  #setBlocked(reason: string | null): void {
    this.blockedReason = reason
    const fields = { connection: this.name, reason }
    if (reason === null) this.#options.logger.info(fields, 'RabbitMQ accepts publishes again')
    else this.#options.logger.warn(fields, 'RabbitMQ has blocked publishers')
    for (const listener of this.#listeners) {
      if (reason === null) listener.unblocked?.()
      else listener.blocked?.(reason)
    }
  }
}

/** True while the connection of generation `before` lives: what was learned on it still holds. */
export function isStill(
  { isUp, generation }: Pick<Connection, 'isUp' | 'generation'>,
  before: number,
): boolean {
  return isUp && generation === before
}

/**
 * Resolves when the channel is closed, by the broker's answer or with its connection. amqplib's own promise
 * waits for the answer only, so it may never settle. Never rejects.
 */
export function closeChannel(channel: Channel): Promise<void> {
  return new Promise((resolve) => {
    channel.once('close', () => resolve())
    // Rejects when the channel is closed already.
    channel.close().catch(() => resolve())
  })
}
