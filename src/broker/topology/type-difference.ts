import type { Difference } from '../connection/channel-error.ts'
import type { QueueProfile } from './queue-arguments.ts'

/**
 * Infers the queue's type, which RabbitMQ mostly does not name, from the one argument that it names: in
 * words, or null when it implies nothing. ✱ 3.10.8: a classic queue refuses the two arguments of quorum
 * queues, a quorum queue refuses priorities; a missing `x-overflow` is named for a classic queue, and for a
 * quorum queue that has only the strategy.
 */
export function typeDifference(wanted: unknown, { argument, actual }: Difference): string | null {
  const inferred = typeIn(wanted, argument, actual)
  return (
    inferred &&
    `${inferred.isCertain ? 'it is' : 'it may be'} a ${inferred.type} queue, expected ${wanted}`
  )
}

interface Inferred {
  type: QueueProfile
  isCertain: boolean
}

function typeIn(wanted: unknown, argument: string, actual: string): Inferred | null {
  const isThere = actual !== 'none'
  switch (argument) {
    case 'x-queue-type':
      // A queue declared without a type is classic, unless the vhost has another default.
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
