import type { Cancelled } from '../ledger/ledger.ts'
import { explainTerminal } from './conflicts.ts'
import type { Deps, RequestContext } from './deps.ts'
import { settleLease } from './lease-end.ts'

/**
 * CANCEL (seed 001 §7.7): any non-terminal state becomes `cancelled` at once, an active one too
 * (ojs-digest C-14); its late ACK is a 409. A token that is still queued is dropped when it comes.
 * Throws 404, 409 when the job is in a terminal state, 503.
 */
export async function cancel(deps: Deps, id: string, context: RequestContext): Promise<Cancelled> {
  const cancelled = await deps.ledger.cancel(id, deps.clock.now())
  if (cancelled === 'stale') throw explainTerminal(deps, id)
  if (settleLease(deps, id)) deps.ledger.tokenReturned(id, cancelled.job.generation)
  deps.events.emit({ type: 'job.cancelled', ...cancelled, requestId: context.requestId })
  return cancelled
}
