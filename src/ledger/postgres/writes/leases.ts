/** ACK, NACK, BEAT and release, and who holds the delivery behind a lease. */
import { historyLine } from '../../../job/history/changes.ts'
import { isHeld } from '../../../job/lease-fence.ts'
import type { Stale } from '../../../job/stale.ts'
import * as lease from '../../../job/transitions/lease.ts'
import type { Change, KeptRow } from '../../../job/transitions/row.ts'
import type { CompletedJob } from '../../ended.ts'
import type {
  Beat,
  BeatFate,
  Completion,
  DecideFailure,
  EndedLease,
  ExtendedLease,
  FailedLease,
  LeaseFence,
  ReleaseFence,
  SettleFence,
  Undecided,
} from '../../leases.ts'
import { TIMED } from '../../writes/traffic.ts'
import type { Draft } from '../group/draft.ts'
import { completedJob } from './results.ts'

export function release(draft: Draft, id: string, fence: ReleaseFence): EndedLease | Stale {
  const row = draft.row(id)
  if (row === null || !isHeld(row, fence)) return draft.stale(id)
  const { now, cause, messageAttempt } = fence
  const line = historyLine(now, 'available', row.attempt, null, { reason: 'released', ...cause })
  const before = draft.job(row)
  const change = lease.released(row, messageAttempt, draft.nextNonce(), line)
  return { outcome: 'ended', job: draft.job(draft.change(row, change)), before }
}

export function complete(
  draft: Draft,
  id: string,
  fence: SettleFence,
  completion: Completion,
): CompletedJob | Stale {
  const { now, cause } = completion
  const line = historyLine(now, 'completed', fence.attempt ?? null, null, cause)
  const row = draft.row(id)
  const change = row && lease.completed(row, fence, completion, line)
  if (row === null || !change) return draft.stale(id)
  const job = completedJob(draft, draft.change(row, change), TIMED)
  const news = draft.ended(row, job)
  return news === undefined ? job : { ...job, news }
}

export function fail(
  draft: Draft,
  id: string,
  fence: SettleFence,
  decide: DecideFailure,
): FailedLease | Stale | Undecided {
  const row = draft.row(id)
  return row !== null && isHeld(row, fence) ? failRow(draft, row, decide) : draft.stale(id)
}

/** Of an active row. */
export function failRow(
  draft: Draft,
  row: KeptRow,
  decide: DecideFailure,
): FailedLease | Undecided {
  const before = draft.job(row)
  const change = decide(before)
  if (change === null) return { outcome: 'undecided', row: before }
  const line = historyLine(change.now, change.to, row.attempt, null, change.cause)
  const failed = lease.failed(row, change, draft.nextNonce(), line)
  if (!change.isCounted) draft.traffic.failed(row.queue, change.now)
  if (change.to !== 'discarded') draft.traffic.retried(row.queue, change.now)
  const job = draft.job(draft.change(row, failed))
  const news = change.to === 'discarded' ? draft.ended(row, job) : undefined
  return { outcome: 'ended', job, before, change, news }
}

export function beat(draft: Draft, id: string, terms: Beat): BeatFate {
  const row = draft.row(id)
  const change = row && lease.extended(row, terms)
  if (row && change) {
    return { outcome: 'extended', id, lease: leaseOf(draft.change(row, change)) }
  }
  const isOwn = (row?.workerId ?? terms.workerId) === terms.workerId
  if (row?.state === 'cancelled' && isOwn) return { outcome: 'cancelled', id }
  return { ...draft.stale(id), id }
}

/** The lease of an active row. */
export function leaseOf(row: KeptRow): ExtendedLease {
  const { id, generation, attempt, queue, type, holder } = row
  const { startedAt, leaseExpiresAt } = row
  const times = { startedAt: startedAt ?? 0, leaseExpiresAt: leaseExpiresAt ?? 0 }
  return { id, generation, attempt, queue, type, holder, ...times }
}

export function handOver(draft: Draft, fences: readonly LeaseFence[]): number {
  return changed(draft, fences, (row, fence) => lease.handedOver(row, fence))
}

export function handBack(draft: Draft, fences: readonly LeaseFence[]): number {
  return changed(draft, fences, lease.handedBack)
}

/** Returns how many rows changed. */
function changed(
  draft: Draft,
  fences: readonly LeaseFence[],
  changeOf: (row: KeptRow, fence: LeaseFence) => Change | null,
): number {
  let count = 0
  for (const fence of fences) {
    const row = draft.row(fence.id)
    const change = row && changeOf(row, fence)
    if (!row || !change) continue
    draft.change(row, change)
    count += 1
  }
  return count
}
