/** NACK: a worker reports a failure; the job's retry policy decides what follows. */
import type { JobRow } from '../../job/job.ts'
import { failureOf } from '../../job/retry/failure.ts'
import { isStale } from '../../job/stale.ts'
import type { SettleFence } from '../../ledger/leases.ts'
import { parseNack } from '../../schemas/requests/validator.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { explainStaleLease } from '../job-errors.ts'
import { requireKnownJob } from '../scope.ts'
import { failLease } from './fail-lease.ts'
import { requeueLease } from './lease-end.ts'
import { fenceOf, isHeld, payToll } from './toll.ts'

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
  const row = await leasedRow(deps, request.job_id, fence)
  const workerId = row.workerId === null ? null : fence.workerId
  const { error, retryable } = request
  const failure = failureOf({ ...error, retryable: error.retryable ?? retryable ?? null })
  const job = request.requeue
    ? await requeueLease(deps, row, { workerId, cause: context })
    : await failLease(deps, { row, failure, workerId, cause: context, mayWait })
  if (isStale(job)) {
    throw explainStaleLease(deps, { id: request.job_id, row: job.row }, fence, 'nack')
  }
  return job
}

/**
 * Returns the active row that `fence` matches; its retry policy decides what follows. Throws 404 or 409.
 * A worker can fail exactly the jobs that it could complete. The write is fenced again, since the lease may pass to another worker while a retry queue is
 * declared.
 */
async function leasedRow(deps: Deps, id: string, fence: SettleFence): Promise<JobRow> {
  const row = await deps.ledger.read.find(id)
  if (row === null || !isHeld(row, fence)) throw explainStaleLease(deps, { id, row }, fence, 'nack')
  return row
}
