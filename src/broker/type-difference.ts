import type { Difference } from './amqp-error.ts'
import type { QueueProfile } from './arguments.ts'

/**
 * What the one argument that RabbitMQ names tells of the queue's type, which it mostly does not name:
 * in words, or null where it tells nothing. ✱ 3.10.8: a classic queue refuses the two of quorum queues,
 * a quorum queue refuses priorities, and of an `x-overflow` that is not there is told where the queue is
 * classic, but for a quorum queue with the strategy alone.
 */
export function typeDifference(wanted: unknown, { argument, actual }: Difference): string | null {
  const told = typeIn(wanted, argument, actual)
  return told && `${told.isCertain ? 'it is' : 'it may be'} a ${told.type} queue, wanted ${wanted}`
}

interface Told {
  type: QueueProfile
  isCertain: boolean
}

function typeIn(wanted: unknown, argument: string, actual: string): Told | null {
  const isThere = actual !== 'none'
  switch (argument) {
    case 'x-queue-type':
      // Who declares a queue without a type gets a classic one, but where the vhost has another default.
      if (!isThere) return wanted === 'quorum' ? { type: 'classic', isCertain: true } : null
      return actual === 'classic' || actual === 'quorum' ? { type: actual, isCertain: true } : null
    case 'x-max-priority':
      return wanted === 'quorum' && isThere ? { type: 'classic', isCertain: true } : null
    case 'x-overflow':
      return wanted === 'quorum' && !isThere ? { type: 'classic', isCertain: false } : null
    case 'x-dead-letter-strategy':
    case 'x-delivery-limit':
      return wanted === 'classic' && isThere ? { type: 'quorum', isCertain: true } : null
    default:
      return null
  }
}
