import { failureOf } from '../job/failure.ts'
import type { JobRow, RowState } from '../job/job.ts'
import type { ReportedEvent, Said } from '../job/report.ts'
import type { ReportEvent, ReportRequest } from '../job/request.ts'
import type { ReportResult } from '../ledger/native.ts'
import type { Deps, RequestContext } from './deps.ts'
import { emitPromoted } from './fetch.ts'
import { settleLease } from './lease-end.ts'
import { sendToken } from './send-token.ts'

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
  const events = request.events.map((event) => reportedEvent(event, request.worker_id))
  const results = await deps.ledger.applyReports(events, {
    now: deps.clock.now(),
    defaultLeaseMs: deps.settings.visibilityTimeoutMs,
    random: deps.random,
  })
  let ignored = 0
  for (const [i, result] of results.entries()) {
    const event = events[i]
    if (result.outcome === 'ignored') ignored++
    else if (event !== undefined) follow(deps, event, result, context.requestId)
  }
  return { applied: events.length - ignored, ignored }
}

function reportedEvent(event: ReportEvent, workerId: string): ReportedEvent {
  const { job_id: id, generation = null, attempt } = event
  return { id, generation, attempt, workerId, said: saidOf(event) }
}

function saidOf(event: ReportEvent): Said {
  switch (event.event) {
    case 'started':
    case 'dropped':
      return { event: event.event }
    case 'completed': {
      const { result } = event
      const isNone = result === undefined || result === null
      return { event: 'completed', result: isNone ? null : JSON.stringify(result) }
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
  // Whoever had a delivery of the job here has lost it to the native worker.
  if (settleLease(deps, job.id)) deps.ledger.tokenReturned(job.id, job.generation)
  if (result.outcome === 'started') {
    if (result.promoted) emitPromoted(deps, job)
    deps.events.emit({ type: 'job.started', job, requestId })
    return
  }
  if (result.promoted) emitPromoted(deps, job)
  if (result.began) emitBegun(deps, job, event, requestId)
  if (event.said.event === 'failed') emitFailed(deps, job, event, event.said.failure, requestId)
  else deps.events.emit({ type: 'job.completed', job, requestId })
  if (job.outbox !== null) void sendToken(deps, job)
}

/**
 * An end that implied its start: the row as it was in between. Lent to the listeners, who keep
 * nothing of it; a copy of every row of a report would cost more than its events.
 */
function emitBegun(deps: Deps, job: JobRow, { workerId }: ReportedEvent, requestId: string): void {
  const after: { state: RowState; workerId: string | null } = job
  const { state, workerId: owner } = after
  job.state = 'active'
  job.workerId = workerId
  deps.events.emit({ type: 'job.started', job, requestId })
  job.state = state
  job.workerId = owner
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
