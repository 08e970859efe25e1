import { isHopeless } from '../../errors.ts'
import type { Failure } from '../../job/error-history.ts'
import { isTerminal, type JobRow } from '../../job/job.ts'
import type { ReportedEvent } from '../../job/report.ts'
import type { ReportRequest } from '../../job/request.ts'
import type { ReportResult } from '../../ledger/native.ts'
import type { UnusableEvent } from '../../schemas/control.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { emitPromoted } from '../emit-promoted.ts'
import { takeLease } from '../lease/lease-end.ts'
import { sendOrLeave } from '../token/send-token.ts'
import { beginnings, reportedEvent } from './reported-event.ts'
import { isLeftToUs, keep, keepUnknown } from './unknown-jobs.ts'

/** How many events said something new, and how many did not. */
export interface Reported {
  applied: number
  ignored: number
}

/**
 * What became of jobs that a native worker ran (architecture §5): one commit for all of its events, or
 * a few, and asked for before anything is awaited (`earlier-writes.ts`). Resolves after it, so that the
 * message may be acknowledged; rejects when the ledger cannot be written. What nobody knows, and what
 * is old news, is ignored. Of events that were `leftOut` the job ends as well as it can, or, where
 * nobody else has it, is kept as a dead letter.
 */
export async function report(
  deps: Deps,
  request: ReportRequest,
  context: RequestContext,
  leftOut: readonly UnusableEvent[] = [],
): Promise<Reported> {
  const begun = beginnings(request.events)
  const events = request.events.map((event) => reportedEvent(deps, event, request, begun))
  const standIns = leftOut.flatMap(({ standIn }) => standIn ?? [])
  const instead = standIns.map((event) => reportedEvent(deps, event, request, begun))
  for (const event of instead) event.isStandIn = true
  const reported = await recordParts(deps, partsOf(deps, [...events, ...instead]), context)
  await keepLeftOut(deps, leftOut, request.queue ?? 'default', context)
  return reported
}

/** The same for what was not said in a report: `adopt-schedule.ts`. */
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
    })
  } catch (error) {
    if (!isHopeless(error)) throw error
    const [event, ...others] = events
    if (event === undefined || others.length > 0) {
      // The ledger refuses one of them, and took none.
      const each = events.map((one) => [one])
      return await recordParts(deps, each, context)
    }
    const fields = { err: error, jobId: event.id, event: event.said.event, ...context }
    deps.logger.error(fields, 'the ledger refuses what is reported of a job')
    results = [{ outcome: 'ignored' }]
  }
  let ignored = 0
  const kept: Promise<void>[] = []
  for (const [i, result] of results.entries()) {
    const event = events[i]
    if (event === undefined) continue
    if (result.outcome !== 'ignored') follow(deps, event, result, context.requestId)
    else {
      ignored++
      if (isLeftToUs(deps, event)) kept.push(keepUnknown(deps, event, context))
    }
  }
  await Promise.all(kept)
  return { applied: events.length - ignored, ignored }
}

/**
 * Each that ends a step may begin a thousand others: what is told of its job is a write of its own, so
 * that the ledger need not do it all in one turn.
 */
function partsOf({ ledger }: Deps, events: readonly ReportedEvent[]): ReportedEvent[][] {
  const ends = events.filter(({ said }) => said.event !== 'started').map(({ id }) => id)
  const steps = ledger.workflows.stepsAmong(ends)
  const ofSteps = new Map([...steps].map((id): [string, ReportedEvent[]] => [id, []]))
  const rest: ReportedEvent[] = []
  for (const event of events) (ofSteps.get(event.id) ?? rest).push(event)
  return [rest, ...ofSteps.values()].filter((part) => part.length > 0)
}

/**
 * Each is written and followed by itself, so that what comes again after a failure in between finds
 * nothing half done. All are asked for at once: a claim that waits behind the report does not know of
 * those that are asked for later.
 */
async function recordParts(
  deps: Deps,
  parts: readonly ReportedEvent[][],
  context: RequestContext,
): Promise<Reported> {
  const each = await Promise.allSettled(parts.map((part) => recordReports(deps, part, context)))
  const sum = { applied: 0, ignored: 0 }
  for (const one of each) {
    if (one.status === 'rejected') throw one.reason
    sum.applied += one.value.applied
    sum.ignored += one.value.ignored
  }
  return sum
}

/** Those of events that are left out whose jobs nobody has. */
async function keepLeftOut(
  deps: Deps,
  leftOut: readonly UnusableEvent[],
  queue: string,
  context: RequestContext,
): Promise<void> {
  const kept = leftOut.map(async ({ id, content, problem }) => {
    if (content === null || deps.ledger.standing(id) !== null) return
    await keep(deps, { id, problem }, { id, queue, content }, context)
  })
  await Promise.all(kept)
}

type Applied = Exclude<ReportResult, { outcome: 'ignored' }>

/** The rest of it, behind the commit: deliveries, messages that are owed now, events. */
function follow(deps: Deps, event: ReportedEvent, result: Applied, requestId: string): void {
  if (result.outcome === 'amended' || result.outcome === 'merged') return
  const { job } = result
  if (result.outcome === 'released') {
    followRelease(deps, job, requestId)
    return
  }
  if (isTokenBack(deps, job)) deps.ledger.tokenReturned(job.id, job.generation)
  if (isTerminal(job.state)) deps.tokens.unsure.forget(job.id)
  if (result.outcome === 'started') {
    if (result.promoted) emitPromoted(deps, job)
    deps.events.emit({ type: 'job.started', job, requestId })
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
    emitFailed(deps, job, event, { failure: event.said.failure, isCounted }, requestId)
  } else deps.events.emit({ type: 'job.completed', job, requestId })
  if (job.outbox !== null) void sendOrLeave(deps, job)
}

/**
 * Whoever had a delivery of the job here has lost it to the native worker. Where nobody has, because
 * the channel that it came from is gone, or the gateway, the worker has run the job by its token, and
 * acknowledges that.
 */
function isTokenBack(deps: Deps, job: JobRow): boolean {
  const delivery = takeLease(deps, job.id)
  if (delivery?.isLive()) return delivery.ack() === 'settled'
  return job.state === 'completed' && job.tokenOut
}

/** As a job that an HTTP worker hands back; its token is on its way to the queue, or owed. */
function followRelease(deps: Deps, job: JobRow, requestId: string): void {
  deps.events.emit({ type: 'job.enqueued', job, promoted: true, requestId })
  deps.broker.unpark(job.id)
  if (job.outbox !== null) void sendOrLeave(deps, job)
}

function emitFailed(
  deps: Deps,
  job: JobRow,
  { attempt }: ReportedEvent,
  { failure, isCounted }: { failure: Failure; isCounted: boolean },
  requestId: string,
): void {
  // It was told when the lease of the attempt ran out.
  if (!isCounted) deps.events.emit({ type: 'job.failed', job, attempt, failure, requestId })
  if (job.state === 'retryable') deps.events.emit({ type: 'job.retrying', job, failure, requestId })
  else deps.events.emit({ type: 'job.discarded', job, requestId })
}
