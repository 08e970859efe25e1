/** Applies a native worker's report: job ends, starts and releases in one commit, then their effects. */
import { isHopeless } from '../../errors.ts'
import { isTerminal, type JobRow } from '../../job/job.ts'
import type { Refusal, ReportedEvent } from '../../job/native/report.ts'
import type { ReportRequest } from '../../job/request.ts'
import type { Failure } from '../../job/retry/error-history.ts'
import type { ReportResult } from '../../ledger/native.ts'
import type { LeftOut } from '../../schemas/requests/invalid-events.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { emitPromoted } from '../emit-promoted.ts'
import { followNews } from '../job-end.ts'
import { sendOrLeave } from '../job-messages/send.ts'
import { takeLease } from '../lease/lease-end.ts'
import { beginnings, reportedEvent } from './reported-event.ts'
import { isLeftToUs, type Kept, keep, keepUnknown, logKept } from './unknown-jobs.ts'

/** How many events changed a row, and how many were ignored; which of these were refused. */
export interface Reported {
  applied: number
  ignored: number
  refused: readonly (readonly [Refusal, jobId: string])[]
}

/**
 * Applies a native worker's report about the jobs that it ran (docs/architecture.md §5), in one commit or a
 * few. Asks the ledger for these writes before it awaits anything (`earlier-writes.ts`). Resolves after the
 * commits, so that the message may be acknowledged; rejects when the ledger cannot be written. Ignores events
 * of unknown jobs that bring no job along, and events that the row is already past. `leftOut`: events that
 * are not valid. Where possible a stand-in event ends their job; a job that the ledger does not have goes to
 * the dead letter queue.
 */
export async function report(
  deps: Deps,
  request: ReportRequest,
  context: RequestContext,
  leftOut: readonly LeftOut[] = [],
): Promise<Reported> {
  const begun = beginnings(request.events)
  const events = request.events.map((event) => reportedEvent(deps, event, request, begun))
  const standIns = leftOut
    .flatMap(({ standIn }) => standIn ?? [])
    .map((event) => reportedEvent(deps, event, request, begun))
  for (const event of standIns) event.isStandIn = true
  const reported = await recordParts(deps, partsOf(deps, [...events, ...standIns]), context)
  await keepLeftOut(deps, leftOut, request.queue ?? 'default', context)
  return reported
}

/** As `report`, for events that did not come by a report message (`adopt-schedule.ts`). */
export async function recordReports(
  deps: Deps,
  events: readonly ReportedEvent[],
  context: RequestContext,
): Promise<Reported> {
  let results: ReportResult[]
  try {
    results = await deps.ledger.applyReports(events, {
      now: deps.clock.now(),
      defaultLeaseMs: deps.settings.visibilityTimeoutMs,
      random: deps.random,
      cause: context,
    })
  } catch (error) {
    if (!isHopeless(error)) throw error
    const [event, ...others] = events
    if (event === undefined || others.length > 0) {
      // The ledger refuses one event of the group and has stored none: write each by itself.
      const each = events.map((one) => [one])
      return await recordParts(deps, each, context)
    }
    const fields = { err: error, jobId: event.id, event: event.said.event, ...context }
    deps.logger.error(fields, 'reported event ignored: the ledger refuses it')
    results = [{ outcome: 'ignored' }]
  }
  let ignored = 0
  const refused: [Refusal, string][] = []
  const passedBy: ReportedEvent[] = []
  for (const [i, result] of results.entries()) {
    const event = events[i]
    if (event === undefined) continue
    if (result.outcome === 'refused') {
      ignored++
      refused.push([result.reason, event.id])
    } else if (result.outcome !== 'ignored') follow(deps, event, result, context.requestId)
    else {
      ignored++
      passedBy.push(event)
    }
  }
  const kept: Promise<Kept>[] = []
  for (const event of passedBy) {
    if (await isLeftToUs(deps, event)) kept.push(keepUnknown(deps, event))
  }
  logKept(deps, await Promise.all(kept), context)
  return { applied: events.length - ignored, ignored, refused }
}

/**
 * Splits events into groups, one ledger write each. While workflows run, the end of a job may be that of a step
 * and begin a thousand others, so the events of each job that ends are a group of their own: the ledger then does
 * not do all of it in one turn of the event loop.
 */
function partsOf({ ledger }: Deps, events: readonly ReportedEvent[]): ReportedEvent[][] {
  if (!ledger.known.workflows.isAnyRunning()) return [[...events]]
  const ends = events.filter(({ said }) => said.event !== 'started').map(({ id }) => id)
  const ofEnded = new Map(ends.map((id): [string, ReportedEvent[]] => [id, []]))
  const rest: ReportedEvent[] = []
  for (const event of events) (ofEnded.get(event.id) ?? rest).push(event)
  return [rest, ...ofEnded.values()].filter((part) => part.length > 0)
}

