/** What messages of the gateway's own queues say: a death, or a native schedule. */
import { membersOf } from '../../job/values/json-value.ts'
import type { DeadLetter, ScheduledMessage } from '../broker.ts'
import type { Names } from '../names.ts'
import type { LiveDelivery } from './delivery.ts'

const REASONS = ['rejected', 'expired', 'maxlen', 'delivery_limit'] as const

/** Reads from a message of `ojs.system.dead-letters` what died, where and why. */
export function deadLetterOf(delivery: LiveDelivery, names: Names): DeadLetter {
  const facts = readOnly(delivery)
  const death = lastDeath(facts.message.headers)
  const reason = REASONS.find((known) => known === death['reason']) ?? 'unknown'
  // `{queue}`, or the name of a control queue.
  const { routingKey } = delivery.raw.fields
  const origin = originOf(death['queue'], names) ?? originOf(routingKey, names)
  return { ...facts, ...(origin ?? { queue: routingKey, isControl: false }), reason }
}

/** From a message of `ojs.system.due`; its routing key, unchanged since the publish, is the target queue. */
export function scheduledMessageOf(delivery: LiveDelivery): ScheduledMessage {
  return { ...readOnly(delivery), queue: delivery.raw.fields.routingKey }
}

/** What the hooks get of a delivery, which `SystemConsumer` settles. */
function readOnly(delivery: LiveDelivery): Omit<ScheduledMessage, 'queue'> {
  const { id, generation, attempt, maxAttempts, message } = delivery
  return { id, generation, attempt, maxAttempts, message, carry: () => delivery.carry() }
}

/**
 * The newest death, which RabbitMQ puts first. Not `x-first-death-queue`, which names a retry queue for every
 * job that was ever retried. Empty when the message was published here by hand, or by us.
 */
function lastDeath(headers: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const deaths = headers['x-death']
  return membersOf(Array.isArray(deaths) ? deaths[0] : undefined)
}

/** Null: not one of our queues; foreign queues may dead-letter to our exchange too. */
function originOf(name: unknown, names: Names): Pick<DeadLetter, 'queue' | 'isControl'> | null {
  if (typeof name !== 'string') return null
  const control = names.controlQueue('')
  if (name.startsWith(control)) return { queue: name.slice(control.length), isControl: true }
  const job = names.jobQueue('')
  return name.startsWith(job) ? { queue: name.slice(job.length), isControl: false } : null
}
