import type { Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Channel, ChannelModel, ConfirmChannel } from 'amqplib'
import { describeError, type Logger } from '../logger.ts'
import { hasReplyCode } from './amqp-error.ts'
import { openModel, type PeerOptions, streamOf, tune } from './amqp-model.ts'
import { type Beside, BesideConnections } from './beside.ts'
import { ChannelLimit } from './channel-limit.ts'
import { isUnreachable, whyNotOpen } from './connect-error.ts'
import type { BrokerObserver, ConnectionName } from './observer.ts'
import { areAllListening, isAnyListening, reconnectDelayMs, waitToReconnect } from './reconnect.ts'

const CLOSE_TIMEOUT_MS = 2_000
const LOOK_AGAIN_MS = 250
/** Seed 002 §11.1; the handlers of a native worker may keep its event loop that long. */
const HEARTBEAT_S = 60
/** Of the pauses before a connection that comes, and then needs too many channels: 16 s. */
const MAX_LIMITED_ATTEMPT = 5
/** Share of the negotiated channel limit from which a connection counts as crowded. */
const CROWDED = 3 / 4
/**
 * ✱ Where a network loses a connection without a word, RabbitMQ keeps it for three heartbeats, and
 * with it `ojs.system.owner` and every unacknowledged message: 180 s of 503 with the recommended 60 s.
 */
export const GATEWAY_HEARTBEAT_S = 10

export interface ConnectionOptions {
  name: ConnectionName
  urls: readonly string[]
  /** `connection_name` of the client properties: what operators see in RabbitMQ's management. */
  connectionName: string
  logger: Logger
  random: () => number
  observer: BrokerObserver
  /** Seconds, where the URL names none. Each side gives up a silent peer after two or three of them. */
  heartbeatS?: number
  /** Writes in the middle of a turn: for whom others wait while the turn goes on. */
  isPrompt?: boolean
  /** It is open only while all of these are: they need the places that a limit of RabbitMQ's leaves. */
  behind?: readonly Connection[]
}

/** Told in order, synchronously. None may throw. */
export interface ConnectionListener {
  up?(): void
  /** The connection and every channel of it are gone. */
  down?(reason: string): void
  blocked?(reason: string): void
  unblocked?(): void
}

/**
 * One AMQP connection that is always being kept up (seed 002 §11.3).
 *
 * amqplib's own `recovery` takes a single URL, its wait cannot be cut short, and it restores
 * neither channels nor consumers; what it would save is the ten lines of `#run`.
 */
export class Connection {
  readonly name: ConnectionName
  /** Counts successful connects; what belongs to an older one is dead. */
  generation = 0
  /**
   * RabbitMQ may have been started anew since the last connection: this is the first, RabbitMQ did not
   * say that it ended that one, an attempt has failed, or there is none.
   */
  isAfterRestart = true
  /** Why publishers are blocked (memory or disk alarm), or null. */
  blockedReason: string | null = null
  /** Why there is no connection. Never holds credentials. */
  downReason = 'not connected yet'
  channelsActive = 0
  /** How long RabbitMQ took for the newest answer that was timed; null before the first. */
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
  /** Attempts that failed since the last connection. */
  #failures = 0
  /** RabbitMQ said itself that it ended the last connection. */
  #wasClosed = false
  /** RabbitMQ ended the last one for its channels, as it may do with the next. */
  #wasLimited = false

