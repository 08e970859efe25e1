import type { Unusable } from '../broker/broker.ts'
import { isHopeless } from '../errors.ts'
import { failureOf } from '../job/failure.ts'
import type { JobRow, NewJob } from '../job/job.ts'
import { attemptKey, type ReportedEvent, type Said } from '../job/report.ts'
import type { ReportEvent, ReportRequest } from '../job/request.ts'
import type { ReportResult } from '../ledger/native.ts'
import type { UnusableEvent } from '../schemas/control.ts'
import { adoptedJob } from './adopt.ts'
import type { Deps, RequestContext } from './deps.ts'
import { emitPromoted } from './emit-promoted.ts'
import { takeLease } from './lease-end.ts'
import { reportedError } from './reported-error.ts'
import { sendOrLeave } from './send-token.ts'

/** How many events said something new, and how many did not. */
export interface Reported {
  applied: number
  ignored: number
}

/**
 * What became of jobs that a native worker ran (architecture §5): one commit for all of its events.
 * Resolves after it, so that the message may be acknowledged; rejects when the ledger cannot be
 * written. What nobody knows, and what is old news, is ignored.
 */
export async function report(
  deps: Deps,
  request: ReportRequest,
  context: RequestContext,
): Promise<Reported> {
  const begun = beginnings(request.events)
  const events = request.events.map((event) => reportedEvent(deps, event, request, begun))
  return await applyReports(deps, events, context)
}

/** The same for what was not said in a report: `adopt-schedule.ts`. */
export async function applyReports(
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
    if (event === undefined || others.length > 0) return await applyEach(deps, events, context)
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
 * The ledger refuses one of them, and took none: each is written and followed by itself, so that what
 * comes again after a failure in between finds nothing half done.
 */
async function applyEach(
  deps: Deps,
  events: readonly ReportedEvent[],
  context: RequestContext,
): Promise<Reported> {
  const sum = { applied: 0, ignored: 0 }
  for (const event of events) {
    const { applied, ignored } = await applyReports(deps, [event], context)
    sum.applied += applied
    sum.ignored += ignored
  }
  return sum
}

function reportedEvent(
  deps: Deps,
  event: ReportEvent,
  request: ReportRequest,
  begun: ReadonlyMap<string, number>,
): ReportedEvent {
  const { job_id: id, generation = null, attempt, job } = event
  const { worker_id: workerId } = request
  const said = saidOf(event, begun)
  if (job == null) return { id, generation, attempt, workerId, said }
  const { queue = 'default' } = request
  const shown = { queue, body: job }
  const adopt = () => shownJob(deps, event, job, queue)
  const before = () => reportedError(event.headers ?? {})
  return { id, generation, attempt, workerId, said, adopt, reportedError: before, shown }
}

/** The delivery that a report brought along, as a job of ours. */
function shownJob(
  deps: Deps,
  event: ReportEvent,
  job: Record<string, unknown>,
  fallback: string,
): NewJob {
  const content = Buffer.from(JSON.stringify(job))
  const { headers, properties } = event
  const shown = { content, headers: headers ?? {}, properties: properties ?? {} }
  const { message, maxAttempts, carry } = deps.broker.shown(shown)
  return adoptedJob(deps, {
    id: event.job_id,
    queue: originOf(job, headers) ?? fallback,
    maxAttempts: event.max_attempts ?? maxAttempts,
    message,
    carry: () => carry,
  })
}

/** The control queue that a report comes by need not be that of the job. */
function originOf(job: Record<string, unknown>, headers: ReportEvent['headers']): string | null {
  const said = [job['queue'], headers?.['x-ojs-queue']]
  return said.find((name): name is string => typeof name === 'string' && name !== '') ?? null
}

/** Its worker acknowledges the token and leaves the rest to us, who do not have the job. */
function isLeftToUs(deps: Deps, { id, said }: ReportedEvent): boolean {
  if (said.event !== 'failed' || said.outcome?.decision === 'discard') return false
  if (said.outcome?.rung_ms != null || deps.ledger.find(id) !== null) return false
  // Cancelled before anybody here knew it: nobody wants it back.
  return !deps.ledger.isTombstoned(id)
}

/**
 * A job that came along and cannot be adopted goes where malformed tokens go. Not so without its
 * dead letter queue, or while RabbitMQ is away: then only the log tells of it.
 */
async function keepUnknown(
  deps: Deps,
  event: ReportedEvent,
  context: RequestContext,
): Promise<void> {
  const { id, shown } = event
  const unusable = shown && {
    id,
    queue: shown.queue,
    content: Buffer.from(JSON.stringify(shown.body)),
  }
  await keep(deps, { id, ...whyNotAdopted(event) }, unusable, context)
}

/**
 * What a report's events would have said that are left out: the job ends as well as it can, or, where
 * nobody else has it, is kept as a dead letter.
 */
export async function settleLeftOut(
  deps: Deps,
  { worker_id, queue, leftOut }: LeftOutOfReport,
  context: RequestContext,
): Promise<void> {
  const events: ReportEvent[] = []
  const lost: (Unusable & { problem: string })[] = []
  for (const { id, content, problem, standIn } of leftOut) {
    const isKnown = deps.ledger.find(id) !== null
    if (isKnown && standIn !== null) events.push(standIn)
    if (!isKnown && content !== null) lost.push({ id, queue, content, problem })
  }
  if (events.length > 0) await report(deps, { worker_id, queue, events }, context)
  const kept = lost.map(({ problem, ...job }) => keep(deps, { id: job.id, problem }, job, context))
  await Promise.all(kept)
}

interface LeftOutOfReport {
  worker_id: string
  queue: string
  leftOut: readonly UnusableEvent[]
}

async function keep(
  deps: Deps,
  { id, ...why }: { id: string; problem?: string },
  unusable: Unusable | undefined,
  { requestId }: RequestContext,
): Promise<void> {
  const outcome = unusable && (await deps.broker.bury(unusable))
  deps.logger.warn(
    { jobId: id, requestId, ...why, ...(outcome && { outcome }) },
    outcome === 'confirmed'
      ? 'a failed job that cannot be adopted is in the dead letter queue'
      : 'a retry of a job that nobody knows was left to us',
  )
}

/** What is wrong with the job that came along, if one did. */
function whyNotAdopted({ adopt }: ReportedEvent): { problem?: string } {
  try {
    adopt?.()
    return {}
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) }
  }
}

