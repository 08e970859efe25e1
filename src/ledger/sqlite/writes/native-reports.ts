/** A native worker's report: starts and ends of attempts (docs/architecture.md §5). */
import { historyLine } from '../../../job/history/changes.ts'
import type { JobRow, JobStanding } from '../../../job/job.ts'
import { planFailure, type ReportedEvent } from '../../../job/native/report.ts'
import { retryQueueKey } from '../../../job/retry/backoff.ts'
import { recordEnd, recordLateFailure } from '../../../job/retry/failure.ts'
import type { WithNews } from '../../ended.ts'
import type { ReportResult, ReportTerms } from '../../native.ts'
import {
  applyEach,
  type Completed,
  type Failed,
  MAX_RECORDED_RETRY_QUEUES,
  type ReportedRows,
} from '../../writes/reported.ts'
import { freed, wentBack } from '../concurrency/lines.ts'
import type { Fenced } from '../sql/lease.ts'
import { changed, toJobRow, toStanding } from '../sql/rows.ts'
import type { Store } from '../state/store.ts'
import { adoptJob } from './adopt.ts'
import { ACTIVE, AVAILABLE, ended, started } from './attempt-counts.ts'
import { expireJob } from './discard.ts'
import { runDiscard } from './leases.ts'
import { startNative } from './start.ts'

/** See `NativeLedger.applyReports`. */
export function applyReports(
  store: Store,
  events: readonly ReportedEvent[],
  terms: ReportTerms,
): ReportResult[] {
  return applyEach(rowsOf(store, terms), events)
}

/**
 * Rows are read without their long texts, which are read later and only if something changes: a report may name a
 * thousand jobs.
 */
function rowsOf(store: Store, terms: ReportTerms): ReportedRows<JobStanding, JobRow> {
  const { statements, nonces } = store
  const { now, cause } = terms
  const whole = ({ id }: JobStanding) => changed(statements.find.get(id))
  const messageReturned = ({ id, generation }: JobStanding, attempt: number) =>
    statements.messageReturned.run(id, generation, attempt).changes === 1
  return {
    now,
    part: (run) => run(),
    find: (id) => toStanding(statements.standing.get(id)),
    findOrAdopt: (event) => findOrAdopt(store, event, now),
    whole,
    job: (row) => row,
    startNext: (event) => startNext(store, event, terms),
    completeAtOnce: (event, said) => completeAtOnce(store, event, said, terms),
    begin: (row, { attempt, workerId }, beginning) => {
      const lease = { now, workerId, leaseMs: null, defaultLeaseMs: terms.defaultLeaseMs, cause }
      return startNative(store, row, { attempt, ...beginning }, lease)
    },
    complete: (row, event, said, isTimed) => complete(store, row, event, said, isTimed, terms),
    fail: (row, said) => fail(store, row, said, terms),
    amend: (event, said) => amend(store, event, said, now),
    expire: (row) => expireJob(store, whole(row), now, { messageOut: false, cause }),
    release: (row, event, messageAttempt) => release(store, row, event, messageAttempt, terms),
    leaveToLedger: (row) => {
      statements.handOver.run(row.id, row.generation, row.attempt)
      return row
    },
    acknowledge: (row, attempt) => {
      const isBack = messageReturned(row, attempt)
      if (isBack) statements.oweCopy.run(row.id, row.generation, nonces.next())
      return isBack
    },
    messageReturned,
  }
}

function findOrAdopt(store: Store, event: ReportedEvent, now: number): JobStanding | null {
  const { standing } = store.statements
  const { id, adopt } = event
  const known = toStanding(standing.get(id))
  if (known !== null || adopt === undefined) return known
  if (store.tombstones.has(id, event.ofQueue ?? null)) return null
  adoptJob(store, { ...event, adopt, generation: event.generation ?? 0 }, now)
  return toStanding(standing.get(id))
}

function startNext(
  store: Store,
  { id, generation, attempt, workerId, ofQueue = null }: ReportedEvent,
  { now, defaultLeaseMs, cause }: ReportTerms,
): JobRow | null {
  const lease = [workerId, null, defaultLeaseMs, now] as const
  const line = historyLine(now, 'active', attempt, workerId, cause)
  const { nativeNext } = store.statements
  const next = toJobRow(nativeNext.get(...lease, id, generation, attempt, ofQueue, line))
  if (next) started(store, next, AVAILABLE)
  return next
}