/**
 * Writes and follows each group by itself, so that no group is half done when one of them fails and the
 * report is delivered again. Asks for all writes at once: a claim that waits for earlier writes
 * (`earlier-writes.ts`) would not see those asked for later.
 */
async function recordParts(
  deps: Deps,
  parts: readonly ReportedEvent[][],
  context: RequestContext,
): Promise<Reported> {
  const outcomes = await Promise.allSettled(parts.map((part) => recordReports(deps, part, context)))
  let [applied, ignored] = [0, 0]
  const refused: Reported['refused'][] = []
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected') throw outcome.reason
    applied += outcome.value.applied
    ignored += outcome.value.ignored
    refused.push(outcome.value.refused)
  }
  return { applied, ignored, refused: refused.flat() }
}

/** Dead-letters the jobs of invalid events that the ledger does not have; nobody else would keep them. */
async function keepLeftOut(
  deps: Deps,
  leftOut: readonly LeftOut[],
  queue: string,
  context: RequestContext,
): Promise<void> {
  const kept = leftOut.map(async ({ id, content, problem }) => {
    if (content === null || (await deps.ledger.read.standing(id)) !== null) return []
    return await keep(deps, { id, problem }, { id, queue, content })
  })
  logKept(deps, (await Promise.all(kept)).flat(), context)
}

type Applied = Exclude<ReportResult, { outcome: 'ignored' | 'refused' }>

/** Does what follows the commit: settles deliveries, publishes what the row owes now, emits events. */
function follow(deps: Deps, event: ReportedEvent, result: Applied, requestId: string): void {
  if (result.outcome === 'amended' || result.outcome === 'merged') return
  const { job } = result
  if (result.outcome === 'released') {
    followRelease(deps, job, requestId)
    return
  }
  if ('news' in result && result.news !== undefined) followNews(deps, result.news)
  if (isMessageBack(deps, job)) deps.ledger.messageReturned(job.id, job.generation)
  if (isTerminal(job.state)) deps.jobMessages.unsure.forget(job.id)
  if (result.outcome === 'started') {
    emitStarted(deps, result, requestId)
    return
  }
  if (result.outcome === 'expired') {
    deps.events.emit({ type: 'job.expired', job })
    deps.broker.unpark(job.id)
    return
  }
  if (result.promoted) emitPromoted(deps, job)
  if (result.begun) deps.events.emit({ type: 'job.started', job: result.begun, requestId })
  if (event.said.event === 'failed') {
    const isCounted = result.outcome === 'failed' && result.isCounted
    emitFailed(deps, job, { failure: event.said.failure, isCounted }, requestId)
  } else deps.events.emit({ type: 'job.completed', job, requestId })
  if (job.outbox !== null) void sendOrLeave(deps, job)
}

/** What follows the start of an attempt by a native worker that claimed it. */
export function followStart(
  deps: Deps,
  start: { job: JobRow; promoted: boolean },
  requestId: string,
): void {
  const { job } = start
  if (isMessageBack(deps, job)) deps.ledger.messageReturned(job.id, job.generation)
  emitStarted(deps, start, requestId)
}

function emitStarted(
  deps: Deps,
  { job, promoted }: { job: JobRow; promoted: boolean },
  requestId: string,
): void {
  if (promoted) emitPromoted(deps, job)
  deps.events.emit({ type: 'job.started', job, requestId })
}

/**
 * Acknowledges a delivery of the job that this gateway still holds: the native worker has taken the job over.
 * Returns true when the job message is back. Without a live delivery here, because its channel or an earlier
 * gateway process is gone, the worker ran the job by its message, and acknowledges it when the job completes.
 */
function isMessageBack(deps: Deps, job: JobRow): boolean {
  const delivery = takeLease(deps, job.id)
  if (delivery?.isLive()) return delivery.ack() === 'settled'
  return job.state === 'completed' && job.messageOut
}

/**
 * As for a job that an HTTP worker hands back; its job message returns to the queue, or the outbox owes one.
 */
function followRelease(deps: Deps, job: JobRow, requestId: string): void {
  deps.events.emit({ type: 'job.enqueued', job, promoted: true, from: 'active', requestId })
  deps.broker.unpark(job.id)
  if (job.outbox !== null) void sendOrLeave(deps, job)
}

function emitFailed(
  deps: Deps,
  job: JobRow,
  { failure, isCounted }: { failure: Failure; isCounted: boolean },
  requestId: string,
): void {
  // A counted failure was emitted when the lease of the attempt ran out.
  const { attempt } = job
  if (!isCounted) deps.events.emit({ type: 'job.failed', job, attempt, failure, requestId })
  if (job.state === 'retryable') deps.events.emit({ type: 'job.retrying', job, failure, requestId })
  else deps.events.emit({ type: 'job.discarded', job, requestId })
}
