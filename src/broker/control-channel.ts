import type { Channel, ConsumeMessage } from 'amqplib'
import { type Connection, closeChannel } from './connection.ts'

export interface ControlChannelOptions {
  connection: Connection
  /** Per consumer. */
  prefetch: number
  onMessage(channel: ControlChannel, queue: string, message: ConsumeMessage): void
  /** The broker has ended this one consumer: its queue is gone. */
  onCancelled(channel: ControlChannel, queue: string): void
  /** The channel is gone, and with it every consumer and what was not settled. */
  onClosed(channel: ControlChannel, unsettled: number, error: unknown): void
}

/**
 * One channel with the consumers of many control queues: there may be a thousand of those, most of
 * them silent, and RabbitMQ limits the channels of a connection. (A `Block` has its channel to
 * itself, because a job may be held for its whole lease; a control message is settled at once.)
 */
export class ControlChannel {
  readonly #options: ControlChannelOptions
  readonly #tags = new Map<string, string>()
  #opening: Promise<Channel> | null = null
  #channel: Channel | null = null
  #error: unknown = null
  #unsettled = 0
  #isDraining = false
  /** What comes is left to RabbitMQ, whose it is again when the channel is closed. */
  #isMuted = false
  /** Drained, and no message is on its way any more. */
  #isCancelled = false
  #isClosed = false

  constructor(options: ControlChannelOptions) {
    this.#options = options
  }

  get unsettled(): number {
    return this.#unsettled
  }

  /** Rejects when it cannot be consumed; the channel is gone then, unless the connection is down. */
  async consume(queue: string, source: string, consumerTag: string): Promise<void> {
    this.#opening ??= this.#open()
    const channel = await this.#opening
    if (this.#isDraining) throw new Error('the channel takes no consumers any more')
    this.#tags.set(queue, consumerTag)
    await channel.consume(source, (message) => this.#onMessage(queue, consumerTag, message), {
      consumerTag,
    })
  }

  /** No message of this queue comes any more, but for those that are on their way. */
  async cancel(queue: string): Promise<void> {
    const tag = this.#tags.get(queue)
    this.#tags.delete(queue)
    // A failure means that the channel is gone, and then `close` has told so.
    if (tag !== undefined) await this.#channel?.cancel(tag).catch(() => {})
  }

  /** Nothing new; closes when everything that is here has been settled. */
  async drain(): Promise<void> {
    // Before anything is waited for: nobody would cancel a consumer that comes meanwhile.
    this.#isDraining = true
    await Promise.all([...this.#tags.keys()].map((queue) => this.cancel(queue)))
    this.#isCancelled = true
    this.#closeIfDrained()
  }

  /**
   * Drains, and waits for no cancel before nothing new is taken: those of a thousand consumers, one after
   * another, took a busy RabbitMQ 25 s. What was on its way is redelivered to the next gateway.
   */
  mute(): void {
    this.#isMuted = true
    void this.drain()
  }

  /** Resolves when the broker has seen everything that was settled. */
  async close(): Promise<void> {
    const channel = this.#channel
    this.#end()
    if (channel) await closeChannel(channel)
  }

  /** `requeue`: it comes again. Nothing happens where the channel is gone: it comes again anyway. */
  settle(message: ConsumeMessage, how: 'ack' | 'dead-letter' | 'requeue'): boolean {
    if (this.#isClosed || !this.#channel) return false
    this.#unsettled -= 1
    try {
      if (how === 'ack') this.#channel.ack(message)
      else this.#channel.nack(message, false, how === 'requeue')
    } catch {
      // It is closing: amqplib throws synchronously.
      return false
    }
    this.#closeIfDrained()
    return true
  }

  async #open(): Promise<Channel> {
    try {
      const channel = await this.#options.connection.openChannel()
      this.#channel = channel
      channel.on('error', (error) => {
        this.#error = error
      })
      channel.on('close', () => this.#end())
      // Drained before it was open.
      if (this.#isClosed) void closeChannel(channel)
      // AMQP-007. Per consumer: quorum queues know no limit for a whole channel.
      else await channel.prefetch(this.#options.prefetch)
      return channel
    } catch (error) {
      this.#end()
      throw error
    }
  }

  #onMessage(queue: string, tag: string, message: ConsumeMessage | null): void {
    if (this.#isClosed || this.#isMuted) return
    if (message === null) {
      if (this.#tags.get(queue) !== tag) return
      this.#tags.delete(queue)
      this.#options.onCancelled(this, queue)
      return
    }
    this.#unsettled += 1
    this.#options.onMessage(this, queue, message)
  }

  #closeIfDrained(): void {
    if (this.#isCancelled && this.#unsettled === 0) void this.close()
  }

  #end(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    const unsettled = this.#unsettled
    this.#unsettled = 0
    this.#options.onClosed(this, unsettled, this.#error)
  }
}