/** When executions began by their worker's clock; a start without a time is not among them. */
function beginnings(events: readonly ReportEvent[]): Map<string, number> {
  const begun = new Map<string, number>()
  for (const event of events) {
    if (event.event !== 'started' || event.at == null) continue
    const at = Date.parse(event.at)
    if (Number.isFinite(at)) begun.set(keyOf(event), at)
  }
  return begun
}

function keyOf({ generation, attempt, job_id: id }: ReportEvent): string {
  return attemptKey(generation ?? null, attempt, id)
}

/** Both times are the worker's: how far its clock is from ours does not matter. */
function elapsed(
  event: ReportEvent & { event: 'completed' },
  begun: ReadonlyMap<string, number>,
): { elapsedMs?: number } {
  const { started_at: startedAt, at } = event
  const told = typeof startedAt === 'string' ? Date.parse(startedAt) : undefined
  const start = told ?? (begun.size === 0 ? undefined : begun.get(keyOf(event)))
  if (start === undefined || at == null) return {}
  const elapsedMs = Math.round(Date.parse(at) - start)
  return elapsedMs >= 0 ? { elapsedMs } : {}
}

function saidOf(event: ReportEvent, begun: ReadonlyMap<string, number>): Said {
  switch (event.event) {
    case 'started':
    case 'dropped':
    case 'expired':
      return { event: event.event }
    case 'released':
      return { event: 'released', tokenAttempt: event.token_attempt }
    case 'completed': {
      const { result } = event
      const isNone = result === undefined || result === null
      const text = isNone ? null : JSON.stringify(result)
      return { event: 'completed', result: text, ...elapsed(event, begun) }
    }
    case 'failed':
      return { event: 'failed', failure: failureOf(event.error), outcome: event.outcome ?? null }
  }
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
  if (event.said.event === 'failed') emitFailed(deps, job, event, event.said.failure, requestId)
  else deps.events.emit({ type: 'job.completed', job, requestId })
  if (job.outbox !== null) void sendOrLeave(deps, job)
}

/**
 * Whoever had a delivery of the job here has lost it to the native worker. Where nobody had, because
 * the gateway that had is gone, the worker has run the job by its token, and acknowledges that.
 */
function isTokenBack(deps: Deps, job: JobRow): boolean {
  const delivery = takeLease(deps, job.id)
  return delivery ? delivery.ack() === 'settled' : job.state === 'completed' && job.tokenOut
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
  failure: Extract<Said, { event: 'failed' }>['failure'],
  requestId: string,
): void {
  deps.events.emit({ type: 'job.failed', job, attempt, failure, requestId })
  if (job.state === 'retryable') deps.events.emit({ type: 'job.retrying', job, failure, requestId })
  else deps.events.emit({ type: 'job.discarded', job, requestId })
}
