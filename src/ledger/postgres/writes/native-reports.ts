/** A native worker's report: starts and ends of attempts (docs/architecture.md §5). */
import { historyLine } from '../../../job/history/changes.ts'
import type { JobRow } from '../../../job/job.ts'
import { planFailure, type ReportedEvent } from '../../../job/native/report.ts'
import { recordEnd, recordLateFailure } from '../../../job/retry/failure.ts'
import { returned } from '../../../job/transitions/end.ts'
import { failed, handedOver, leased } from '../../../job/transitions/lease.ts'
import {
  copyOwed,
  isNativeNext,
  nativeDone,
  nativeNextDone,
  nativeReleased,
} from '../../../job/transitions/native.ts'
import { type Change, type KeptRow, recorded } from '../../../job/transitions/row.ts'
import type { WithNews } from '../../ended.ts'
import type { ReportResult, ReportTerms } from '../../native.ts'
import { applyEach, type Completed, type Failed, type ReportedRows } from '../../writes/reported.ts'
import type { Draft } from '../group/draft.ts'
import { adoptJob } from './adopt.ts'
import { expireJob } from './end.ts'
import { recordReported } from './queues.ts'
import { completedJob } from './results.ts'
import { startNative } from './start.ts'

/** See `NativeLedger.applyReports`. */
export function applyReports(
  draft: Draft,
  events: readonly ReportedEvent[],
  terms: ReportTerms,
): ReportResult[] {
  return draft.inParts((part) => applyEach({ ...rowsOf(draft, terms), part }, events))
}

function rowsOf(draft: Draft, terms: ReportTerms): Omit<ReportedRows<KeptRow, KeptRow>, 'part'> {
  const { now, cause } = terms
  return {
    now,
    find: (id) => draft.row(id),
    findOrAdopt: (event) => findOrAdopt(draft, event, now),
    whole: (row) => row,
    job: (row) => draft.job(row),
    startNext: (event) => startNext(draft, event, terms),
    completeAtOnce: (event, said) => completeAtOnce(draft, event, said, terms),
    begin: (row, { attempt, workerId }, beginning) => {
      const lease = { now, workerId, leaseMs: null, defaultLeaseMs: terms.defaultLeaseMs, cause }
      return startNative(draft, row, { attempt, ...beginning }, lease)
    },
    complete: (row, event, said, isTimed) => complete(draft, row, event, said, isTimed, terms),
    fail: (row, said) => fail(draft, row, said, terms),
    amend: (event, said) => amend(draft, event, said, now),
    expire: (row) => expireJob(draft, row, now, false, cause),
    release: (row, { workerId }, messageAttempt) => {
      const because = { reason: 'released', ...cause }
      const line = historyLine(now, 'available', row.attempt, null, because)
      const change = nativeReleased(row, { workerId, messageAttempt }, draft.nextNonce(), line)
      return change && draft.job(draft.change(row, change))
    },
    leaveToLedger: (row) =>
      applied(draft, row, handedOver(row, { generation: row.generation, attempt: row.attempt })) ??
      row,
    acknowledge: (row, attempt) => acknowledge(draft, row, attempt),
    messageReturned: (row, attempt) => applied(draft, row, returned(row, row.generation, attempt)),
  }
}

function findOrAdopt(draft: Draft, event: ReportedEvent, now: number): KeptRow | null {
  const { id, adopt } = event
  const known = draft.row(id)
  if (known !== null || adopt === undefined) return known
  if (draft.isTombstoned(id, event.ofQueue ?? null)) return null
  adoptJob(draft, { ...event, adopt, generation: event.generation ?? 0 }, now)
  return draft.row(id)
}

function startNext(
  draft: Draft,
  event: ReportedEvent,
  { now, defaultLeaseMs, cause }: ReportTerms,
): JobRow | null {
  const row = draft.row(event.id)
  if (row === null || !isNativeNext(row, event)) return null
  if (row.outbox !== null && row.workerId !== null) return null
  const { attempt, workerId } = event
  const lease = { now, workerId, leaseMs: null, defaultLeaseMs }
  const history = recorded(row, historyLine(now, 'active', attempt, workerId, cause))
  const after = draft.change(row, { ...leased(row, 'native', lease), attempt, history })
  draft.traffic.began(after, row)
  return draft.job(after)
}

