/** NACK: a worker reports a failure; the job's retry policy decides what follows. */
import type { Cause } from '../../job/history/changes.ts'
import type { JobRow } from '../../job/job.ts'
import type { NackRequest } from '../../job/request.ts'
import { failureOf } from '../../job/retry/failure.ts'
import { isStale, type Stale } from '../../job/stale.ts'
import type { SettleFence } from '../../ledger/leases.ts'
import { parseNack } from '../../schemas/requests/validator.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { explainStaleLease } from '../job-errors.ts'
import { requireKnownJob } from '../scope.ts'
import { failLease } from './fail-lease.ts'
import { requeueLease } from './lease-end.ts'
import { fenceOf, payToll } from './toll.ts'

/**
 * FAIL (seed 001 §7.5, §10.3): ends the attempt as failed; the job is retried or discarded by its retry
 * policy. `requeue: true` (an addition, OJS's public suite) hands the job back at once and counts no
 * attempt. Works while RabbitMQ is away. `mayWait`: whether it may wait up to a second for a retry queue that is
 * yet to be declared; else the ledger holds the retry. Throws 400, 404, 409, 429, 503.
 */
export async function nack(
  deps: Deps,
  body: unknown,
  context: RequestContext,
  { mayWait = true } = {},
): Promise<JobRow> {
  const request = parseNack(body)
  if (context.queues !== undefined) await requireKnownJob(deps, context, request.job_id)
  const fence = fenceOf(request)
  if (context.toll !== undefined) await payToll(deps, context.toll, [request.job_id], fence)
  const job = await endLease(deps, request, fence, context, mayWait)
  if (isStale(job)) {
    throw explainStaleLease(deps, { id: request.job_id, row: job.row }, fence, 'nack')
  }
  return job
}

function endLease(
  deps: Deps,
  { job_id: id, error, retryable, requeue }: NackRequest,
  fence: SettleFence,
  cause: Cause,
  mayWait: boolean,
): Promise<JobRow | Stale> {
  if (requeue) return requeueLease(deps, id, fence, cause)
  const failure = failureOf({ ...error, retryable: error.retryable ?? retryable ?? null })
  const fault = { failure, cause }
  return failLease(deps, { id, fence, find: () => fault, mayWait })
}
