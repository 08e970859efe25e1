/** ACK, NACK, BEAT, release, expiry: every write that ends, extends or moves a lease. */
import { isWaitingWithNative } from '../../../job/arrival.ts'
import { type Cause, historyLine } from '../../../job/history/changes.ts'
import type { JobRow } from '../../../job/job.ts'
import { isHeld } from '../../../job/lease-fence.ts'
import type { Stale } from '../../../job/stale.ts'
import type { CompletedJob, WithNews } from '../../ended.ts'
import type {
  Beat,
  BeatFate,
  Completion,
  DecideFailure,
  EndedLease,
  FailedLease,
  FailureChange,
  LeaseFence,
  ReleaseFence,
  SettleFence,
  Undecided,
  WorkerLeases,
} from '../../leases.ts'
import { freed, wentBack } from '../concurrency/lines.ts'
import type { Statement } from '../sql/driver.ts'
import type { Fenced, LeaseEnd, OfAttempt } from '../sql/lease.ts'
import { changed, type RawRow, toJobRow } from '../sql/rows.ts'
import { staleOf } from '../state/stale-row.ts'
import type { Store } from '../state/store.ts'
import { ACTIVE, ended } from './attempt-counts.ts'

export function releaseLease(store: Store, id: string, fence: ReleaseFence): EndedLease | Stale {
  const before = leasedRow(store, id, fence)
  if (before === null) return staleOf(store, id)
  const { statements, counter, nonces } = store
  const { messageAttempt, now, cause } = fence
  const { generation, attempt } = before
  const line = historyLine(now, 'available', attempt, null, { reason: 'released', ...cause })
  const jobMessage = [nonces.next(), messageAttempt, line] as const
  const job = changed(statements.release.get(id, generation, attempt, ...jobMessage))
  counter.moved(job.queue, 'active', 'available')
  return { outcome: 'ended', job: wentBack(store, job), before }
}

/** The row if it has the lease that the fence means. Inside the write that ends the lease. */
function leasedRow({ statements }: Store, id: string, fence: SettleFence): JobRow | null {
  const row = toJobRow(statements.find.get(id))
  return row !== null && isHeld(row, fence) ? row : null
}

export function completeLease(
  store: Store,
  id: string,
  fence: SettleFence,
  { now, result, cause }: Completion,
): CompletedJob | Stale {
  const { attempt = null, generation = null, workerId = null } = fence
  const fenced = [id, attempt, workerId, generation] as const
  const line = historyLine(now, 'completed', attempt, null, cause)
  const job = toJobRow(store.statements.complete.get(...fenced, now, result, line))
  if (job === null) return staleOf(store, id)
  const news = ended(store, job, ACTIVE)
  return news === undefined ? job : { ...job, news }
}

export function failLease(
  store: Store,
  id: string,
  fence: SettleFence,
  decide: DecideFailure,
): FailedLease | Stale | Undecided {
  const before = leasedRow(store, id, fence)
  return before === null ? staleOf(store, id) : failRow(store, before, decide)
}

/** Inside the write that has read the active row. */
export function failRow(
  store: Store,
  before: JobRow,
  decide: DecideFailure,
): FailedLease | Undecided {
  const change = decide(before)
  if (change === null) return { outcome: 'undecided', row: before }
  return { outcome: 'ended', ...failed(store, before, change), before, change }
}

/** Ends the attempt of an active row as failed. */
function failed(store: Store, before: JobRow, change: FailureChange): { job: JobRow } & WithNews {
  const job = changed(runFailure(store, before, change))
  if (!change.isCounted) store.traffic.note.failed(job.queue, change.now)
  if (change.to === 'discarded') return { job, news: ended(store, job, ACTIVE) }
  store.counter.moved(job.queue, 'active', change.to)
  store.traffic.note.retried(job.queue, change.now)
  if (isWaitingWithNative(job)) {
    store.counter.moved(job.queue, null, 'with_native')
  }
  if (change.to === 'available') return { job: wentBack(store, job) }
  freed(store, job, true)
  return { job }
}

