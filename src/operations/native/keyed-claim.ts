/** A native worker claims a job that has a concurrency key: it runs only if the ledger has begun its attempt. */
import type { JobRow } from '../../job/job.ts'
import type { NativeClaim } from '../../job/request.ts'
import { reportedError } from '../adopt/adopt.ts'
import type { Deps } from '../deps.ts'
import { followStart } from './report.ts'
import { shownJob } from './reported-event.ts'
import { scopeOf } from './scope.ts'

/** `stale`: the row has changed; `unlimited`: no key that the ledger knows. */
export type KeyedClaimed =
  | { decision: 'run'; attempt: number; started: true }
  | { decision: 'drop' | 'discard'; attempt: number }
  | 'stale'
  | 'unlimited'

/** True if an earlier claim of this very delivery has begun the attempt, and its answer was lost. */
export function isBegunFor({ attempt, worker_id, again }: NativeClaim, row: JobRow): boolean {
  const isOwn = row.state === 'active' && row.holder === 'native' && row.workerId === worker_id
  return again === true && isOwn && row.attempt >= attempt
}

/**
 * Begins `attempt`, or holds the job back: then the worker acknowledges the message (`drop`), and the ledger makes
 * another one when it is the job's turn. An unknown job is adopted first, if the worker has sent it along.
 */
export async function claimKeyed(
  deps: Deps,
  request: NativeClaim,
  row: JobRow | null,
  attempt: number,
  heardOn: string,
): Promise<KeyedClaimed> {
  if (row === null) return await adopt(deps, request, heardOn)
  if (row.carry?.concurrency === undefined) return 'unlimited'
  const { id, generation, state, attempt: attemptRead } = row
  const requestId = deps.newId()
  const terms = {
    now: deps.clock.now(),
    workerId: request.worker_id,
    leaseMs: null,
    defaultLeaseMs: deps.settings.visibilityTimeoutMs,
    cause: { requestId },
  }
  const start = { id, generation, state, attemptRead, attempt, terms }
  const claimed = await deps.ledger.concurrency.startNative(start)
  if (claimed.outcome === 'stale') return 'stale'
  if (claimed.outcome === 'held') {
    deps.ledger.messageReturned(id, generation, request.attempt)
    return { decision: 'drop', attempt }
  }
  followStart(deps, claimed, requestId)
  return { decision: 'run', attempt, started: true }
}

async function adopt(deps: Deps, request: NativeClaim, heardOn: string): Promise<KeyedClaimed> {
  const { job_id: id, attempt, generation, job } = request
  if (job == null) return 'unlimited'
  const queue = scopeOf(deps, heardOn)
  const jobMessage = {
    ...{ id, attempt, generation: generation ?? 0 },
    ...(queue !== null && { queue }),
    adopt: () => shownJob(deps, request, job, heardOn),
    reportedError: () => reportedError(request.headers ?? {}),
  }
  const isKnown = await deps.ledger.concurrency.adopt(jobMessage, deps.clock.now())
  return isKnown ? 'stale' : { decision: 'discard', attempt }
}
