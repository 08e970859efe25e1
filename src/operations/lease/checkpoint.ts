/** CHECKPOINT: a running job stores from where its next attempt can go on. */
import { savesWhileWaiting } from '../../dialect.ts'
import { notFound } from '../../errors.ts'
import type { Checkpoint } from '../../job/job.ts'
import { checkpointText } from '../../job/progress.ts'
import { utf8Bytes } from '../../job/values/limits.ts'
import type { ExtendedLease } from '../../ledger/leases.ts'
import type { Saved } from '../../ledger/progress.ts'
import { type CheckpointRequest, parseCheckpoint } from '../../schemas/requests/progress.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { visibleJob } from '../info.ts'
import { explainStaleLease } from '../job-errors.ts'
import { requireKnownJob } from '../scope.ts'
import { acknowledgeEarly } from './hand-over.ts'
import { fenceOf, payToll } from './toll.ts'

/**
 * Saves the checkpoint of an active job in the place of the one before, and extends the lease as a heartbeat
 * does (OJS durable execution). Throws 400, 404, 409 when the job is not active or no longer the worker's, 413,
 * 429, 503.
 */
export async function saveCheckpoint(
  deps: Deps,
  body: unknown,
  context: Pick<RequestContext, 'toll' | 'queues'>,
): Promise<Checkpoint> {
  const request = parseCheckpoint(body)
  const { job_id: id } = request
  if (context.queues !== undefined) await requireKnownJob(deps, context, id)
  if (context.toll !== undefined) await payToll(deps, context.toll, [id], fenceOf(request))
  const saved = await storeCheckpoint(deps, request, null)
  if (saved.outcome === 'saved') return saved.checkpoint
  throw saved.outcome === 'stale'
    ? explainStaleLease(deps, { id, row: saved.job }, fenceOf(request), 'checkpoint')
    : notFound('job', id)
}

/** As `saveCheckpoint`, for callers that have parsed the request. `ofQueue`: only a job of this queue is meant. */
export async function storeCheckpoint(
  deps: Deps,
  { job_id: id, worker_id: workerId, attempt, generation, state }: CheckpointRequest,
  ofQueue: string | null,
): Promise<Saved> {
  const waitingToo = savesWhileWaiting(deps.settings.dialect)
  const fence = { workerId, attempt, generation, ofQueue, waitingToo }
  const text = checkpointText(state, 'state')
  const saved = await deps.ledger.checkpoints.save(id, fence, {
    now: deps.clock.now(),
    state: text,
  })
  if (saved.outcome !== 'saved' || saved.lease === null) return saved
  emitCheckpointed(deps, saved.lease, saved.checkpoint)
  await acknowledgeEarly(deps, [saved.lease])
  return saved
}

/** The checkpoint of a job. A pure read. Throws 404 for an unknown job, and if there is none. */
export async function readCheckpoint(deps: Pick<Deps, 'ledger'>, id: string): Promise<Checkpoint> {
  await requireJob(deps, id)
  const checkpoint = await deps.ledger.read.checkpoints.find(id)
  if (checkpoint === null) throw notFound('checkpoint', id)
  return checkpoint
}

/** False: there was none, which is no error. Throws 404 for an unknown job, 503. */
export async function deleteCheckpoint(deps: Pick<Deps, 'ledger'>, id: string): Promise<boolean> {
  await requireJob(deps, id)
  return await deps.ledger.checkpoints.remove(id)
}

async function requireJob(deps: Pick<Deps, 'ledger'>, id: string): Promise<void> {
  if ((await visibleJob(deps, id)) === null) throw notFound('job', id)
}

export function emitCheckpointed(deps: Deps, job: ExtendedLease, checkpoint: Checkpoint): void {
  const { sequence, state } = checkpoint
  deps.events.emit({ type: 'job.checkpointed', job, sequence, sizeBytes: utf8Bytes(state) })
}
