import type { ScheduledMessage } from './broker.ts'
import type { LiveDelivery } from './delivery.ts'

/** From a message of `ojs.system.due`; where it was to go is its routing key, as it was published. */
export function scheduledMessageOf(delivery: LiveDelivery): ScheduledMessage {
  const { id, generation, attempt, maxAttempts, message, raw } = delivery
  const queue = raw.fields.routingKey
  return { id, generation, attempt, maxAttempts, message, queue, carry: () => delivery.carry() }
}
