/** CANCEL: a job that has not ended becomes `cancelled` at once, and native workers are told. */

import { isStale, type Stale } from '../job/stale.ts'
import type { Cancelled } from '../ledger/ended.ts'
import type { Deps, RequestContext } from './deps.ts'
import { followBriefly } from './job-end.ts'
import { explainTerminal } from './job-errors.ts'

/**
 * CANCEL (seed 001 §7.7): any non-terminal job becomes `cancelled` at once, an active one too (ojs-choices
 * C-14); a late ACK then gets a 409. A job message that is still queued is dropped when it arrives. The
 * answer waits briefly for the broadcast to native workers, so that they know even if the gateway dies right
 * after it. Throws 404, 409 when the job is in a terminal state, 503.
 */
export async function cancel(deps: Deps, id: string, context: RequestContext): Promise<Cancelled> {
  const cancelled = await cancelJob(deps, id, context)
  if (isStale(cancelled)) throw explainTerminal(deps, id, cancelled)
  return cancelled
}

/** As `cancel`, for callers without a client to answer. `Stale`: the job is unknown or had ended. */
export async function cancelJob(
  deps: Deps,
  id: string,
  context: RequestContext,
): Promise<Cancelled | Stale> {
  const cancelled = await deps.ledger.cancel(id, deps.clock.now(), context)
  if (!isStale(cancelled)) await followBriefly(deps, cancelled, context)
  return cancelled
}
