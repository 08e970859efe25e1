/** Settles many jobs in one request: each as its ACK or NACK would, all in one commit. */
import type { JobRow } from '../../job/job.ts'
import type { SettleItem, SettleRequest } from '../../job/request.ts'
import { isTraceparent, isTracestate } from '../../job/trace/traceparent.ts'
import { requireReadable } from '../../schemas/json/json-list.ts'
import { jobIdIn } from '../../schemas/requests/invalid-events.ts'
import { parseSettle, parseSettleItem } from '../../schemas/requests/validator.ts'
import { startNow } from '../../slices.ts'
import { traced } from '../../telemetry/tracing.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { ack } from './ack.ts'
import { nack } from './nack.ts'

/** What became of one item. `error`: what the ACK or NACK threw; the item changed nothing. */
export type Settled =
  | { action: SettleItem['action']; job: JobRow }
  | { id: unknown; error: unknown }

/**
 * The list pauses after this time, as a group commit does: only megabytes of results take so long. What comes
 * after the pause is in another commit.
 */
const TURN_MS = 50

/**
 * ACKs and NACKs of many jobs (an addition): each item is settled and answered exactly as its own request
 * would be. The ledger is asked for all of them in one turn, so that they share a group commit; a NACK whose retry
 * queue is yet to be declared is therefore held by the ledger instead. Resolves after the commits, in the order of the items. Throws 400 for a malformed
 * list, of which nothing is settled; a malformed item is refused by its own answer.
 */
export async function settle(
  deps: Deps,
  body: unknown,
  context: RequestContext,
): Promise<Settled[]> {
  const outcomes = await startNow(begin(deps, parseSettle(body), context))
  return await Promise.all(outcomes)
}

function* begin(
  deps: Deps,
  { worker_id, items }: SettleRequest,
  context: RequestContext,
): Generator<void, Promise<Settled>[]> {
  const outcomes: Promise<Settled>[] = []
  let until = performance.now() + TURN_MS
  for (const item of items) {
    outcomes.push(settleOne(deps, { item, worker_id }, context))
    if (performance.now() < until) continue
    yield
    until = performance.now() + TURN_MS
  }
  return outcomes
}

async function settleOne(
  deps: Deps,
  { item, worker_id }: { item: unknown; worker_id: SettleRequest['worker_id'] },
  shared: RequestContext,
): Promise<Settled> {
  try {
    requireReadable(item)
    const parsed = parseSettleItem(item)
    const { action } = parsed
    const own = parsed['worker_id'] == null ? { ...parsed, worker_id } : parsed
    const context = contextOf(parsed, shared)
    const job =
      action === 'ack'
        ? await traced('ojs.ack', context, () => ack(deps, own, context))
        : await traced('ojs.nack', context, () => nack(deps, own, context, { mayWait: false }))
    return { action, job }
  } catch (error) {
    return { id: jobIdIn(item), error }
  }
}

/** One request reports executions of many traces, so an item may name its own. */
function contextOf(
  { traceparent, tracestate }: SettleItem,
  shared: RequestContext,
): RequestContext {
  if (typeof traceparent !== 'string' || !isTraceparent(traceparent)) return shared
  const { tracestate: _, ...context } = shared
  const isState = typeof tracestate === 'string' && isTracestate(tracestate)
  return { ...context, traceparent, ...(isState && { tracestate }) }
}
