/** The heartbeat of a native worker: extends leases, starts unreported jobs, repeats what it missed. */
import type { JobRow } from '../../job/job.ts'
import type { Refusal } from '../../job/native/report.ts'
import type { NativeHeartbeat } from '../../job/request.ts'
import type { ExtendedLease } from '../../ledger/leases.ts'
import type { BeatResult } from '../../ledger/native.ts'
import type { LeaseFacts } from '../../telemetry/events.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { emitPromoted } from '../emit-promoted.ts'
import { acknowledgeEarly } from '../lease/hand-over.ts'
import { broadcastCancel, broadcastDirective } from '../workers/broadcasts.ts'
import { isStronger } from '../workers/worker-registry.ts'
import { NOTHING_REFUSED, type Refused, refusedOf, scopeOf } from './scope.ts'

/**
 * Handles the heartbeat of a native worker (seed 002 §5.7): extends its leases, and starts jobs that it
 * names but has not reported as started. Broadcasts again what the worker seems to have missed: cancelled
 * jobs and its directive. `heardOn`: the queue whose control queue the heartbeat came by. Resolves after
 * the commit; rejects when the ledger cannot be written.
 */
export async function nativeHeartbeat(
  deps: Deps,
  request: NativeHeartbeat,
  context: RequestContext,
  heardOn: string,
): Promise<Refused> {
  const { worker_id: workerId, job_ids: ids, visibility_timeout_ms: leaseMs } = request
  const directive = deps.workers.beaten({
    ...request,
    workerId,
    heardOn,
    activeJobs: ids.length,
    activeJobIds: ids,
  })
  if (directive !== 'running' && isStronger(directive, request.state ?? 'running')) {
    const queue = deps.workers.queuesOf(workerId)[0] ?? heardOn
    void broadcastDirective(deps, { queue, workerId, state: directive })
  }
  if (ids.length === 0) return NOTHING_REFUSED
  const results = await deps.ledger.beatNative(ids, {
    now: deps.clock.now(),
    wall: deps.clock.wall(),
    workerId,
    generations: request.generations,
    // A worker can keep its delivery no longer; and a silent one must not keep its job for years.
    leaseMs: leaseMs == null ? null : Math.min(leaseMs, deps.settings.deliveryTimeoutMs),
    defaultLeaseMs: deps.settings.visibilityTimeoutMs,
    ofQueue: scopeOf(deps, heardOn),
    cause: context,
  })
  const extended: ExtendedLease[] = []
  const refused: [Refusal, string][] = []
  for (const [i, result] of results.entries()) {
    if (result.outcome === 'extended') extended.push(result.lease)
    if (result.outcome === 'refused') refused.push(['other_queue', ids[i] ?? ''])
    tell(deps, result, workerId, context)
  }
  await acknowledgeEarly(deps, extended)
  return refusedOf(refused)
}

function tell(
  deps: Deps,
  result: BeatResult,
  workerId: string,
  { requestId }: RequestContext,
): void {
  switch (result.outcome) {
    case 'extended':
      deps.events.emit({ type: 'job.heartbeat', job: result.lease, workerId })
      return
    case 'resumed':
      // No second `job.started`: the attempt began once, however often its lease has run out since.
      deps.events.emit({ type: 'job.heartbeat', job: leaseOf(result.job), workerId })
      return
    case 'started':
      // A delivery may have been parked until this row changes.
      deps.broker.unpark(result.job.id)
      if (result.promoted) emitPromoted(deps, result.job)
      deps.events.emit({ type: 'job.started', job: result.job, requestId })
      return
    case 'cancelled':
      void broadcastCancel(deps, result.job)
      return
    case 'ignored':
    case 'refused':
      return
  }
}

/** The lease of an active row. */
function leaseOf({ id, queue, type, attempt, leaseExpiresAt }: JobRow): LeaseFacts {
  return { id, queue, type, attempt, leaseExpiresAt: leaseExpiresAt ?? 0 }
}
