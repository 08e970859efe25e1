import type { Options } from 'amqplib'
import { OJS_MEDIA_TYPE } from '../job/media-type.ts'
import type { Names } from './names.ts'
import type { Outgoing } from './publish-lane.ts'

/**
 * RabbitMQ's direct reply-to, as a pseudo-queue and as `reply_to` of a question: an address that
 * lives as long as its asker's channel. Who publishes the bare name without consuming it has their
 * channel closed.
 */
export const DIRECT_REPLY = 'amq.rabbitmq.reply-to'

/** A JSON message of the control plane (architecture §5). */
interface ToControlQueue {
  /** `message_id`; unique, because a return names nothing else. */
  id: string
  /** OJS queue whose control queue takes it. */
  queue: string
  /** e.g. `ojs.control.report`. */
  type: string
  /** JSON text. */
  body: string
}

/**
 * To `ojs.queue.control.{queue}`. Mandatory: an unroutable message would be confirmed and lost.
 * `wall`: now, in ms.
 */
export function outgoingControl(names: Names, message: ToControlQueue, wall: number): Outgoing {
  return {
    id: message.id,
    queue: message.queue,
    exchange: names.exchange.direct,
    routingKey: names.controlQueue(message.queue),
    rungMs: null,
    group: 'jobs',
    content: Buffer.from(message.body),
    options: { ...controlOptions(message, wall), mandatory: true, persistent: true },
  }
}

/** What every message of the control plane says of itself, in either direction. */
export function controlOptions(
  { id, type }: { id: string; type: string },
  wall: number,
): Options.Publish {
  return {
    messageId: id,
    type,
    contentType: OJS_MEDIA_TYPE,
    contentEncoding: 'utf-8',
    timestamp: Math.floor(wall / 1000),
    appId: 'ojs',
  }
}

/** Routing key of what workers of a queue must hear; the exchange carries the prefix. */
export function workersKey(queue: string): string {
  return `ojs.control.workers.${queue}`
}