function release(
  store: Store,
  { id, generation, attempt }: JobStanding,
  { workerId }: ReportedEvent,
  messageAttempt: number,
  { now, cause }: ReportTerms,
): JobRow {
  const { statements, counter, nonces } = store
  const fence = [id, generation, attempt, workerId] as const
  const line = historyLine(now, 'available', attempt, null, { reason: 'released', ...cause })
  const job = changed(statements.nativeRelease.get(...fence, nonces.next(), messageAttempt, line))
  counter.moved(job.queue, 'active', 'available')
  if (job.holder === 'native') counter.moved(job.queue, null, 'with_native')
  return wentBack(store, job)
}

/** In one statement. */
function completeAtOnce(
  store: Store,
  { id, generation, attempt, workerId, ofQueue = null }: ReportedEvent,
  { result, elapsedMs }: Completed,
  { now, cause }: ReportTerms,
): ReportResult | null {
  const { nativeDone, nativeNextDone } = store.statements
  const done = [id, generation, attempt, now, result] as const
  const line = historyLine(now, 'completed', attempt, workerId, cause)
  const running = toJobRow(nativeDone.get(...done, elapsedMs ?? null, workerId, ofQueue, line))
  if (running) {
    const news = ended(store, running, ACTIVE, { isTimed: true, elapsedMs })
    return { outcome: 'completed', job: running, begun: null, promoted: false, news }
  }
  const startedAt = now - (elapsedMs ?? 0)
  const lines = historyLine(startedAt, 'active', attempt, workerId, cause) + line
  const next = toJobRow(nativeNextDone.get(...done, workerId, elapsedMs ?? 0, ofQueue, lines))
  if (!next) return null
  // Nobody has reported the start: it is known only if the worker tells how long the attempt took.
  const isTimed = elapsedMs !== undefined
  started(store, next, AVAILABLE, { isTimed })
  const news = ended(store, next, ACTIVE, { isTimed })
  const begun: JobRow = { ...next, state: 'active', workerId }
  return { outcome: 'completed', job: next, begun, promoted: false, news }
}

function complete(
  store: Store,
  { id, generation, attempt }: JobRow,
  { workerId }: ReportedEvent,
  { result, elapsedMs }: Completed,
  isTimed: boolean,
  { now, cause }: ReportTerms,
): { job: JobRow } & WithNews {
  const done = [id, generation, attempt, now, result, elapsedMs ?? null] as const
  const line = historyLine(now, 'completed', attempt, workerId, cause)
  const job = changed(store.statements.nativeDone.get(...done, workerId, null, line))
  return { job, news: ended(store, job, ACTIVE, { isTimed, elapsedMs }) }
}

function fail(
  store: Store,
  row: JobRow,
  said: Failed,
  terms: ReportTerms,
): { job: JobRow; isCounted: boolean } & WithNews {
  const { now, cause } = terms
  const { statements } = store
  const plan = planFailure(row, said, terms)
  const { id, generation, attempt, queue } = row
  const { error, errors, isCounted } = recordEnd(row, said.failure, now)
  const fence: Fenced = [id, generation, attempt, error, errors]
  if (!isCounted) store.traffic.note.failed(queue, now)
  if (plan.to === 'retryable') {
    const { dueAt, delayMs, retryQueueMs } = plan
    // If this retry queue is lost one day, it must be known, or the job message that the worker put there is
    // lost too.
    if (retryQueueMs !== null) recordRetryQueue(store, queue, retryQueueMs)
    // Nothing is owed: the job message is in the retry queue, or the ledger holds the job until it is due.
    const line = historyLine(now, 'retryable', attempt, null, cause)
    const queued = [dueAt, delayMs, retryQueueMs, 1] as const
    const job = changed(statements.failToRetry.get(...fence, null, ...queued, line))
    store.counter.moved(queue, 'active', 'retryable')
    freed(store, job, true)
    store.traffic.note.retried(queue, now)
    return { job, isCounted }
  }
  const job = changed(runDiscard(store, fence, now, { ...plan, cause }))
  const news = ended(store, job, ACTIVE)
  // The worker nacks its delivery. A delivery that the gateway holds is settled by the gateway.
  if (job.messageOut && row.holder !== 'gateway') {
    statements.messageReturned.run(id, generation, null)
    job.messageOut = false
  }
  return { job, isCounted, news }
}

function recordRetryQueue(store: Store, queue: string, delayMs: number): void {
  const isKnown = store.retryQueues.has(retryQueueKey(queue, delayMs))
  if (isKnown || store.retryQueues.all().length >= MAX_RECORDED_RETRY_QUEUES) return
  store.retryQueues.record({ queue, delayMs })
}

function amend(store: Store, { id, attempt }: ReportedEvent, said: Failed, now: number): boolean {
  const row = changed(store.statements.find.get(id))
  const late = recordLateFailure(row.errors, attempt, said.failure, now)
  if (late === null) return false
  store.statements.amendErrors.run(id, row.generation, row.attempt, late.error, late.errors)
  return true
}
