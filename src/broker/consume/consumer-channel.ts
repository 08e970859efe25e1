/** One channel with one consumer of a job queue: its states and unsettled deliveries. */
import type { Channel, ConsumeMessage } from 'amqplib'
import type { Settled } from '../broker.ts'
import {
  type ChannelFailure,
  classify,
  closeChannel,
  isNoChannel,
} from '../connection/channel-error.ts'
import type { Connection } from '../connection/connection.ts'
import type { Denials } from '../connection/permissions.ts'
import { LiveDelivery } from './delivery.ts'

/**
 * - `cancelling`: `basic.cancel` is under way; deliveries may still come.
 * - `draining`: no consumer any more, but unsettled deliveries.
 * - `closed`: the channel is gone, and with it every delivery.
 */
export type ConsumerState = 'opening' | 'running' | 'cancelling' | 'draining' | 'closed'

/** Why a consumer channel ended; `closed`: we closed it. */
export type ConsumerEnd =
  | { why: 'closed' | 'connection-lost' | 'cancelled-by-broker' | 'queue-missing' | 'no-channel' }
  | { why: 'channel-error'; failure: ChannelFailure }

/** The user may not consume; `Denials` has reported that already. */
export function isDenied(end: ConsumerEnd): boolean {
  return end.why === 'channel-error' && end.failure.kind === 'access-refused'
}

/** RabbitMQ reported with this end that the queue is gone; `queue-missing` comes from our own check. */
export function isQueueGone(end: ConsumerEnd): boolean {
  if (end.why === 'cancelled-by-broker') return true
  return end.why === 'channel-error' && end.failure.kind === 'not-found'
}

export interface ConsumerChannelOptions {
  connection: Connection
  /** Absent: the owner itself reports that it may not consume. */
  denials?: Denials
  queue: string
  /** Name of the AMQP queue. */
  source: string
  /** Unique per registration: a reused tag loses wake-ups of quorum queues up to 3.12.4. */
  tag: string
  /** The most deliveries that it holds unsettled. */
  prefetch: number
  /** If given: how many of them for this consumer, asked when RabbitMQ has counted the queue's consumers. */
  sizeBeside?(consumers: number): number
  consumerPriority: number
  /** From the last settlement to the close of a drained channel; default 0. */
  lingerMs?: number
  /** Next number of the process-wide arrival order. */
  nextOrder(): number
  onDelivery(delivery: LiveDelivery): void
  onGivenBack?(): void
  /** `from`: where the delivery was before. */
  onSettled(delivery: LiveDelivery, from: LiveDelivery['place'], how: 'ack' | 'dead-letter'): void
  /** `lost`: the unsettled deliveries, already marked as gone. */
  onEnd(consumerChannel: ConsumerChannel, end: ConsumerEnd, lost: readonly LiveDelivery[]): void
}

/**
 * One consumer on a channel of its own (docs/architecture.md §4.4): whatever closes that channel, such as
 * RabbitMQ's delivery timeout, affects at most `prefetch` deliveries.
 */
export class ConsumerChannel {
  readonly queue: string
  readonly tag: string
  state: ConsumerState = 'opening'
  /** RabbitMQ accepted the consumer once, whatever became of it. */
  wasAccepted = false
  /** `basic.consume` was sent, so RabbitMQ may have accepted the consumer. */
  #hasAsked = false
  prefetch: number
  readonly #options: ConsumerChannelOptions
  readonly #unsettled = new Set<LiveDelivery>()
  #channel: Channel | null = null
  #error: unknown = null
  #closing: Promise<void> | null = null

  constructor(options: ConsumerChannelOptions) {
    this.queue = options.queue
    this.tag = options.tag
    this.prefetch = options.prefetch
    this.#options = options
  }

  get unacked(): number {
    return this.#unsettled.size
  }

  get isFull(): boolean {
    return this.#unsettled.size >= this.prefetch
  }

  /** RabbitMQ may count it among the consumers of the queue. A quorum queue does until it is drained. */
  get isCounted(): boolean {
    return this.#hasAsked && this.state !== 'closed'
  }

  /** Never rejects: `onEnd` tells what went wrong. */
  async open(): Promise<void> {
    const { connection, source, consumerPriority, denials, sizeBeside } = this.#options
    try {
      const channel = await connection.openChannel()
      // Closed meanwhile: deliveries on this channel would belong to nobody.
      if (this.isIn('closed')) return await closeChannel(channel)
      this.#channel = channel
      channel.on('error', (error) => {
        this.#error = error
      })
      channel.on('close', () => this.#end(this.#endOfChannel()))
      if (sizeBeside) {
        const { consumerCount } = await channel.checkQueue(source)
        this.prefetch = sizeBeside(consumerCount)
      }
      // AMQP-007: before consuming; a running consumer keeps its prefetch.
      await channel.prefetch(this.prefetch)
      this.#hasAsked = true
      await channel.consume(source, (message) => this.#onMessage(message), {
        consumerTag: this.tag,
        ...(consumerPriority !== 0 && { priority: consumerPriority }),
      })
      this.wasAccepted = true
      denials?.mayConsume(source)
      if (this.state === 'opening') this.state = 'running'
    } catch (error) {
      this.#error ??= error
      this.#end(this.#endOfChannel())
    }
  }

