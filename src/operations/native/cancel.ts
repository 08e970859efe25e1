/** CANCEL by control message; an unknown id leaves a tombstone. */
import { publishRefusal } from '../../broker/broker-errors.ts'
import type { NamedJob } from '../../job/request.ts'
import { isStale } from '../../job/stale.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { followBriefly } from '../job-end.ts'
import { briefly, broadcastCancel } from '../workers/broadcasts.ts'
import { NOTHING_REFUSED, type Refused, refusedOf, scopeOf } from './scope.ts'
import { isForLater } from './unknown-jobs.ts'

/**
 * At most this many cancels of unknown ids are redelivered until their broadcast succeeds: half of a control
 * queue's prefetch, so that they never block the reports behind them, however long RabbitMQ is blocked.
 */
const MAX_UNTOLD = 16

/**
 * CANCEL by a message of the control queue of `queue` (seed 002 §5.6). A job that has ended stays as it is.
 * An unknown id leaves a tombstone, because its job message may come from a native producer at any time, and
 * is broadcast to the workers of that queue at once. A single ledger write in every case, as
 * `earlier-writes.ts` requires for a claim that follows. Rejects (503) when the ledger cannot be written or
 * the broadcast of an unknown id cannot be published. A job of another queue is refused, if the scope says
 * so.
 */
export async function controlCancel(
  deps: Deps,
  { job_id: id, queue }: NamedJob & { queue: string },
  context: RequestContext,
): Promise<Refused> {
  const isScoped = scopeOf(deps, queue) !== null
  const cancelled = await deps.ledger.cancelAny(id, queue, deps.clock.now(), isScoped, context)
  if (cancelled === 'elsewhere') return refusedOf([['other_queue', id]])
  if (cancelled === 'tombstoned') await tellOfUnknown(deps, id, queue)
  else if (!isStale(cancelled)) await followBriefly(deps, cancelled, context)
  return NOTHING_REFUSED
}

/**
 * Broadcasts the cancel of an unknown id. No outbox owes this broadcast, so this rejects when it was surely
 * not published, and RabbitMQ delivers the control message again. It does not reject for a slow confirm: the
 * messages behind this one cannot wait that long.
 */
async function tellOfUnknown(deps: Deps, id: string, queue: string): Promise<void> {
  const outcome = await briefly(broadcastCancel(deps, { id, queue, generation: 0 }))
  if (!isForLater(deps, outcome)) {
    deps.transient.untold.clear()
    return
  }
  // Not redelivered: a worker that missed the broadcast gets it when its heartbeat names the id.
  if (deps.transient.untold.size >= MAX_UNTOLD && !deps.transient.untold.has(id)) return
  deps.transient.untold.add(id)
  throw publishRefusal(queue, outcome)
}
