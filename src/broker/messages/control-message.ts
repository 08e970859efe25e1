/** Messages of the control plane on their way out, and where answers may go. */
import type { Options } from 'amqplib'
import { OJS_MEDIA_TYPE } from '../../job/document.ts'
import type { Names } from '../names.ts'
import { MAX_SHORT_BYTES } from './headers.ts'
import type { Outgoing } from './outgoing-message.ts'

/**
 * RabbitMQ's direct reply-to, as a pseudo-queue and as the `reply_to` of a question: an address that lives as
 * long as the asker's channel. RabbitMQ closes the channel of a client that publishes with the bare name
 * without consuming it.
 */
export const DIRECT_REPLY = 'amq.rabbitmq.reply-to'

/** Our names under any prefix: a reply must never land in a job queue, whoever owns that. */
const OWN_NAME = /(?:^|\.)ojs\./
const CONTROL_CHARACTER = /\p{Cc}/u

/** A JSON message of the control plane (docs/architecture.md §5). */
interface ToControlQueue {
  /** `message_id`; unique, because a return identifies its publish by nothing else. */
  id: string
  /** OJS queue whose control queue receives the message. */
  queue: string
  /** e.g. `ojs.control.report`. */
  type: string
  /** JSON text. */
  body: string
}

/**
 * A message to `ojs.queue.control.{queue}`. Mandatory: otherwise an unroutable message would be confirmed and
 * lost. `wall`: wall time now, in ms.
 */
export function outgoingControl(names: Names, message: ToControlQueue, wall: number): Outgoing {
  return {
    id: message.id,
    queue: message.queue,
    exchange: names.exchange.direct,
    routingKey: names.controlQueue(message.queue),
    retryQueueMs: null,
    group: 'jobs',
    content: Buffer.from(message.body),
    options: { ...controlOptions(message, wall), mandatory: true, persistent: true },
  }
}

/** Properties of every control plane message, in either direction. */
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

/** Routing key of broadcasts to the workers of a queue; the prefix is in the exchange's name. */
export function workersKey(queue: string): string {
  return `ojs.control.workers.${queue}`
}

/** True for an address that we may publish an answer to: a queue of the asker, or its direct reply-to. */
export function isReplyAddress(replyTo: string): boolean {
  return (
    replyTo !== '' &&
    Buffer.byteLength(replyTo) <= MAX_SHORT_BYTES &&
    !OWN_NAME.test(replyTo) &&
    !CONTROL_CHARACTER.test(replyTo)
  )
}