  constructor(options: ConnectionOptions) {
    this.name = options.name
    this.#options = options
    this.channelLimit = new ChannelLimit(options.name, options.logger)
    this.#urls = options.urls.map((url) => new URL(url))
    const { connectionName, heartbeatS = HEARTBEAT_S } = options
    this.#peer = { connectionName, heartbeatS }
    this.#beside = new BesideConnections(this.#urls[0], this.#peer)
    for (const one of options.behind ?? []) {
      one.listen({ down: () => this.#comesTooSoon() && this.#makeRoom() })
    }
  }

  get isUp(): boolean {
    return this.#model !== null
  }

  /** `serverProperties.version` of the present broker; '' while there is none. */
  get serverVersion(): string {
    return this.#model?.connection.serverProperties.version ?? ''
  }

  /** Whether every host of the list takes connections. One alone is not asked. */
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
    // amqplib's promise stays open when the socket dies before `close-ok`; the end of `#run` does
    // not, because the connection's `close` event comes in any case.
    if (this.#model) this.#model.close().catch(() => {})
    else this.#socket.abort()
    const giveUp = setTimeout(() => this.#socket.abort(), CLOSE_TIMEOUT_MS)
    // A TLS socket does not heed the signal: the deadline holds for it too.
    const isOver = new AbortController()
    const deadline = sleep(2 * CLOSE_TIMEOUT_MS, undefined, { signal: isOver.signal })
    await Promise.race([this.#running, deadline.catch(() => {})])
    isOver.abort()
    clearTimeout(giveUp)
  }

  /**
   * Ends this connection, which nothing can be done with any more; another one follows. By its stream:
   * the signal of the socket would tell no reason, and not reach TLS.
   */
  abandon(reason: string): void {
    this.#stream?.destroy(new Error(reason))
  }

  /** Others may soon get no channel: RabbitMQ allows 2,047, unless it is configured otherwise. */
  get isCrowded(): boolean {
    return this.channelsActive > CROWDED * this.#channelMax
  }

  /** Closed by us: it needs no place any more. */
  get isEnded(): boolean {
    return this.#stopping.signal.aborted
  }

  /** As negotiated; amqplib's types do not have it. */
  get #channelMax(): number {
    const { channelMax = 0xffff } = (this.#model?.connection ?? {}) as { channelMax?: number }
    return channelMax
  }

  get hasOneHost(): boolean {
    return this.#urls.length === 1
  }

  /** Another one, to the first host. It is the caller's to end, and nobody has it up again. */
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
    const model = this.#live()
    const since = performance.now()
    const channel = await open(model).catch((error: unknown) => {
      this.channelLimit.notOpened(error, this.#channelMax)
      throw error
    })
    this.latencyMs = performance.now() - since
    // It went between the answer and here: nobody would tell the channel's end any more.
    if (this.#model !== model) throw new Error(`no ${this.name} connection: ${this.downReason}`)
    return channel
  }

  #live(): ChannelModel {
    if (!this.#model) throw new Error(`no ${this.name} connection: ${this.downReason}`)
    return this.#model
  }

  /**
   * A channel without an `error` listener takes its siblings down with it, and a listener that
   * throws without `handler-error` the whole connection (rabbitmq.md §5).
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
      this.#options.logger.error({ err: error, event }, 'bug: a channel listener threw')
    })
    return channel
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
      // A broker that has just opened its port may not be ready: short waits again.
      if (wasCut) attempt = 0
    }
    afterFirstAttempt()
  }

  async #untilItMayOpen(): Promise<void> {
    const { signal } = this.#stopping
    while (this.#comesTooSoon() && !signal.aborted) {
      await sleep(LOOK_AGAIN_MS, undefined, { signal, ref: false }).catch(() => {})
    }
  }

  #comesTooSoon(): boolean {
    return this.#options.behind?.some((one) => !one.isUp && !one.isEnded) === true
  }

  #makeRoom(): void {
    this.abandon('another connection comes first')
  }

  /** One round over all hosts; when one answers, resolves after that connection has ended. */
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
    return openModel(url, { ...this.#peer, signal: this.#socket.signal })
  }

  /**
   * Resolves when the connection has ended. Listeners come first, before any other turn. Throws for
   * one that ended in the very read that opened it: amqplib told that before anybody could listen.
   */
  #adopt(model: ChannelModel, url: URL): Promise<void> {
    const { logger, observer } = this.#options
    const stream = streamOf(model)
    // Or destroyed: what was reset before amqplib had ended it is never ended.
    if (stream?.writable === false) {
      this.#endSocket()
      throw new Error('closed by RabbitMQ as soon as it was open')
    }
    tune(model, stream, this.#options.isPrompt === true)
    this.#stream = stream
    const ended = new Promise<void>((resolve) => {
      let reason = 'connection closed'
      model.on('error', (error) => {
        reason = describeError(error)
        // Channels are closed next; none may be opened on this connection meanwhile.
        this.#model = null
      })
      model.on('close', (error) => {
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
    // Gone while this one was being opened, which may have got the place.
    if (this.#comesTooSoon()) this.#makeRoom()
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
   * The peer may be half open: without this the socket would stay until the kernel gives up. Not at
   * once, so that a last `connection.close-ok` still gets out.
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

/** It has not ended since it was of this generation: what was learned on it then holds still. */
export function isStill(
  { isUp, generation }: Pick<Connection, 'isUp' | 'generation'>,
  before: number,
): boolean {
  return isUp && generation === before
}

/**
 * Resolves when the channel is closed, by the broker's answer or with its connection: amqplib's
 * own promise waits for the answer alone, for ever if need be. Never rejects.
 */
export function closeChannel(channel: Channel): Promise<void> {
  return new Promise((resolve) => {
    channel.once('close', () => resolve())
    // Rejects when it is closed already.
    channel.close().catch(() => resolve())
  })
}
