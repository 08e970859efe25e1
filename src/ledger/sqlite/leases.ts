import { isWaitingWithNative } from '../../job/arrival.ts'
import type { JobRow } from '../../job/job.ts'
import type { Beat, ExtendedLease, FailFence, FailureChange } from '../leases.ts'
import { ACTIVE, ended, failed } from './life.ts'
import { toJobRow } from './rows.ts'
import type { Store } from './store.ts'

export function failLease(
  store: Store,
  id: string,
  fence: FailFence,
  change: FailureChange,
): JobRow | 'stale' {
  const job = toJobRow(runFailure(store, id, fence, change))
  if (!job) return 'stale'
  failed(store, job, change.now)
  if (change.to === 'discarded') ended(store, job, ACTIVE)
  else store.counter.moved(job.queue, 'active', change.to)
  if (isWaitingWithNative(job)) {
    store.counter.moved(job.queue, null, 'with_native')
  }
  return job
}

/** Runs the one statement that makes this change. */
function runFailure(store: Store, id: string, fence: FailFence, change: FailureChange): unknown {
  const { statements, nonces } = store
  const { generation, attempt, workerId = null, overdueAt = null } = fence
  const { now, error, errors } = change
  const outbox = owesMessage(change) ? nonces.next() : null
  const common = [id, generation, attempt, workerId, overdueAt, error, errors, outbox] as const
  switch (change.to) {
    case 'retryable': {
      const { dueAt, delayMs, rungMs, isTokenBack } = change
      return statements.failToRetry.get(...common, dueAt, delayMs, rungMs, isTokenBack ? 1 : 0)
    }
    case 'available':
      return statements.failToAvailable.get(...common)
    case 'discarded':
      return statements.failToDiscarded.get(...common, now, change.isDeadLetter ? 1 : 0)
  }
}

/** A token for the rung or the queue, or a copy for the dead letter exchange. */
function owesMessage(change: FailureChange): boolean {
  switch (change.to) {
    case 'retryable':
      return change.rungMs !== null
    case 'available':
      return change.token
    case 'discarded':
      return change.copy === 'publish'
  }
}

/** The leases that a BEAT extends, in the order of `ids`. */
export function beatLeases(store: Store, ids: readonly string[], beat: Beat): ExtendedLease[] {
  const { now, leaseMs, workerId, attempt = null } = beat
  const { extend } = store.statements
  return ids
    .map((id) => extend.get(id, now, leaseMs, workerId, attempt) as ExtendedLease | undefined)
    .filter((lease) => lease !== undefined)
}
