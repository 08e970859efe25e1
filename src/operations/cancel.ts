import type { Cancelled } from '../ledger/ledger.ts'
import { briefly } from './broadcasts.ts'
import type { Deps, RequestContext } from './deps.ts'
import { explainTerminal } from './job-refusals.ts'
import { noteEnded, settleLease } from './lease/lease-end.ts'
import { isUnsent, sendOrLeave } from './token/send-token.ts'

/**
 * CANCEL (seed 001 §7.7): any non-terminal state becomes `cancelled` at once, an active one too
 * (ojs-digest C-14); its late ACK is a 409. A token that is still queued is dropped when it comes.
 * The answer waits for the broadcast to native workers, so that a gateway which dies right behind
 * it has told them. Throws 404, 409 when the job is in a terminal state, 503.
 */
export async function cancel(deps: Deps, id: string, context: RequestContext): Promise<Cancelled> {
  const cancelled = await cancelJob(deps, id, context)
  if (cancelled === 'stale') throw explainTerminal(deps, id)
  return cancelled
}

/** The same for a door that has nobody to answer. `stale`: unknown, or it had ended. */
export async function cancelJob(
  deps: Deps,
  id: string,
  context: RequestContext,
): Promise<Cancelled | 'stale'> {
  const cancelled = await deps.ledger.cancel(id, deps.clock.now())
  if (cancelled !== 'stale') await followBriefly(deps, cancelled, context)
  return cancelled
}

/** Waits for the broadcast, where one is owed, but for no longer than a caller should. */
export async function followBriefly(
  deps: Deps,
  cancelled: Cancelled,
  context: RequestContext,
): Promise<void> {
  const told = followCancel(deps, cancelled, context)
  if (cancelled.job.outbox !== null) await briefly(told)
}

/** The rest of it, behind the commit. Settles when the workers have been told. */
export async function followCancel(
  deps: Deps,
  cancelled: Cancelled,
  context: RequestContext,
): Promise<void> {
  const { job } = cancelled
  if (settleLease(deps, job.id) || isUnsent(deps, cancelled)) {
    deps.ledger.tokenReturned(job.id, job.generation)
  }
  noteEnded(deps, job)
  deps.events.emit({ type: 'job.cancelled', ...cancelled, requestId: context.requestId })
  if (job.outbox !== null) await sendOrLeave(deps, job)
}
