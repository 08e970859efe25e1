import type { Names } from './names.ts'
import type { Outgoing } from './publish-lane.ts'
import { CONTENT_TYPE } from './token.ts'

/** A JSON message of the control plane (architecture §5). */
export interface ControlMessage {
  /** `message_id`; unique, because a return names nothing else. */
  id: string
  /** OJS queue whose control queue takes it. */
  queue: string
  /** e.g. `ojs.control.report`. */
  type: string
  /** JSON text. */
  body: string
}

/** To `ojs.queue.control.{queue}`, mandatory: an unroutable message would be confirmed and lost. */
export function outgoingControl(names: Names, message: ControlMessage): Outgoing {
  return {
    id: message.id,
    queue: message.queue,
    exchange: names.exchange.direct,
    routingKey: names.controlQueue(message.queue),
    rungMs: null,
    lanes: 'jobs',
    content: Buffer.from(message.body),
    options: {
      mandatory: true,
      persistent: true,
      contentType: CONTENT_TYPE,
      contentEncoding: 'utf-8',
      messageId: message.id,
      type: message.type,
      timestamp: Math.floor(Date.now() / 1000),
      appId: 'ojs',
    },
  }
}

/** Routing key of what workers of a queue must hear; the exchange carries the prefix. */
export function workersKey(queue: string): string {
  return `ojs.control.workers.${queue}`
}
