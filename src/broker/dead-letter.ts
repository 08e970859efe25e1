import { membersOf } from '../job/json-value.ts'
import type { DeadLetter } from './broker.ts'
import type { LiveDelivery } from './delivery.ts'
import type { Names } from './names.ts'

const REASONS = ['rejected', 'expired', 'maxlen', 'delivery_limit'] as const

/** Reads from a message of `ojs.system.dead-letters` what died, where and why. */
export function deadLetterOf(delivery: LiveDelivery, names: Names): DeadLetter {
  const { id, generation, attempt, maxAttempts, message, raw } = delivery
  const death = lastDeath(message.headers)
  const { queue, isControl } =
    originOf(death['queue'], names) ?? originOfKey(raw.fields.routingKey, names)
  const reason = REASONS.find((known) => known === death['reason']) ?? 'unknown'
  return {
    id,
    generation,
    attempt,
    maxAttempts,
    message,
    queue,
    isControl,
    reason,
    carry: () => delivery.carry(),
  }
}

/**
 * The newest death, which RabbitMQ puts first. Not `x-first-death-queue`, which names a rung for every job
 * that was ever retried. Empty when the message was published here by hand, or by us.
 */
function lastDeath(headers: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const deaths = headers['x-death']
  return membersOf(Array.isArray(deaths) ? deaths[0] : undefined)
}

interface Origin {
  queue: string
  isControl: boolean
}

/** Null: not one of our queues; foreign queues may dead-letter to our exchange too. */
function originOf(name: unknown, names: Names): Origin | null {
  if (typeof name !== 'string') return null
  const control = names.controlQueue('')
  if (name.startsWith(control)) return { queue: name.slice(control.length), isControl: true }
  const job = names.jobQueue('')
  return name.startsWith(job) ? { queue: name.slice(job.length), isControl: false } : null
}

/** Reads a routing key: `{queue}`, or the name of a control queue. */
function originOfKey(key: string, names: Names): Origin {
  return originOf(key, names) ?? { queue: key, isControl: false }
}
