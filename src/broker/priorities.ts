import { isAtLeast, type QueueProfile } from './arguments.ts'
import type { PriorityOrder } from './broker.ts'

/** OJS 0–9, as the AMQP property carries it (seed 002 §6.1). */
const LEVELS = 10

/**
 * What a broker makes of the priority of a message in a job queue (rabbitmq.md §2.3). Null: quorum
 * queues differ from version to version, and this one is not known.
 */
export function priorityOrder(profile: QueueProfile, version: string): PriorityOrder | null {
  if (profile === 'classic') return { levels: LEVELS, isStrict: true }
  if (version === '') return null
  if (isAtLeast(version, 4, 3)) return { levels: LEVELS, isStrict: true }
  // Above 4 is high; two of those are delivered for each of the others.
  if (isAtLeast(version, 4, 0)) return { levels: 2, isStrict: false }
  return { levels: 1, isStrict: true }
}
