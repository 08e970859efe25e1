/** DELETE of a worker that is gone: its jobs go back at once. */
import { notFound, OjsError } from '../../errors.ts'
import type { JobRow } from '../../job/job.ts'
import { workerDeathFailure } from '../../job/retry/failure.ts'
import { isStale } from '../../job/stale.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { knownWorker } from '../workers/workers.ts'
import { failLease } from './fail-lease.ts'

/** Leases that are looked at in one read. */
const PAGE = 1_000
/** Leases that are ended together, so that their writes share a commit. */
const SLICE = 50

export interface Deregistered {
  /** Active jobs of the worker that wait for another attempt now. */
  requeued: number
  /** Those that had no attempt left. */
  discarded: number
}

/**
 * Takes a stale worker off the list, and ends the leases of its jobs as if they had run out (OJS admin API
 * §9). A worker that comes back is listed again; its reports about these jobs are refused, as after a lease
 * that ran out. Throws 404, 409 for a worker that is not stale, 503.
 */
export async function deregisterWorker(
  deps: Deps,
  workerId: string,
  context: RequestContext,
): Promise<Deregistered> {
  await requireStale(deps, workerId)
  const jobs = await leasesOf(deps, workerId)
  const ended = { requeued: 0, discarded: 0 }
  for (let at = 0; at < jobs.length; at += SLICE) {
    const slice = jobs.slice(at, at + SLICE)
    const states = await Promise.all(slice.map((id) => endLease(deps, id, workerId, context)))
    for (const state of states) if (state !== null) ended[state] += 1
  }
  deps.workers.removeStale(workerId)
  const { requestId, principal } = context
  deps.events.emit({ type: 'worker.stopped', workerId, reason: 'deregistered', requestId })
  deps.logger.info({ workerId, ...ended, requestId, principal }, 'worker deregistered')
  return ended
}

async function requireStale(deps: Deps, workerId: string): Promise<void> {
  const worker = await knownWorker(deps, workerId)
  if (worker === null) throw notFound('worker', workerId)
  if (worker.state === 'stale') return
  throw new OjsError(
    'invalid_request',
    `Worker '${workerId}' is not stale: it was heard of lately. Tell it to terminate instead.`,
    {
      status: 409,
      details: {
        reason: 'invalid_state_transition',
        worker_id: workerId,
        current_state: worker.state,
      },
    },
  )
}

async function leasesOf({ ledger }: Deps, workerId: string): Promise<string[]> {
  const ids = new Set<string>()
  let from: number | null = 0
  while (from !== null) {
    const page = await ledger.read.leasedTo(workerId, from, PAGE)
    for (const id of page.ids) ids.add(id)
    from = page.next
  }
  return [...ids]
}

async function endLease(
  deps: Deps,
  id: string,
  workerId: string,
  { requestId, principal }: RequestContext,
): Promise<'requeued' | 'discarded' | null> {
  const cause = { requestId, principal, reason: 'worker_deregistered' }
  const fault = { failure: workerDeathFailure(workerId), cause, isLost: true }
  // A lease without an owner is not this worker's, though it may end it.
  const find = (row: JobRow) => (row.workerId === workerId ? fault : null)
  const job = await failLease(deps, { id, fence: { workerId }, find })
  if (isStale(job)) return null
  return job.state === 'discarded' ? 'discarded' : 'requeued'
}
