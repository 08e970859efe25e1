/** A native worker's report: starts and ends of attempts (docs/architecture.md §5). */
import { historyLine } from '../../../job/history/changes.ts'
import type { JobRow, JobStanding } from '../../../job/job.ts'
import {
  type Beginning,
  boundAttempt,
  type Decision,
  decideReport,
  planFailure,
  type ReportedEvent,
  type Said,
} from '../../../job/native/report.ts'
import { retryQueueKey } from '../../../job/retry/backoff.ts'
import { recordEnd, recordLateFailure } from '../../../job/retry/failure.ts'
import type { WithNews } from '../../ended.ts'
import type { ReportResult, ReportTerms } from '../../native.ts'
import {
  applyEach,
  IGNORED,
  isOfAnother,
  MAX_RECORDED_RETRY_QUEUES,
  OF_ANOTHER,
  settlementOf,
  unapplied,
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
  return applyEach(events, {
    started: (event) => applyStart(store, event, terms),
    dropped: (event) => noteDropped(store, event),
    expired: (event) => applyExpired(store, event, terms),
    released: (event, said) => applyRelease(store, event, said, terms),
    ended: (event, said) => applyEnd(store, event, said, terms),
    adopt: (event) => standingOf(store, event, terms),
  })
}

function applyStart(store: Store, event: ReportedEvent, terms: ReportTerms): ReportResult {
  const { id, generation, attempt, workerId, ofQueue = null } = event
  const lease = [workerId, null, terms.defaultLeaseMs, terms.now] as const
  const line = historyLine(terms.now, 'active', attempt, workerId, terms.cause)
  const { nativeNext } = store.statements
  const next = toJobRow(nativeNext.get(...lease, id, generation, attempt, ofQueue, line))
  if (next) {
    started(store, next, AVAILABLE)
    return { outcome: 'started', job: next, promoted: false }
  }
  const standing = standingOf(store, event, terms)
  if (isOfAnother(event, standing)) return OF_ANOTHER
  const bounded = boundAttempt(event, standing)
  const decision = decideReport(bounded, standing, terms.now)
  if (standing === null || decision.do !== 'start') return unapplied(decision)
  const row = changed(store.statements.find.get(id))
  const job = begin(store, bounded, terms, row, decision.begins)
  return { outcome: 'started', job, promoted: decision.begins.promote }
}

const RESUMED: Beginning = { skipped: [], promote: false }

/** Starts the attempt that the event is about. `start` null: it had started, and only its lease ran out. */
function begin(
  store: Store,
  { attempt, workerId }: ReportedEvent,
  { now, defaultLeaseMs, cause }: ReportTerms,
  row: JobRow,
  start: Beginning | null,
): JobRow {
  const lease = { now, workerId, leaseMs: null, defaultLeaseMs, cause }
  return startNative(store, row, { attempt, ...(start ?? RESUMED) }, lease)
}

/**
 * Reads the row without its long texts, which are read later and only if something changes: a report may
 * name a thousand jobs. An unknown id (a job that was published natively) is adopted if the report brought
 * the job along. If it were not, and the worker leaves the retry to the gateway, the job would be lost as
 * soon as the worker acknowledges its job message.
 */
function standingOf(store: Store, event: ReportedEvent, { now }: ReportTerms): JobStanding | null {
  const { standing } = store.statements
  const { id, adopt } = event
  const known = toStanding(standing.get(id))
  if (known !== null || adopt === undefined) return known
  if (store.tombstones.has(id, event.ofQueue ?? null)) return null
  adoptJob(store, { ...event, adopt, generation: event.generation ?? 0 }, now)
  return toStanding(standing.get(id))
}

type Ended = Extract<Said, { event: 'completed' | 'failed' }>
type Completed = Extract<Said, { event: 'completed' }>

function applyEnd(
  store: Store,
  event: ReportedEvent,
  said: Ended,
  terms: ReportTerms,
): ReportResult {
  const done = said.event === 'completed' ? completeAtOnce(store, event, said, terms) : null
  if (done) return done
  const standing = standingOf(store, event, terms)
  if (standing === null) return IGNORED
  if (isOfAnother(event, standing)) return OF_ANOTHER
  const bounded = boundAttempt(event, standing)
  const decision = decideReport(bounded, standing, terms.now)
  const row = () => changed(store.statements.find.get(event.id))
  if (decision.do === 'complete' || decision.do === 'fail') {
    return endAttempt(store, bounded, said, terms, row(), decision)
  }
  noteSettled(store, bounded, said, standing)
  return decision.do === 'amend' ? amend(store, event, said, terms, row()) : unapplied(decision)
}

/** The same as the expiry of a waiting job, except that its job message is back. */
function applyExpired(store: Store, event: ReportedEvent, terms: ReportTerms): ReportResult {
  const standing = standingOf(store, event, terms)
  if (isOfAnother(event, standing)) return OF_ANOTHER
  const decision = decideReport(event, standing, terms.now)
  if (standing === null || decision.do !== 'expire') return noteDropped(store, event)
  const row = changed(store.statements.find.get(event.id))
  const gone = { messageOut: false, cause: terms.cause }
  return { outcome: 'expired', ...expireJob(store, row, terms.now, gone) }
}

