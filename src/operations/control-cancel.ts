import type { NamedJob } from '../job/request.ts'
import { briefly, broadcastCancel } from './broadcasts.ts'
import { cancelJob } from './cancel.ts'
import type { Deps, RequestContext } from './deps.ts'

/**
 * CANCEL by a message of the control queue of `queue` (seed 002 §5.6). A job that has ended stays
 * as it is. An unknown id leaves a tombstone, because its token may come from a native producer at
 * any time; workers of that queue hear of it at once. Rejects when the ledger cannot be written.
 */
export async function controlCancel(
  deps: Deps,
  { job_id: id, queue }: NamedJob & { queue: string },
  context: RequestContext,
): Promise<void> {
  const isUnknown = await deps.ledger.tombstone(id, queue, deps.clock.now())
  if (isUnknown) await briefly(broadcastCancel(deps, { id, queue, generation: 0 }))
  else await cancelJob(deps, id, context)
}