  /** Resolves when no further delivery can come. */
  async cancel(): Promise<void> {
    if (this.state !== 'running' || !this.#channel) return
    this.state = 'cancelling'
    // A failure means that the channel is gone, and then `close` was emitted.
    await this.#channel.cancel(this.tag).catch(() => {})
    if (this.isIn('cancelling')) this.state = 'draining'
    this.#closeIfDrained()
  }

  settle(delivery: LiveDelivery, how: 'ack' | 'dead-letter'): Settled {
    const from = delivery.place
    if (!this.#release(delivery)) return 'lost'
    const isSent = this.#send((channel) => {
      if (how === 'ack') channel.ack(delivery.raw)
      else channel.nack(delivery.raw, false, false)
    })
    if (isSent) this.#options.onSettled(delivery, from, how)
    this.#closeIfDrained()
    return isSent ? 'settled' : 'lost'
  }

  /** Gives an unassigned delivery back to RabbitMQ. */
  giveBack(delivery: LiveDelivery): void {
    if (!this.#release(delivery)) return
    if (this.#send((channel) => channel.nack(delivery.raw, false, true))) {
      this.#options.onGivenBack?.()
    }
    this.#closeIfDrained()
  }

  /**
   * Resolves when RabbitMQ has seen everything sent on the channel, settlements included: `connection.close`
   * would overtake channels whose frames are still queued in amqplib. Unsettled deliveries return to
   * RabbitMQ.
   */
  close(): Promise<void> {
    this.#closing ??= this.#leave({ why: 'closed' })
    return this.#closing
  }

  /**
   * Ends the consumer channel because its queue is gone, and with it every delivery. When the name is
   * declared anew first, RabbitMQ 3.10 does not cancel the consumer of a deleted quorum queue: the channel
   * would stay silent for ever. A consumer channel that has not sent its consume yet finds out by itself.
   */
  orphan(): void {
    if (this.#hasAsked) void this.#leave({ why: 'queue-missing' })
  }

  isIn(state: ConsumerState): boolean {
    return this.state === state
  }

  #closeIfDrained(): void {
    if (this.state !== 'draining' || this.#unsettled.size > 0) return
    const { lingerMs = 0 } = this.#options
    if (lingerMs === 0) void this.close()
    else setTimeout(() => void this.close(), lingerMs).unref()
  }

  /** Ends the consumer channel and, unless it has ended before, its channel. */
  async #leave(end: ConsumerEnd): Promise<void> {
    if (this.state === 'closed') return
    this.#end(end)
    if (this.#channel) await closeChannel(this.#channel)
  }

  #onMessage(message: ConsumeMessage | null): void {
    if (this.state === 'closed') return
    if (message === null) {
      // Seed 002 §10.4. Deliveries of this channel may have returned to RabbitMQ already.
      void this.#leave({ why: 'cancelled-by-broker' })
      return
    }
    const delivery = new LiveDelivery(this, message, this.#options.nextOrder())
    this.#unsettled.add(delivery)
    this.#options.onDelivery(delivery)
  }

  /** False when the delivery could no longer be settled here. */
  #release(delivery: LiveDelivery): boolean {
    if (!this.#unsettled.delete(delivery)) return false
    delivery.place = 'gone'
    return true
  }

  /** amqplib throws synchronously on a channel that is closing or closed. */
  #send(write: (channel: Channel) => void): boolean {
    if (this.state === 'closed' || !this.#channel) return false
    try {
      write(this.#channel)
      return true
    } catch {
      return false
    }
  }

  #endOfChannel(): ConsumerEnd {
    const failure = classify(this.#error)
    const { denials, source } = this.#options
    if (failure.kind === 'access-refused') denials?.mayNotConsume(source, failure.text)
    const { isUp } = this.#options.connection
    if (isUp && isNoChannel(this.#error)) return { why: 'no-channel' }
    return !isUp || failure.kind === 'unavailable'
      ? { why: 'connection-lost' }
      : { why: 'channel-error', failure }
  }

  #end(end: ConsumerEnd): void {
    if (this.state === 'closed') return
    this.state = 'closed'
    const lost = [...this.#unsettled]
    this.#unsettled.clear()
    for (const delivery of lost) delivery.place = 'gone'
    this.#options.onEnd(this, end, lost)
  }
}
