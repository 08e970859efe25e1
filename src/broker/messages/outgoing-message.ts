/** A message on its way to RabbitMQ: what to publish, where to, and over which channels. */
import type { Options } from 'amqplib'

/** Which channels may carry a message: `jobs` to job and control queues, `others` to everything else. */
export type ChannelGroup = 'jobs' | 'others'

export interface Outgoing {
  /** `message_id`: the only thing by which a return identifies its publish. */
  id: string
  /** OJS queue, for the counters. */
  queue: string
  exchange: string
  routingKey: string
  /** The retry queue that the message goes to; null: to where the queue itself is consumed. */
  retryQueueMs: number | null
  group: ChannelGroup
  content: Buffer
  options: Options.Publish
}