/** Runs the statement for the state that `change` names. */
function runFailure(
  store: Store,
  { id, generation, attempt }: JobRow,
  change: FailureChange,
): RawRow | undefined {
  const { statements, nonces } = store
  const { now, error, errors, to, cause } = change
  const line = historyLine(now, to, attempt, null, cause)
  const fenced: Fenced = [id, generation, attempt, error, errors]
  switch (change.to) {
    case 'retryable': {
      const { dueAt, delayMs, retryQueueMs, isMessageBack } = change
      const outbox = retryQueueMs === null ? null : nonces.next()
      const isBack = isMessageBack ? 1 : 0
      const due = [outbox, dueAt, delayMs, retryQueueMs, isBack] as const
      return statements.failToRetry.get(...fenced, ...due, line)
    }
    case 'available':
      return statements.failToAvailable.get(...fenced, nonces.next(), line)
    case 'discarded':
      return runDiscard(store, fenced, now, change)
  }
}

export function runDiscard(
  { statements, nonces }: Store,
  fenced: Fenced,
  now: number,
  {
    isDeadLetter,
    copy,
    cause,
  }: { isDeadLetter: boolean; copy: 'nack' | 'publish'; cause?: Cause | undefined },
): RawRow | undefined {
  const isListed = isDeadLetter ? 1 : 0
  const isPublished = copy === 'publish' ? 1 : 0
  const [, , attempt] = fenced
  const line = historyLine(now, 'discarded', attempt, null, cause)
  return statements.failToDiscarded.get(...fenced, nonces.next(), now, isListed, isPublished, line)
}

export function activeByWorker({ statements }: Store, limit: number): Map<string, WorkerLeases> {
  const found = statements.activeByWorker.all(limit)
  return new Map(
    found.map(({ worker, queues, ...leases }) => [
      worker,
      { ...leases, queues: queues.split(',') },
    ]),
  )
}

/** See `LeaseLedger.leasedTo`. */
export function leasedTo(
  { statements }: Store,
  workerId: string,
  from: number,
  limit: number,
): { ids: string[]; next: number | null } {
  const page = statements.leasesFrom.all(workerId, from, Number.MAX_SAFE_INTEGER, limit)
  const last = page.length < limit ? null : (page.at(-1)?.endsAt ?? null)
  if (last !== from) return { ids: ownIds(page), next: last }
  // More leases than fit into a page end at this instant: they are all of one page.
  const all = statements.leasesFrom.all(workerId, from, from + 1, -1)
  return { ids: ownIds(all), next: from + 1 }
}

function ownIds(leases: readonly LeaseEnd[]): string[] {
  return leases.filter(({ isOwn }) => isOwn === 1).map(({ id }) => id)
}

/** What becomes of each of `ids` by a BEAT, in their order. */
export function beatLeases(store: Store, ids: readonly string[], beat: Beat): BeatFate[] {
  return ids.map((id) => beatLease(store, id, beat))
}

function beatLease(store: Store, id: string, beat: Beat): BeatFate {
  const { now, leaseMs, workerId, attempt = null, generation = null } = beat
  const lease = store.statements.extend.get(id, now, leaseMs, workerId, attempt, generation)
  if (lease !== undefined) return { outcome: 'extended', id, lease }
  const stale = staleOf(store, id)
  const isCancelled = stale.row?.state === 'cancelled'
  const owner = stale.row?.workerId ?? workerId
  return isCancelled && owner === workerId ? { outcome: 'cancelled', id } : { ...stale, id }
}

/** Returns how many of the leases still had the holder `gateway`. */
export function handOverLeases({ statements }: Store, leases: readonly LeaseFence[]): number {
  return changedOf(leases, statements.handOver)
}

export function handBackLeases({ statements }: Store, leases: readonly LeaseFence[]): number {
  return changedOf(leases, statements.handBack)
}

function changedOf(leases: readonly LeaseFence[], change: Statement<OfAttempt>): number {
  let count = 0
  for (const { id, generation, attempt } of leases) {
    count += change.run(id, generation, attempt).changes
  }
  return count
}

/** See `LeaseLedger.boundWaits`. Returns how many leases and retries were shortened. */
export function boundWaits({ statements, traffic }: Store, now: number): number {
  traffic.forgetAfter(now)
  statements.boundKeys.run(now)
  // Ask the newest rows first: if none was created after `now`, the clock is taken to have been right, which
  // spares the scan of the whole index. Without rows nobody can tell.
  if ((statements.newestCreated.get()?.createdAt ?? Number.POSITIVE_INFINITY) > now) {
    statements.boundCreated.run(now)
    statements.boundKeptKeys.run(now)
  }
  return statements.boundLeases.run(now).changes + statements.boundRetries.run(now).changes
}
