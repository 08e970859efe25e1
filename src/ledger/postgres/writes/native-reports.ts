/** A native worker's report: starts and ends of attempts (docs/architecture.md §5). */
import { historyLine } from '../../../job/history/changes.ts'
import type { JobRow } from '../../../job/job.ts'
import {
  type Beginning,
  boundAttempt,
  type Decision,
  decideReport,
  planFailure,
  type ReportedEvent,
  type Said,
} from '../../../job/native/report.ts'
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
import {
  applyEach,
  IGNORED,
  isOfAnother,
  OF_ANOTHER,
  settlementOf,
  unapplied,
} from '../../writes/reported.ts'
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
  return applyEach(events, {
    started: (event) => applyStart(draft, event, terms),
    dropped: (event) => noteDropped(draft, event),
    expired: (event) => applyExpired(draft, event, terms),
    released: (event, said) => applyRelease(draft, event, said, terms),
    ended: (event, said) => applyEnd(draft, event, said, terms),
    adopt: (event) => rowOf(draft, event, terms),
  })
}

function applyStart(draft: Draft, event: ReportedEvent, terms: ReportTerms): ReportResult {
  const row = rowOf(draft, event, terms)
  if (row !== null && isOfAnother(event, row)) return OF_ANOTHER
  const isNext = row !== null && isNativeNext(row, event)
  if (isNext && (row.outbox === null || row.workerId === null))
    return { outcome: 'started', job: startNext(draft, row, event, terms), promoted: false }
  const bounded = boundAttempt(event, row)
  const decision = decideReport(bounded, row, terms.now)
  if (row === null || decision.do !== 'start') return unapplied(decision)
  const job = draft.job(begin(draft, bounded, terms, row, decision.begins))
  return { outcome: 'started', job, promoted: decision.begins.promote }
}

/** The usual start: the next attempt of an available job. */
function startNext(
  draft: Draft,
  row: KeptRow,
  { attempt, workerId }: ReportedEvent,
  { now, defaultLeaseMs, cause }: ReportTerms,
): JobRow {
  const lease = { now, workerId, leaseMs: null, defaultLeaseMs }
  const history = recorded(row, historyLine(now, 'active', attempt, workerId, cause))
  const after = draft.change(row, { ...leased(row, 'native', lease), attempt, history })
  draft.traffic.began(after, row)
  return draft.job(after)
}

const RESUMED: Beginning = { skipped: [], promote: false }

/** Starts the attempt that the event is about. `start` null: it had started, and only its lease ran out. */
function begin(
  draft: Draft,
  { attempt, workerId }: ReportedEvent,
  { now, defaultLeaseMs, cause }: ReportTerms,
  row: KeptRow,
  start: Beginning | null,
): KeptRow {
  const lease = { now, workerId, leaseMs: null, defaultLeaseMs, cause }
  return startNative(draft, row, { attempt, ...(start ?? RESUMED) }, lease)
}

/**
 * An unknown id (a job that was published natively) is adopted if the report brought the job along. If it were
 * not, and the worker leaves the retry to the gateway, the job would be lost as soon as the worker acknowledges
 * its job message.
 */
function rowOf(draft: Draft, event: ReportedEvent, { now }: ReportTerms): KeptRow | null {
  const { id, adopt } = event
  const known = draft.row(id)
  if (known !== null || adopt === undefined) return known
  if (draft.isTombstoned(id, event.ofQueue ?? null)) return null
  adoptJob(draft, { ...event, adopt, generation: event.generation ?? 0 }, now)
  return draft.row(id)
}

type Ended = Extract<Said, { event: 'completed' | 'failed' }>

function applyEnd(
  draft: Draft,
  event: ReportedEvent,
  said: Ended,
  terms: ReportTerms,
): ReportResult {
  const known = draft.row(event.id)
  const isUsual = known !== null && said.event === 'completed'
  const done = isUsual ? completeAtOnce(draft, known, event, said, terms) : null
  if (done) return done
  const row = rowOf(draft, event, terms)
  if (row === null) return IGNORED
  if (isOfAnother(event, row)) return OF_ANOTHER
  const bounded = boundAttempt(event, row)
  const decision = decideReport(bounded, row, terms.now)
  if (decision.do === 'complete' || decision.do === 'fail')
    return endAttempt(draft, bounded, said, terms, row, decision)
  noteSettled(draft, bounded, said, row)
  return decision.do === 'amend' ? amend(draft, event, said, terms) : unapplied(decision)
}

/** The same as the expiry of a waiting job, except that its job message is back. */
function applyExpired(draft: Draft, event: ReportedEvent, terms: ReportTerms): ReportResult {
  const row = rowOf(draft, event, terms)
  if (isOfAnother(event, row)) return OF_ANOTHER
  const decision = decideReport(event, row, terms.now)
  if (row === null || decision.do !== 'expire') return noteDropped(draft, event)
  return { outcome: 'expired', ...expireJob(draft, row, terms.now, false, terms.cause) }
}

