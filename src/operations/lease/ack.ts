/** ACK: commits the job as completed, then acknowledges its delivery. */
import { OjsError } from '../../errors.ts'
import type { JobRow } from '../../job/job.ts'
import type { AckRequest } from '../../job/request.ts'
import { isStale } from '../../job/stale.ts'
import { MAX_RESULT_BYTES } from '../../job/values/limits.ts'
import { parseAck } from '../../schemas/requests/validator.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { followNews } from '../job-end.ts'
import { explainStaleLease } from '../job-errors.ts'
import { requireKnownJob } from '../scope.ts'
import { noteEnded, settleLease } from './lease-end.ts'
import { fenceOf, payToll } from './toll.ts'

/**
 * ACK (seed 001 §7.4, seed 002 §5.3): commits `active → completed`, then sends `basic.ack` for the lease's
 * delivery if the gateway holds one. Works while RabbitMQ is away. Throws 404, 409, 413, 429, 503.
 */
export async function ack(deps: Deps, body: unknown, context: RequestContext): Promise<JobRow> {
  const request = parseAck(body)
  if (context.queues !== undefined) await requireKnownJob(deps, context, request.job_id)
  const fence = fenceOf(request)
  if (context.toll !== undefined) await payToll(deps, context.toll, [request.job_id], fence)
  const change = { now: deps.clock.now(), result: resultText(request), cause: context }
  const job = await deps.ledger.complete(request.job_id, fence, change)
  if (isStale(job)) {
    throw explainStaleLease(deps, { id: request.job_id, row: job.row }, fence, 'ack')
  }
  if (job.news !== undefined) followNews(deps, job.news)
  if (settleLease(deps, job.id)) deps.ledger.messageReturned(job.id, job.generation)
  noteEnded(deps, job)
  deps.events.emit({ type: 'job.completed', job, requestId: context.requestId })
  return job
}

/** Throws 413 for a result that is too large; the job then stays active (OJS core). */
function resultText(request: AckRequest): string | null {
  if (request.result === undefined || request.result === null) return null
  const text = JSON.stringify(request.result)
  if (text.length * 3 <= MAX_RESULT_BYTES || Buffer.byteLength(text) <= MAX_RESULT_BYTES)
    return text
  throw new OjsError(
    'invalid_request',
    `The 'result' field is larger than ${MAX_RESULT_BYTES} bytes.`,
    {
      status: 413,
      details: { field: 'result', max_bytes: MAX_RESULT_BYTES },
    },
  )
}
