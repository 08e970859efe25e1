/** Progress and checkpoints by control message: a native worker's job that has not been reported as started starts. */
import { isWaitingWithNative } from '../../job/arrival.ts'
import type { JobStanding } from '../../job/job.ts'
import type { NotNoted } from '../../ledger/progress.ts'
import type { CheckpointRequest, ProgressRequest } from '../../schemas/requests/progress.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { storeCheckpoint } from '../lease/checkpoint.ts'
import { noteProgress } from '../lease/progress.ts'
import { nativeHeartbeat } from './heartbeat.ts'
import { NOTHING_REFUSED, type Refused, refusedOf, scopeOf } from './scope.ts'

/** The members that every message about a native attempt has. */
type OfAttempt<T> = T & { worker_id: string; attempt: number }

/**
 * PROGRESS by a message of the control queue of `queue`. Resolves after the commit, also if there was nothing to
 * note; rejects when the ledger cannot be written.
 */
export function nativeProgress(
  deps: Deps,
  request: OfAttempt<ProgressRequest>,
  context: RequestContext,
  queue: string,
): Promise<Refused> {
  return noteStarted(deps, request, context, queue, (ofQueue) =>
    noteProgress(deps, request, ofQueue),
  )
}

/** CHECKPOINT by a message of the control queue of `queue`. As `nativeProgress`. */
export function nativeCheckpoint(
  deps: Deps,
  request: OfAttempt<CheckpointRequest>,
  context: RequestContext,
  queue: string,
): Promise<Refused> {
  return noteStarted(deps, request, context, queue, (ofQueue) =>
    storeCheckpoint(deps, request, ofQueue),
  )
}

/**
 * The worker's report of the start may still be on its way, or lost, or its lease may have run out: as a heartbeat does,
 * a message about a job that runs by its worker's word starts it, or goes on with its attempt.
 */
async function noteStarted(
  deps: Deps,
  told: OfAttempt<{ job_id: string; generation?: number | null }>,
  context: RequestContext,
  queue: string,
  note: (ofQueue: string | null) => Promise<NotNoted | { outcome: 'noted' | 'saved' }>,
): Promise<Refused> {
  const { job_id: id, worker_id, generation } = told
  const ofQueue = scopeOf(deps, queue)
  const first = await note(ofQueue)
  if (first.outcome === 'elsewhere') return refusedOf([['other_queue', id]])
  if (first.outcome !== 'stale' || !mayRun(first.job, told)) return NOTHING_REFUSED
  const generations = new Map([[id, generation ?? 0]])
  await nativeHeartbeat(deps, { worker_id, job_ids: [id], generations }, context, queue)
  await note(ofQueue)
  return NOTHING_REFUSED
}

/** An attempt that is over stays over: the one that runs is the next one, or one whose lease has run out alone. */
function mayRun(
  job: JobStanding,
  { attempt, generation }: { attempt: number; generation?: number | null },
): boolean {
  if (generation != null && generation !== job.generation) return false
  return job.attempt === attempt ? isWaitingWithNative(job) : job.attempt === attempt - 1
}