/** The worker puts its job message back into the queue: the next execution is the same attempt again. */
function applyRelease(
  draft: Draft,
  event: ReportedEvent,
  { messageAttempt }: Extract<Said, { event: 'released' }>,
  { now, cause }: ReportTerms,
): ReportResult {
  const row = draft.row(event.id)
  if (isOfAnother(event, row)) return OF_ANOTHER
  if (row === null || decideReport(event, row, now).do !== 'release') return IGNORED
  const line = historyLine(now, 'available', row.attempt, null, { reason: 'released', ...cause })
  const { workerId } = event
  const change = nativeReleased(row, { workerId, messageAttempt }, draft.nextNonce(), line)
  if (change === null) return IGNORED
  return { outcome: 'released', job: draft.job(draft.change(row, change)) }
}

/**
 * The worker has dropped the job message: an ended row may be pruned, and a running job goes on without it.
 */
function noteDropped(draft: Draft, event: ReportedEvent): ReportResult {
  const { id, generation, attempt } = event
  const row = draft.row(id)
  if (isOfAnother(event, row)) return OF_ANOTHER
  if (!row || (generation ?? row.generation) !== row.generation) return IGNORED
  const after = leaveToLedger(draft, event, row)
  return noteAcknowledged(draft, after, attempt) ? { outcome: 'amended' } : IGNORED
}

/** Notes that the worker acknowledges the job message. False: `messageOut` was not cleared by this. */
function noteAcknowledged(draft: Draft, row: KeptRow, attempt: number): boolean {
  const after = applied(draft, row, returned(row, row.generation, attempt))
  if (after === null) return false
  // The copy was to be made by a nack when this job message came back to the gateway. Now it must be
  // published.
  applied(draft, after, copyOwed(after, after.generation, draft.nextNonce()))
  return true
}

/** The row after the change; null: there is nothing to change. */
function applied(draft: Draft, row: KeptRow, change: Change | null): KeptRow | null {
  return change && draft.change(row, change)
}

/** The job is over or runs elsewhere, so the report changes no state; but the worker settles its delivery. */
function noteSettled(draft: Draft, event: ReportedEvent, said: Ended, row: KeptRow): void {
  const { attempt } = event
  const settlement = settlementOf(event, said, row)
  if (settlement === 'leave') leaveToLedger(draft, event, row)
  else if (settlement === 'acknowledge') noteAcknowledged(draft, row, attempt)
  else if (settlement === 'return') applied(draft, row, returned(row, row.generation, attempt))
}

/** The lease goes on without its job message: the worker that reports this attempt settles the delivery. */
function leaveToLedger(draft: Draft, { attempt }: ReportedEvent, row: KeptRow): KeptRow {
  const { generation } = row
  const change = attempt === row.attempt ? handedOver(row, { generation, attempt }) : null
  return applied(draft, row, change) ?? row
}

/** Completes the usual cases: the running attempt, or the next one of an available job. */
function completeAtOnce(
  draft: Draft,
  row: KeptRow,
  event: ReportedEvent,
  { result, elapsedMs }: Extract<Said, { event: 'completed' }>,
  { now, cause }: ReportTerms,
): ReportResult | null {
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

function endAttempt(
  draft: Draft,
  event: ReportedEvent,
  said: Ended,
  terms: ReportTerms,
  row: KeptRow,
  { begins }: Extract<Decision, { do: 'complete' | 'fail' }>,
): ReportResult {
  // Null: the attempt had started before, and was running, or only its lease had run out.
  const start = begins === 'resumed' ? null : begins
  const running = begins === null ? row : begin(draft, event, terms, row, start)
  const begun = start && draft.job(running)
  const promoted = start?.promote ?? false
  if (said.event === 'failed')
    return { outcome: 'failed', ...fail(draft, running, said, terms), begun, promoted }
  const { now, cause } = terms
  const { result, elapsedMs } = said
  const { workerId } = event
  const line = historyLine(now, 'completed', running.attempt, workerId, cause)
  const { generation, attempt } = running
  const change = nativeDone(
    running,
    { generation, attempt },
    { now, result, elapsedMs, workerId },
    line,
  )
  const after = applied(draft, running, change)
  if (after === null) throw new Error('bug: an attempt that runs could not be completed')
  // If nobody had reported the start, `startedAt` was set just now and says nothing.
  const isTimed = begins === null || (elapsedMs !== undefined && !promoted)
  const job = completedJob(draft, after, { isTimed, elapsedMs })
  return { outcome: 'completed', job, begun, promoted, news: draft.ended(after, job) }
}

function fail(
  draft: Draft,
  row: KeptRow,
  said: Extract<Said, { event: 'failed' }>,
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

/** Fills in the error of an attempt that was recorded without a report. Changes nothing but that record. */
function amend(
  draft: Draft,
  { id, attempt }: ReportedEvent,
  said: Ended,
  { now }: ReportTerms,
): ReportResult {
  const row = draft.row(id)
  if (said.event !== 'failed' || row === null) return IGNORED
  const { errors, error } = draft.job(row)
  const late = recordLateFailure(errors, attempt, said.failure, now)
  if (late === null) return IGNORED
  const amended = error === null ? null : (late.error ?? error)
  draft.change(row, { errors: late.errors, error: amended })
  return { outcome: 'amended' }
}