function acknowledge(draft: Draft, row: KeptRow, attempt: number): boolean {
  const after = applied(draft, row, returned(row, row.generation, attempt))
  if (after === null) return false
  applied(draft, after, copyOwed(after, after.generation, draft.nextNonce()))
  return true
}

/** The row after the change; null: there is nothing to change. */
function applied(draft: Draft, row: KeptRow, change: Change | null): KeptRow | null {
  return change && draft.change(row, change)
}

function completeAtOnce(
  draft: Draft,
  event: ReportedEvent,
  { result, elapsedMs }: Completed,
  { now, cause }: ReportTerms,
): ReportResult | null {
  const row = draft.row(event.id)
  if (row === null) return null
  const { attempt, workerId } = event
  const done = { now, result, elapsedMs, workerId }
  const line = historyLine(now, 'completed', attempt, workerId, cause)
  const running = applied(draft, row, nativeDone(row, event, done, line))
  const whence = { begun: null, promoted: false }
  if (running) {
    const job = completedJob(draft, running, { isTimed: true, elapsedMs })
    return { outcome: 'completed', job, ...whence, news: draft.ended(running, job) }
  }
  const lines = historyLine(now - (elapsedMs ?? 0), 'active', attempt, workerId, cause) + line
  const next = applied(draft, row, nativeNextDone(row, event, done, lines))
  if (!next) return null
  // Nobody has reported the start: it is known only if the worker tells how long the attempt took.
  const isTimed = elapsedMs !== undefined
  draft.traffic.began(next, row, isTimed)
  const job = completedJob(draft, next, { isTimed })
  const begun: JobRow = { ...job, state: 'active', workerId }
  return { outcome: 'completed', job, begun, promoted: false, news: draft.ended(next, job) }
}

function complete(
  draft: Draft,
  row: KeptRow,
  { workerId }: ReportedEvent,
  { result, elapsedMs }: Completed,
  isTimed: boolean,
  { now, cause }: ReportTerms,
): { job: JobRow } & WithNews {
  const { generation, attempt } = row
  const line = historyLine(now, 'completed', attempt, workerId, cause)
  const done = { now, result, elapsedMs, workerId }
  const after = applied(draft, row, nativeDone(row, { generation, attempt }, done, line))
  if (after === null) throw new Error('bug: an attempt that runs could not be completed')
  const job = completedJob(draft, after, { isTimed, elapsedMs })
  return { job, news: draft.ended(after, job) }
}

function fail(
  draft: Draft,
  row: KeptRow,
  said: Failed,
  terms: ReportTerms,
): { job: JobRow; isCounted: boolean } & WithNews {
  const { now, cause } = terms
  const job = draft.job(row)
  const plan = planFailure(job, said, terms)
  const { error, errors, isCounted } = recordEnd(job, said.failure, now)
  if (!isCounted) draft.traffic.failed(row.queue, now)
  const line = historyLine(now, plan.to, row.attempt, null, cause)
  const { generation, queue } = row
  const change = { ...plan, now, error, errors, isMessageBack: true }
  // Nothing is owed for a retry: the message is in the retry queue, or the ledger holds the job until it is due.
  const ended = failed(row, change, draft.nextNonce(), line)
  const retry = plan.to === 'retryable'
  if (retry) draft.traffic.retried(queue, now)
  if (retry && plan.retryQueueMs !== null) recordReported(draft, queue, plan.retryQueueMs)
  const after = draft.change(row, retry ? { ...ended, outbox: null } : ended)
  // The worker nacks its delivery. A delivery that the gateway holds is settled by the gateway.
  const isBack = !retry && after.messageOut && row.holder !== 'gateway'
  const settled = isBack
    ? (applied(draft, after, returned(after, generation, null)) ?? after)
    : after
  const settledJob = draft.job(settled)
  const news = plan.to === 'discarded' ? draft.ended(row, settledJob) : undefined
  return { job: settledJob, isCounted, news }
}

function amend(draft: Draft, { id, attempt }: ReportedEvent, said: Failed, now: number): boolean {
  const row = draft.row(id)
  if (row === null) return false
  const { errors, error } = draft.job(row)
  const late = recordLateFailure(errors, attempt, said.failure, now)
  if (late === null) return false
  const amended = error === null ? null : (late.error ?? error)
  draft.change(row, { errors: late.errors, error: amended })
  return true
}
