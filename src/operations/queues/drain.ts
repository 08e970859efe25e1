/** DRAIN: a queue takes no new jobs, and works off what it has. */
import { queueRefusal } from '../../broker/broker-errors.ts'
import { OjsError } from '../../errors.ts'
import { timestamp } from '../../job/document.ts'
import type { Deps, RequestContext } from '../deps.ts'

export interface Drain {
  since: number
  /** Jobs that are not over yet, in whatever state. */
  left: number
}

/** Null: the queue does not drain. */
export function drainOf({ ledger }: Pick<Deps, 'ledger'>, queue: string): Drain | null {
  const since = ledger.known.queueSettings.of(queue)?.drainingAt ?? null
  if (since === null) return null
  const { completed: _, cancelled: __, discarded: ___, ...live } = ledger.known.counts(queue)
  return { since, left: Object.values(live).reduce((sum, count) => sum + count, 0) }
}

/** Throws 422 `queue_paused` for a queue that drains (OJS queue configuration). On the hot path. */
export function requireNotDraining({ ledger }: Pick<Deps, 'ledger'>, queue: string): void {
  const drainingAt = ledger.known.queueSettings.of(queue)?.drainingAt ?? null
  if (drainingAt === null) return
  throw new OjsError('queue_paused', `Queue '${queue}' is being drained and takes no new jobs.`, {
    details: { queue, reason: 'queue_draining', draining_since: timestamp(drainingAt) },
  })
}

/**
 * The queue takes no new jobs from now on: PUSH, batches, workflows and recurring jobs are refused, as for a
 * paused queue. All else goes on: workers get its jobs, retries and schedules become available. Draining a
 * queue that drains changes nothing. RESUME ends it. Throws 404 for an unknown queue, 503.
 */
export async function drainQueue(
  deps: Deps,
  queue: string,
  { requestId, principal }: RequestContext,
): Promise<Drain> {
  if (!deps.ledger.known.hasQueue(queue)) throw queueRefusal(queue, 'missing')
  const { since, isNew } = await deps.ledger.queueSettings.drain(queue, deps.clock.now())
  if (isNew) deps.logger.info({ queue, requestId, principal }, 'queue drains')
  return { since, left: drainOf(deps, queue)?.left ?? 0 }
}
