/** A failed attempt, whoever found it: retry by queue or ledger, or discard, by the job's policy. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isHeldByKey } from '../../job/concurrency.ts'
import type { Cause } from '../../job/history.ts'
import { allowedAttempts, type JobRow } from '../../job/job.ts'
import { chooseDelay } from '../../job/retry/backoff.ts'
import type { Failure } from '../../job/retry/error-history.ts'
import { recordEnd } from '../../job/retry/failure.ts'
import { judge, type RetryPolicy, retryPolicyOf } from '../../job/retry/retry-policy.ts'
import { isStale, type Stale } from '../../job/stale.ts'
import type { FailFence } from '../../ledger/leases.ts'
import { evaluatingRetry } from '../../telemetry/tracing.ts'
import type { Deps } from '../deps.ts'
import {
  deadLetterDelivery,
  noteEnded,
  noteLeftOver,
  sendThenSettle,
  settleLease,
  takeLease,
} from './lease-end.ts'

/**
 * A NACK waits no longer than this for RabbitMQ to declare a retry queue; without one the ledger holds the
 * job.
 */
const RETRY_QUEUE_WAIT_MS = 1_000

/** A failed attempt of `row`, reported by its worker or found by the reaper. */
export interface FailedAttempt {
  row: JobRow
  failure: Failure
  /** Fence: the lease must belong to this worker. */
  workerId?: string | null | undefined
  /** Fence: the lease must be over at this instant. */
  overdueAt?: number
  /** False: the ledger holds the retry if its queue is yet to be declared, which is only begun. */
  mayWait?: boolean
  cause?: Cause
}

/**
 * FAIL (seed 001 §7.5, seed 002 §5.4, §5.5): `active → retryable` or `discarded`, by the job's retry
 * policy. Resolves after the commit. The publish and the ack follow in the background, in the order of
 * law 2; until the confirm the outbox owes the message. Returns `Stale` when the fence does not match.
 */
export async function failLease(deps: Deps, attempt: FailedAttempt): Promise<JobRow | Stale> {
  const { row, failure } = attempt
  const policy = retryPolicyOf(row)
  const verdict = evaluatingRetry(row, () => judge(policy, row.attempt, failure))
  const job =
    verdict.do === 'retry'
      ? await retry(deps, attempt, policy)
      : await discard(deps, attempt, verdict.isDeadLetter)
  if (!isStale(job)) noteEnded(deps, row)
  return job
}

/** Retries by the TTL queue of the delay (seed 002 §8), or by the ledger where there is no such queue. */
async function retry(
  deps: Deps,
  attempt: FailedAttempt,
  policy: RetryPolicy,
): Promise<JobRow | Stale> {
  const { row, failure } = attempt
  const { delayMs, retryQueueMs: wanted } = chooseDelay(policy.backoff, row.attempt, deps.random)
  const retryQueueMs = await usableRetryQueue(deps, attempt, wanted)
  const record = recordOf(deps, attempt)
  const job = await deps.ledger.fail(row.id, fenceOf(attempt), {
    ...record,
    to: 'retryable',
    dueAt: record.now + delayMs,
    delayMs,
    retryQueueMs,
    isMessageBack: deps.jobMessages.held.get(row.id)?.isLive() ?? false,
  })
  if (isStale(job)) return job
  if (!record.isCounted) emitFailed(deps, attempt, job)
  deps.events.emit({ type: 'job.retrying', job, failure, requestId: attempt.cause?.requestId })
  if (retryQueueMs === null) {
    if (!settleLease(deps, job.id)) noteLeftOver(deps, job)
  } else void sendThenSettle(deps, job, takeLease(deps, job.id))
  return job
}

/**
 * Returns `retryQueueMs` if that retry queue can be used, declaring it if need be; null: the ledger holds the
 * job.
 */
async function usableRetryQueue(
  deps: Deps,
  { row: { queue }, mayWait = true }: FailedAttempt,
  retryQueueMs: number | null,
): Promise<number | null> {
  if (retryQueueMs === null || deps.broker.isRetryQueueReady(queue, retryQueueMs))
    return retryQueueMs
  if (deps.broker.status().state !== 'up') return null
  const declared = deps.broker.ensureRetryQueue(queue, retryQueueMs)
  if (!mayWait) return null
  const outcome = await Promise.race([
    declared,
    sleep(RETRY_QUEUE_WAIT_MS, 'unusable' as const, { ref: false }),
  ])
  return outcome === 'ready' ? retryQueueMs : null
}

async function discard(
  deps: Deps,
  attempt: FailedAttempt,
  isDeadLetter: boolean,
): Promise<JobRow | Stale> {
  // `nack` makes the copy in the DLX queue. If the nack is lost with its channel, RabbitMQ delivers the
  // job message again and the arrival table nacks it then. Where the lease's holder is `ledger`, there is no
  // delivery to nack: the ledger writes an outbox nonce instead, and the copy is published.
  const change = { to: 'discarded', isDeadLetter, copy: 'nack' } as const
  const record = recordOf(deps, attempt)
  const job = await deps.ledger.fail(attempt.row.id, fenceOf(attempt), { ...record, ...change })
  if (isStale(job)) return job
  if (!record.isCounted) emitFailed(deps, attempt, job)
  deps.events.emit({ type: 'job.discarded', job, requestId: attempt.cause?.requestId })
  const delivery = takeLease(deps, job.id)
  if (job.outbox !== null) void sendThenSettle(deps, job, delivery)
  else if (delivery) deadLetterDelivery(deps, delivery, job)
  return job
}

/**
 * Makes a job whose lease ran out, with attempts left, available at once, without a delay (seed 001 §7.6).
 * Publishes nothing for a native worker's lease: RabbitMQ redelivers its job message when its channel ends.
 */
export async function returnLease(deps: Deps, attempt: FailedAttempt): Promise<JobRow | Stale> {
  const record = recordOf(deps, attempt)
  const change = { ...record, to: 'available' } as const
  const job = await deps.ledger.fail(attempt.row.id, fenceOf(attempt), change)
  if (isStale(job)) return job
  noteEnded(deps, attempt.row)
  if (!record.isCounted) emitFailed(deps, attempt, job)
  deps.events.emit({ type: 'job.enqueued', job, promoted: true, from: 'active' })
  if (job.outbox !== null || isHeldByKey(job)) {
    void sendThenSettle(deps, job, takeLease(deps, job.id))
  }
  return job
}

/**
 * Ends the lease of a worker that is gone or silent. That says nothing about the job, so it is available again
 * at once while an attempt is left. A native worker may still run it, or have finished: its report or its job
 * message will tell.
 */
export function endLostLease(deps: Deps, attempt: FailedAttempt): Promise<JobRow | Stale> {
  const { row } = attempt
  const mayGoOn = row.holder === 'native' || row.attempt < allowedAttempts(row)
  return mayGoOn ? returnLease(deps, attempt) : failLease(deps, attempt)
}

function fenceOf({ row, workerId, overdueAt }: FailedAttempt): FailFence {
  const { generation, attempt } = row
  return { generation, attempt, workerId, overdueAt }
}

function recordOf(deps: Deps, { row, failure, cause }: FailedAttempt) {
  const now = deps.clock.now()
  return { now, cause, ...recordEnd(row, failure, now) }
}

function emitFailed(deps: Deps, { row, failure, cause }: FailedAttempt, job: JobRow): void {
  deps.events.emit({
    type: 'job.failed',
    job,
    attempt: row.attempt,
    failure,
    requestId: cause?.requestId,
  })
}
