import { publishRefusal } from '../../broker/refusals.ts'
import type { NamedJob } from '../../job/request.ts'
import { briefly, broadcastCancel } from '../broadcasts.ts'
import { followBriefly } from '../cancel.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { isForLater } from './unknown-jobs.ts'

/**
 * So many come again until workers can be told: half of what a control queue may have in hand, so
 * that they never keep the reports behind them from being read, however long RabbitMQ is blocked.
 */
const MAX_UNTOLD = 16

/**
 * CANCEL by a message of the control queue of `queue` (seed 002 §5.6). A job that has ended stays
 * as it is. An unknown id leaves a tombstone, because its token may come from a native producer at
 * any time; workers of that queue hear of it at once. One write, whatever it is: a claim may be right
 * behind it (`earlier-writes.ts`). Rejects (503) when the ledger cannot be written, and when the
 * workers cannot be told.
 */
export async function controlCancel(
  deps: Deps,
  { job_id: id, queue }: NamedJob & { queue: string },
  context: RequestContext,
): Promise<void> {
  const cancelled = await deps.ledger.cancelAny(id, queue, deps.clock.now())
  if (cancelled === 'tombstoned') await tellOfUnknown(deps, id, queue)
  else if (cancelled !== 'stale') await followBriefly(deps, cancelled, context)
}

/**
 * No row owes the broadcast: the message has to come again where it is surely not published. Not where
 * RabbitMQ only takes its time: what is behind this message cannot wait as long.
 */
async function tellOfUnknown(deps: Deps, id: string, queue: string): Promise<void> {
  const outcome = await briefly(broadcastCancel(deps, { id, queue, generation: 0 }))
  if (!isForLater(deps, outcome)) {
    deps.transient.untold.clear()
    return
  }
  // Workers that missed it hear of it when their heartbeat names the id.
  if (deps.transient.untold.size >= MAX_UNTOLD && !deps.transient.untold.has(id)) return
  deps.transient.untold.add(id)
  throw publishRefusal(queue, outcome)
}
