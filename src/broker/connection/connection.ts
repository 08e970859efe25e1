/** One AMQP connection that reconnects until it is closed (seed 002 §11.3). */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Channel, ConfirmChannel } from 'amqplib'
import { openModel, type PeerOptions } from '../amqplib/connect.ts'
import type { ConnectionName } from '../observer.ts'
import { ChannelLimit } from './channel-limit.ts'
import { isUnreachable, whyNotOpen } from './connect-error.ts'
import type { ConnectionListener, ConnectionOptions } from './connection-options.ts'
import { type Beside, ExtraConnections } from './extra-connections.ts'
import { CLOSE_TIMEOUT_MS, type ConnectionEnd, OpenConnection } from './open-connection.ts'
import { areAllListening, isAnyListening, reconnectDelayMs, waitToReconnect } from './reconnect.ts'

const LOOK_AGAIN_MS = 250
/** Seed 002 §11.1. A native worker's handlers may block its event loop that long. */
const HEARTBEAT_S = 60
/** Caps the backoff (16 s) when RabbitMQ accepts the connection but then ends it for too many channels. */
const MAX_LIMITED_ATTEMPT = 5

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
  /** Why there is no connection. Never contains credentials. */
  downReason = 'not connected yet'
  /** How long RabbitMQ took for the newest timed answer; null before the first. */
  latencyMs: number | null = null
  readonly channelLimit: ChannelLimit

  readonly #options: ConnectionOptions
  readonly #urls: readonly URL[]
  readonly #listeners: ConnectionListener[] = []
  readonly #stopping = new AbortController()
  /** From its opening until it has ended. */
  #present: OpenConnection | null = null
  /** Destroys the present socket, however stuck its peer is. */
  #socket = new AbortController()
  #running: Promise<void> | null = null
  readonly #peer: PeerOptions
  readonly #beside: ExtraConnections
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
    this.#beside = new ExtraConnections(this.#urls[0], this.#peer)
    for (const prior of options.behind ?? []) {
      prior.listen({ down: () => this.#mustStayDown() && this.#yieldPlace() })
    }
  }

  /** The present connection, unless it has failed. */
  get #usable(): OpenConnection | null {
    return this.#present?.isUsable ? this.#present : null
  }

  get isUp(): boolean {
    return this.#usable !== null
  }

  /** `serverProperties.version` of the present broker; '' while there is none. */
  get serverVersion(): string {
    return this.#usable?.serverVersion ?? ''
  }

  /** Why RabbitMQ blocks publishers (memory or disk alarm), or null. */
  get blockedReason(): string | null {
    return this.#present?.blockedReason ?? null
  }

  get channelsActive(): number {
    return this.#present?.channelsActive ?? 0
  }

  /** True when few channels are left. */
  get isCrowded(): boolean {
    return this.#present?.isCrowded ?? false
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

  /** Idempotent; legal without `start`. At the deadline, or after 2 s, the connection is cut. */
  async close(deadline?: AbortSignal): Promise<void> {
    this.#stopping.abort()
    this.#beside.close()
    if (this.#usable) this.#usable.close()
    else this.#socket.abort()
    const isOver = new AbortController()
    const cut = () => this.#socket.abort()
    const giveUp = setTimeout(cut, CLOSE_TIMEOUT_MS)
    if (deadline?.aborted) cut()
    deadline?.addEventListener('abort', cut, { signal: isOver.signal })
    // In case the abort has no effect on a TLS socket, which Node.js does not document.
    const end = sleep(2 * CLOSE_TIMEOUT_MS, undefined, { signal: isOver.signal })
    await Promise.race([this.#running, end.catch(() => {})])
    isOver.abort()
    clearTimeout(giveUp)
  }

  /** Ends a connection that has become useless; `#run` opens another. */
  abandon(reason: string): void {
    this.#present?.abandon(reason)
  }

  /** We have closed it for good, so it no longer needs a place under RabbitMQ's connection limit. */
  get isEnded(): boolean {
    return this.#stopping.signal.aborted
  }

  get hasOneHost(): boolean {
    return this.#urls.length === 1
  }

  /** Opens another connection, to the first host. The caller ends it; it is never reopened. */
  openBeside(name: string): Promise<Beside> {
    return this.#beside.open(name)
  }

  /** Rejects when the connection is down. */
  openChannel(): Promise<Channel> {
    return this.#opened((present) => present.openChannel())
  }

  openConfirmChannel(): Promise<ConfirmChannel> {
    return this.#opened((present) => present.openConfirmChannel())
  }

  async #opened<C>(open: (present: OpenConnection) => Promise<C>): Promise<C> {
    const present = this.#usable
    const gone = () => new Error(`no ${this.name} connection: ${this.downReason}`)
    if (!present) throw gone()
    const since = performance.now()
    const channel = await open(present).catch((error: unknown) => {
      this.channelLimit.notOpened(error, present.channelMax)
      throw error
    })
    // The connection went between the answer and here: the channel would never emit `close`.
    if (!present.isUsable) throw gone()
    this.latencyMs = performance.now() - since
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
        await this.#connect(url, onUp)
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

  /** Resolves when the connection to this host has ended. Rejects if it could not be opened. */
  async #connect(url: URL, onUp: () => void): Promise<void> {
    const socket = new AbortController()
    this.#socket = socket
    const model = await openModel(url, this.#peer, socket, this.#options.openMs)
    await new Promise<void>((resolve) => {
      this.#present = new OpenConnection({
        ...this.#options,
        model,
        socket,
        onBlocked: (reason) => this.#noteBlocked(reason),
        onEnd: (end) => {
          this.#lost(end, url)
          resolve()
        },
      })
      this.#noteUp(url)
      onUp()
    })
  }

  #noteUp(url: URL): void {
    const { logger, observer } = this.#options
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
  }

  #lost({ reason, wasClosed }: ConnectionEnd, url: URL): void {
    this.#present = null
    this.isAfterRestart = true
    this.latencyMs = null
    this.#wasClosed = wasClosed
    this.#wasLimited = this.channelLimit.ended(reason)
    this.#noteDown(reason, url)
    for (const listener of this.#listeners) listener.down?.(reason)
  }

  #noteDown(reason: string, url: URL): void {
    if (this.#stopping.signal.aborted) return
    const isNews = this.downReason !== reason
    this.downReason = reason
    const fields = { connection: this.name, host: url.host, reason }
    if (isNews) this.#options.logger.warn(fields, 'no connection to RabbitMQ')
    else this.#options.logger.debug(fields, 'still no connection to RabbitMQ')
  }

  #noteBlocked(reason: string | null): void {
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
