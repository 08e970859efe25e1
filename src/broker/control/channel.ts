/** The few channels that the consumers of all control queues share. */
import type { Channel, ConsumeMessage } from 'amqplib'
import { closeChannel } from '../connection/channel-error.ts'
import type { Connection } from '../connection/connection.ts'

export interface ControlChannelOptions {
  connection: Connection
  /** Per consumer. */
  prefetch: number
  onMessage(channel: ControlChannel, queue: string, message: ConsumeMessage): void
  /** RabbitMQ cancelled this one consumer: its queue is gone. */
  onCancelled(channel: ControlChannel, queue: string): void
  /** The channel is gone, and with it every consumer and every unsettled delivery. */
  onClosed(channel: ControlChannel, unsettled: number, error: unknown): void
}

/**
 * One channel with the consumers of many control queues: there may be a thousand, most of them silent, and
 * RabbitMQ limits the channels of a connection. (A `ConsumerChannel` has its own channel, because a job may
 * be held for its whole lease; a control message is settled at once.)
 */
export class ControlChannel {
  readonly #options: ControlChannelOptions
  readonly #tags = new Map<string, string>()
  #opening: Promise<Channel> | null = null
  #channel: Channel | null = null
  #error: unknown = null
  #unsettled = 0
  #isDraining = false
  /** Incoming messages are ignored; they return to RabbitMQ when the channel closes. */
  #isMuted = false
  /** Every consumer is cancelled, and no message is on its way any more. */
  #isCancelled = false
  #isClosed = false

  constructor(options: ControlChannelOptions) {
    this.#options = options
  }

  /** Its messages can no longer be settled: RabbitMQ delivers them again. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  get unsettled(): number {
    return this.#unsettled
  }

  /**
   * Rejects when the queue cannot be consumed; the channel is gone then, unless the connection is down. `priority`:
   * of consumers of the queue RabbitMQ serves the one with the highest that has room.
   */
  async consume(
    queue: string,
    source: string,
    { consumerTag, priority }: { consumerTag: string; priority: number },
  ): Promise<void> {
    this.#opening ??= this.#open()
    const channel = await this.#opening
    if (this.#isDraining) throw new Error('the channel accepts no more consumers')
    this.#tags.set(queue, consumerTag)
    await channel.consume(source, (message) => this.#onMessage(queue, consumerTag, message), {
      consumerTag,
      priority,
    })
  }

  /** Resolves when no further message of this queue can come, except those on their way. */
  async cancel(queue: string): Promise<void> {
    const tag = this.#tags.get(queue)
    this.#tags.delete(queue)
    // A failure means that the channel is gone, and then `close` was emitted.
    if (tag !== undefined) await this.#channel?.cancel(tag).catch(() => {})
  }

  /** Cancels all consumers; closes the channel when every message received is settled. */
  async drain(): Promise<void> {
    // Set before the first await: a consumer added meanwhile would never be cancelled.
    this.#isDraining = true
    await Promise.all([...this.#tags.keys()].map((queue) => this.cancel(queue)))
    this.#isCancelled = true
    this.#closeIfDrained()
  }

  /**
   * Drains, but ignores new messages at once, without waiting for the cancels: a thousand, one after another,
   * took a busy RabbitMQ 25 s. Ignored messages are redelivered to the next gateway.
   */
  mute(): void {
    this.#isMuted = true
    void this.drain()
  }

  /** Resolves when RabbitMQ has seen every settlement. */
  async close(): Promise<void> {
    const channel = this.#channel
    this.#end()
    if (channel) await closeChannel(channel)
  }

  /** `requeue`: RabbitMQ redelivers it. False: the channel is gone, so that RabbitMQ redelivers it anyway. */
  settle(message: ConsumeMessage, how: 'ack' | 'dead-letter' | 'requeue'): boolean {
    if (this.#isClosed || !this.#channel) return false
    this.#unsettled -= 1
    try {
      if (how === 'ack') this.#channel.ack(message)
      else this.#channel.nack(message, false, how === 'requeue')
    } catch {
      // The channel is closing: amqplib throws synchronously.
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
      // The channel was ended before it was open.
      if (this.#isClosed) void closeChannel(channel)
      // AMQP-007. Per consumer: quorum queues support no limit for a whole channel.
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

/** Number of channels for all control queues together; doubtful queues get one more. */
const CHANNELS = 4

export class ControlChannels {
  readonly #options: ControlChannelOptions
  readonly #channels: (ControlChannel | undefined)[] = []
  /** Channels with an unanswered consume: nothing else gets through them. */
  readonly #unanswered = new Set<ControlChannel>()
  #turn = 0

  constructor(options: ControlChannelOptions) {
    this.#options = options
  }

  /** Number of unsettled deliveries. */
  get unsettled(): number {
    return this.#channels.reduce((sum, channel) => sum + (channel?.unsettled ?? 0), 0)
  }

  /** Takes turns. Doubtful queues share a channel of their own, which they may block or have closed. */
  next({ isDoubtful }: { isDoubtful: boolean }): ControlChannel {
    const index = isDoubtful ? CHANNELS : this.#freeIndex()
    this.#turn += 1
    const present = this.#channels[index]
    if (present !== undefined) return present
    const channel = new ControlChannel(this.#options)
    this.#channels[index] = channel
    return channel
  }

  /** Uses this channel last until `consumed` settles. */
  avoidUntil(channel: ControlChannel, consumed: Promise<void>): void {
    this.#unanswered.add(channel)
    const forget = () => this.#unanswered.delete(channel)
    consumed.then(forget, forget)
  }

  /** False: the channel was no longer in use. */
  remove(closed: ControlChannel): boolean {
    const index = this.#channels.indexOf(closed)
    if (index === -1) return false
    this.#channels[index] = undefined
    return true
  }

  /** Returns all channels in use and forgets them. */
  takeAll(): ControlChannel[] {
    this.#unanswered.clear()
    return this.#channels.splice(0).filter((channel) => channel !== undefined)
  }

  #freeIndex(): number {
    const inTurn = Array.from({ length: CHANNELS }, (_, i) => (this.#turn + i) % CHANNELS)
    const isFree = (index: number) => {
      const present = this.#channels[index]
      return present === undefined || !this.#unanswered.has(present)
    }
    return inTurn.find(isFree) ?? this.#turn % CHANNELS
  }
}
