/** One opened connection: its channels, its blocks, its end. */
import type { Writable } from 'node:stream'
import type { Channel, ChannelModel, ConfirmChannel } from 'amqplib'
import { describeError } from '../../logger.ts'
import { streamOf, tune } from '../amqplib/connect.ts'
import { closeChannel, hasReplyCode, isUnknownConsumer } from './channel-error.ts'
import type { ConnectionOptions } from './connection-options.ts'
import { AnswerWatch } from './liveness.ts'

/** How long a socket is kept after its connection has ended, or should have. */
export const CLOSE_TIMEOUT_MS = 2_000
/** Share of the negotiated channel limit from which a connection counts as crowded. */
const CROWDED = 3 / 4

export interface OpenConnectionOptions
  extends Pick<ConnectionOptions, 'name' | 'logger' | 'observer' | 'isPrompt' | 'lookMs'> {
  model: ChannelModel
  /** Aborting it destroys the socket, however stuck its peer is. */
  socket: AbortController
  /** `reason`: why RabbitMQ blocks publishers; null when it accepts publishes again. */
  onBlocked(reason: string | null): void
  /** Called once, after all channels have emitted `close`. */
  onEnd(end: ConnectionEnd): void
}

export interface ConnectionEnd {
  reason: string
  /** RabbitMQ has announced the end (`connection.close`). */
  wasClosed: boolean
}

/** One connection of amqplib's, from the turn in which it was opened to its end. */
export class OpenConnection {
  /** Why RabbitMQ blocks publishers (memory or disk alarm), or null. */
  blockedReason: string | null = null
  channelsActive = 0

  readonly #options: OpenConnectionOptions
  readonly #model: ChannelModel
  readonly #stream: Writable | null
  #isUsable = true

  /**
   * Throws when the connection ended in the same read that opened it: amqplib emitted that before a listener
   * could be registered.
   */
  constructor(options: OpenConnectionOptions) {
    const { model, isPrompt = false } = options
    const stream = streamOf(model)
    this.#options = options
    this.#model = model
    this.#stream = stream
    // `writable` rather than "ended": a socket that was reset before amqplib ended it never counts as ended.
    if (stream?.writable === false) {
      this.#endSocket()
      throw new Error('RabbitMQ closed the connection as soon as it was open')
    }
    tune(model, stream, isPrompt)
    this.#listen()
  }

  #listen(): void {
    const { lookMs, onEnd } = this.#options
    let reason = 'connection closed'
    this.#model.on('error', (error) => {
      reason = describeError(error)
      // amqplib closes the channels next; no channel may be opened on this connection meanwhile.
      this.#isUsable = false
      // amqplib waits for the answer to its own `connection.close`, for ever if heartbeats go on meanwhile.
      setTimeout(() => this.abandon(reason), CLOSE_TIMEOUT_MS).unref()
    })
    const watch = new AnswerWatch(this.#model, {
      lookMs,
      isBlocked: () => this.blockedReason !== null,
      onSilent: (silence) => this.abandon(silence),
    })
    this.#model.on('close', (error) => {
      watch.stop()
      this.#isUsable = false
      this.#endSocket()
      onEnd({
        reason: error ? describeError(error) : reason,
        wasClosed: hasReplyCode(error),
      })
    })
    this.#model.on('blocked', (text) => this.#setBlocked(text))
    this.#model.on('unblocked', () => this.#setBlocked(null))
  }

  /** False once it fails: then nothing more can be opened on it, and `onEnd` follows. */
  get isUsable(): boolean {
    return this.#isUsable
  }

  /** `serverProperties.version` of the broker. */
  get serverVersion(): string {
    return this.#model.connection.serverProperties.version
  }

  /** The negotiated `channel_max`, which amqplib's types lack. */
  get channelMax(): number {
    const { channelMax = 0xffff } = this.#model.connection as { channelMax?: number }
    return channelMax
  }

  /** True when few channels are left: RabbitMQ allows 2,047 per connection unless configured otherwise. */
  get isCrowded(): boolean {
    return this.channelsActive > CROWDED * this.channelMax
  }

  async openChannel(): Promise<Channel> {
    return this.#watch(await this.#model.createChannel())
  }

  async openConfirmChannel(): Promise<ConfirmChannel> {
    return this.#watch(await this.#model.createConfirmChannel())
  }

  /** Asks RabbitMQ to close it; `onEnd` follows. If there is no answer, only aborting `socket` ends it. */
  close(): void {
    // amqplib's promise never settles when the socket dies before `close-ok`; its `close` event always comes.
    this.#model.close().catch(() => {})
  }

  /** Ends it at once. Destroys the stream: aborting the socket's signal would give no reason. */
  abandon(reason: string): void {
    this.#stream?.destroy(new Error(reason))
  }

  /**
   * An `error` event without a listener on one channel takes down its sibling channels; a listener that
   * throws, without `handler-error`, takes down the whole connection.
   */
  #watch<C extends Channel>(channel: C): C {
    const { name, observer, logger } = this.#options
    this.channelsActive += 1
    channel.on('error', (error: Error & { code?: unknown }) => {
      observer.channelError(name, Number(error.code ?? 0))
    })
    channel.on('close', () => {
      this.channelsActive -= 1
    })
    channel.on('handler-error', (error: Error, event: string) => {
      if (isUnknownConsumer(error)) this.#endChannelOf(channel, error)
      else logger.error({ err: error, event }, 'bug: a channel listener threw')
    })
    return channel
  }

  /** For RabbitMQ such a delivery is unacknowledged until its channel ends. */
  #endChannelOf(channel: Channel, err: Error): void {
    const { name, logger } = this.#options
    logger.warn(
      { connection: name, err },
      'delivery for an unknown consumer; its channel is closed',
    )
    void closeChannel(channel)
  }

  /**
   * Frees a half-open socket, which would otherwise stay until the kernel gives it up. Delayed, so that a
   * last `connection.close-ok` still gets out.
   */
  #endSocket(): void {
    const { socket } = this.#options
    setTimeout(() => socket.abort(), CLOSE_TIMEOUT_MS).unref()
  }

  #setBlocked(reason: string | null): void {
    this.blockedReason = reason
    this.#options.onBlocked(reason)
  }
}
