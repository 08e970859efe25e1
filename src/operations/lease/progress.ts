/** PROGRESS: how far a running job is, as its worker reports it and as others read it. */
import { invalidField, notFound } from '../../errors.ts'
import type { JobStanding } from '../../job/job.ts'
import {
  checkpointText,
  dataText,
  MAX_PROGRESS_MESSAGE,
  type ProgressNote,
  type ProgressReport,
  shownProgress,
} from '../../job/progress.ts'
import { cut, storable } from '../../job/values/limits.ts'
import type { Reported } from '../../ledger/progress.ts'
import { type ProgressRequest, parseProgress } from '../../schemas/requests/progress.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { requireKnownJob } from '../scope.ts'
import { emitCheckpointed } from './checkpoint.ts'
import { acknowledgeEarly } from './hand-over.ts'
import { fenceOf, payToll } from './toll.ts'

export interface Progress {
  job: Pick<JobStanding, 'id' | 'state' | 'attempt'>
  /** Null: the attempt has reported none. */
  note: ProgressNote | null
}

/**
 * PROGRESS (OJS progress): notes what a worker says of its running job, and extends the job's lease as a
 * heartbeat does. Of a job that is not active, or no longer the worker's, nothing is noted, and that is no error.
 * `ofQueue`: only a job of this queue is meant. Throws 400, 404, 413, 429, 503.
 */
export async function reportProgress(
  deps: Deps,
  body: unknown,
  context: Pick<RequestContext, 'toll' | 'queues'>,
): Promise<Progress> {
  const request = parseProgress(body)
  const { job_id: id } = request
  if (context.queues !== undefined) await requireKnownJob(deps, context, id)
  if (context.toll !== undefined) await payToll(deps, context.toll, [id], fenceOf(request))
  const reported = await noteProgress(deps, request, null)
  if (reported.outcome === 'noted') return { job: reported.job, note: reported.note }
  if (reported.outcome !== 'stale') throw notFound('job', id)
  return {
    job: reported.job,
    note: shownProgress(reported.job, await deps.ledger.read.progress.find(id)),
  }
}

/** As `reportProgress`, for callers that have parsed the request. Throws 400, 413, 503. */
export async function noteProgress(
  deps: Deps,
  request: ProgressRequest,
  ofQueue: string | null,
): Promise<Reported> {
  const { job_id: id, worker_id: workerId, attempt, generation } = request
  const fence = { workerId, attempt, generation, ofQueue }
  const report = { ...reportOf(request), now: deps.clock.now() }
  const reported = await deps.ledger.progress.report(id, fence, report)
  if (reported.outcome !== 'noted') return reported
  const { lease, note, isTold, checkpoint } = reported
  const { progress, message } = note
  const { queue, type: jobType } = lease
  deps.events.emit({ type: 'job.reported', queue, jobType })
  if (isTold) deps.events.emit({ type: 'job.progress', job: lease, progress, message })
  if (checkpoint) emitCheckpointed(deps, lease, checkpoint)
  await acknowledgeEarly(deps, [lease])
  return reported
}

/** Progress as it stands (OJS progress). A pure read. Throws 404. */
export async function readProgress(deps: Pick<Deps, 'ledger'>, id: string): Promise<Progress> {
  const job = await deps.ledger.read.standing(id)
  if (job === null || job.state === 'withdrawn') throw notFound('job', id)
  return { job, note: shownProgress(job, await deps.ledger.read.progress.find(id)) }
}

function reportOf(request: ProgressRequest): ProgressReport & { checkpoint: string | null } {
  const { progress, percentage, message, data, checkpoint } = request
  const fraction = progress ?? (percentage == null ? null : percentage / 100)
  if (fraction === null && message == null && data == null && checkpoint == null) {
    throw invalidField(
      'progress',
      "One of the fields 'progress', 'message', 'data' and 'checkpoint' is required.",
      { validation: 'required' },
    )
  }
  return {
    progress: fraction,
    message: message == null ? null : storable(cut(message, MAX_PROGRESS_MESSAGE)),
    data: data == null ? null : dataText(data),
    checkpoint: checkpoint == null ? null : checkpointText(checkpoint, 'checkpoint'),
  }
}
