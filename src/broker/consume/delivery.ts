/** A delivery, bound to the channel that received it, and where it is until it is settled. */
import type { ConsumeMessage } from 'amqplib'
import type { Carry } from '../../job/job.ts'
import type { Delivery, ForeignMessage, Settled } from '../broker.ts'
import { carryOf, factsOf, foreignMessage } from '../messages/incoming-message.ts'

/**
 * Where an unsettled delivery is; whoever takes it sets this.
 *
 * - `buffered`: not requested yet (`queue-consumer.ts`); the initial place.
 * - `out`: with the operations layer, or being processed by a native worker (`queue-consumer.ts`,
 *   `system-consumer.ts`, `worker/dispatcher.ts`).
 * - `parked`: set aside until its row moves (`parked-deliveries.ts`).
 * - `gone`: settled, given back, or its channel is dead (`consumer-channel.ts`): nothing can be done with it.
 */
export type Place = 'buffered' | 'out' | 'parked' | 'gone'

const NOTHING = Buffer.alloc(0)
const LIMIT_MEMBER = Buffer.from('"rate_limit"')
const KEY_MEMBER = Buffer.from('"concurrency"')

/** What a delivery needs of the channel that received it (`consumer-channel.ts`). */
export interface ReceivingChannel {
  readonly queue: string
  settle(delivery: LiveDelivery, how: 'ack' | 'dead-letter'): Settled
  giveBack(delivery: LiveDelivery): void
}

/**
 * A delivery, bound to the consumer channel, hence to the channel object, that received it
 * (docs/architecture.md, law 6).
 */
export class LiveDelivery implements Delivery {
  readonly queue: string
  readonly id: string
  readonly generation: number
  readonly attempt: number
  readonly maxAttempts: number | null
  readonly redelivered: boolean
  readonly priority: number
  order: number
  /** Since when it is in the buffer; clock time. */
  bufferedAt = 0
  readonly consumerChannel: ReceivingChannel
  raw: ConsumeMessage
  place: Place = 'buffered'

  constructor(consumerChannel: ReceivingChannel, raw: ConsumeMessage, order: number) {
    const facts = factsOf(raw)
    this.queue = consumerChannel.queue
    this.id = facts.id
    this.generation = facts.generation
    this.attempt = facts.attempt
    this.maxAttempts = facts.maxAttempts
    this.redelivered = raw.fields.redelivered
    this.priority = facts.priority
    this.order = order
    this.consumerChannel = consumerChannel
    this.raw = raw
  }

  get message(): ForeignMessage {
    return foreignMessage(this.raw)
  }

  get size(): number {
    return this.raw.content.length
  }

  mayBeLimited(): boolean {
    return this.raw.content.includes(LIMIT_MEMBER)
  }

  /** False: the job has no concurrency key. One scan of the body. */
  mayBeKeyed(): boolean {
    return this.raw.content.includes(KEY_MEMBER)
  }

  carry(): Carry {
    return carryOf(this.message)
  }

  forgetContent(): void {
    this.raw = { ...this.raw, content: NOTHING }
  }

  isLive(): boolean {
    return this.place !== 'gone'
  }

  ack(): Settled {
    return this.consumerChannel.settle(this, 'ack')
  }

  deadLetter(): Settled {
    return this.consumerChannel.settle(this, 'dead-letter')
  }

  /** Gives the unassigned delivery back to RabbitMQ. */
  giveBack(): void {
    this.consumerChannel.giveBack(this)
  }
}
