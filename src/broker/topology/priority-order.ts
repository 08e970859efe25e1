/** In which order a broker's version and queue type serve priorities. */
import type { PriorityOrder } from '../broker.ts'
import { isAtLeast, type QueueProfile } from './queue-arguments.ts'

/** OJS 0–9, as the AMQP property carries it (seed 002 §6.1). */
const LEVELS = 10

/**
 * How a broker orders a job queue by message priority. Null: unknown, because quorum queues differ from
 * version to version and the version is not known.
 */
export function priorityOrder(profile: QueueProfile, version: string): PriorityOrder | null {
  if (profile === 'classic') return { levels: LEVELS, isStrict: true }
  if (version === '') return null
  if (isAtLeast(version, 4, 3)) return { levels: LEVELS, isStrict: true }
  // Priorities above 4 are high; two high messages are delivered for each other one.
  if (isAtLeast(version, 4, 0)) return { levels: 2, isStrict: false }
  return { levels: 1, isStrict: true }
}
