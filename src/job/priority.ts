/** A new priority for a job that waits: which jobs may get one, and what becomes of their message. */
import { isWaitingWithNative } from './arrival.ts'
import { isHeldByKey } from './concurrency.ts'
import type { JobRow } from './job.ts'

/** Why a job keeps its priority: it is unknown, in another state, or its only message is with a native worker. */
export type PriorityRefusal = 'not_found' | 'state' | 'with_native'

type Waiting = Pick<JobRow, 'state' | 'holder' | 'messageOut' | 'outbox' | 'retryQueueMs'>

/** The states in which a job has a priority that still matters (OJS priority; `pending` is an addition). */
export const PRIORITIZED = ['available', 'scheduled', 'pending'] as const

/** Null: the job may get another priority. */
export function priorityRefusal(row: Waiting): PriorityRefusal | null {
  if (!PRIORITIZED.some((state) => state === row.state)) return 'state'
  return isWaitingWithNative(row) ? 'with_native' : null
}

/**
 * True if a message with the old priority is in RabbitMQ or on its way there. RabbitMQ cannot change a message, so
 * the job goes on in the next generation, and the old message is dropped when it arrives (docs/architecture.md §2).
 */
export function hasMessage(row: Waiting): boolean {
  if (row.state === 'pending' || isHeldByKey(row)) return false
  return row.outbox !== null || (row.state === 'available' ? true : row.retryQueueMs !== null)
}