/** The worker puts its job message back into the queue: the next execution is the same attempt again. */
function applyRelease(
  store: Store,
  event: ReportedEvent,
  { messageAttempt }: Extract<Said, { event: 'released' }>,
  terms: ReportTerms,
): ReportResult {
  const { statements, counter, nonces } = store
  const row = toJobRow(statements.find.get(event.id))
  if (isOfAnother(event, row)) return OF_ANOTHER
  if (row === null || decideReport(event, row, terms.now).do !== 'release') return IGNORED
  const { id, generation, attempt } = row
  const fence = [id, generation, attempt, event.workerId] as const
  const cause = { reason: 'released', ...terms.cause }
  const line = historyLine(terms.now, 'available', attempt, null, cause)
  const job = changed(statements.nativeRelease.get(...fence, nonces.next(), messageAttempt, line))
  counter.moved(job.queue, 'active', 'available')
  if (job.holder === 'native') counter.moved(job.queue, null, 'with_native')
  return { outcome: 'released', job: wentBack(store, job) }
}

/**
 * The worker has dropped the job message: an ended row may be pruned, and a running job goes on without it.
 */
function noteDropped(store: Store, event: ReportedEvent): ReportResult {
  const { id, generation, attempt } = event
  const row = toStanding(store.statements.standing.get(id))
  if (isOfAnother(event, row)) return OF_ANOTHER
  if (!row || (generation ?? row.generation) !== row.generation) return IGNORED
  leaveToLedger(store, event, row)
  return noteAcknowledged(store, row, attempt) ? { outcome: 'amended' } : IGNORED
}

/** Notes that the worker acknowledges the job message. False: `messageOut` was not cleared by this. */
function noteAcknowledged(store: Store, { id, generation }: JobStanding, attempt: number): boolean {
  const { statements, nonces } = store
  const isBack = statements.messageReturned.run(id, generation, attempt).changes === 1
  // The copy was to be made by a nack when this job message came back to the gateway. Now it must be
  // published.
  if (isBack) statements.oweCopy.run(id, generation, nonces.next())
  return isBack
}

/** The job is over or runs elsewhere, so the report changes no state; but the worker settles its delivery. */
function noteSettled(store: Store, event: ReportedEvent, said: Ended, row: JobStanding): void {
  const settlement = settlementOf(event, said, row)
  if (settlement === 'leave') leaveToLedger(store, event, row)
  else if (settlement === 'acknowledge') noteAcknowledged(store, row, event.attempt)
  else if (settlement === 'return')
    store.statements.messageReturned.run(row.id, row.generation, event.attempt)
}

/** The lease goes on without its job message: the worker that reports this attempt settles the delivery. */
function leaveToLedger(store: Store, { attempt }: ReportedEvent, row: JobStanding): void {
  if (attempt === row.attempt) store.statements.handOver.run(row.id, row.generation, attempt)
}

/** Completes the usual cases in one statement: the running attempt, or the next one of an available job. */
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

function endAttempt(
  store: Store,
  event: ReportedEvent,
  said: Ended,
  terms: ReportTerms,
  row: JobRow,
  decision: Extract<Decision, { do: 'complete' | 'fail' }>,
): ReportResult {
  const { begins } = decision
  // Null: the attempt had started before, and was running, or only its lease had run out.
  const start = begins === 'resumed' ? null : begins
  const running = begins === null ? row : begin(store, event, terms, row, start)
  const promoted = start?.promote ?? false
  const whence = { begun: start && running, promoted }
  if (said.event === 'failed') {
    return { outcome: 'failed', ...fail(store, running, said, terms), ...whence }
  }
  const { id, generation, attempt } = running
  const { result, elapsedMs } = said
  const done = [id, generation, attempt, terms.now, result, elapsedMs ?? null] as const
  const line = historyLine(terms.now, 'completed', attempt, event.workerId, terms.cause)
  const job = changed(store.statements.nativeDone.get(...done, event.workerId, null, line))
  // If nobody had reported the start, `startedAt` was set just now and says nothing.
  const isTimed = begins === null || (elapsedMs !== undefined && !promoted)
  const news = ended(store, job, ACTIVE, { isTimed, elapsedMs })
  return { outcome: 'completed', job, ...whence, news }
}

function fail(
  store: Store,
  row: JobRow,
  said: Extract<Said, { event: 'failed' }>,
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

/** Fills in the error of an attempt that was recorded without a report. Changes nothing but that record. */
function amend(
  store: Store,
  { attempt }: ReportedEvent,
  said: Ended,
  { now }: ReportTerms,
  row: JobRow,
): ReportResult {
  if (said.event !== 'failed') return IGNORED
  const late = recordLateFailure(row.errors, attempt, said.failure, now)
  if (late === null) return IGNORED
  const { id, generation } = row
  store.statements.amendErrors.run(id, generation, row.attempt, late.error, late.errors)
  return { outcome: 'amended' }
}
