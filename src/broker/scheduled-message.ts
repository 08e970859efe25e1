import type { ScheduledMessage } from './broker.ts'
import type { LiveDelivery } from './delivery.ts'

/** From a message of `ojs.system.due`; its routing key, unchanged since the publish, is the target queue. */
export function scheduledMessageOf(delivery: LiveDelivery): ScheduledMessage {
  const { id, generation, attempt, maxAttempts, message, raw } = delivery
  const queue = raw.fields.routingKey
  return { id, generation, attempt, maxAttempts, message, queue, carry: () => delivery.carry() }
}
