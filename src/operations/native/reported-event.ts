/** One event of a report in the ledger's form, with the job that came along. */
import { queueRefusal } from '../../broker/broker-errors.ts'
import type { NewJob } from '../../job/job.ts'
import { attemptKey, type ReportedEvent, type Said } from '../../job/native/report.ts'
import type { ReportEvent, ReportRequest } from '../../job/request.ts'
import { failureOf } from '../../job/retry/failure.ts'
import { adoptedJob, reportedError } from '../adopt/adopt.ts'
import type { Deps } from '../deps.ts'
import { scopeOf } from './scope.ts'

/** Converts one event of a report to the ledger's form. `begun`: the `beginnings` of the same report. */
export function reportedEvent(
  deps: Deps,
  event: ReportEvent,
  request: ReportRequest,
  begun: ReadonlyMap<string, number>,
): ReportedEvent {
  const { job_id: id, generation = null, attempt, job } = event
  const { worker_id: workerId } = request
  const said = saidOf(event, begun)
  const { queue = 'default' } = request
  const ofQueue = scopeOf(deps, queue)
  if (job == null) return { id, generation, attempt, workerId, ofQueue, said }
  const shown = { queue, body: job }
  const adopt = () => shownJob(deps, event, job, queue)
  const before = () => reportedError(event.headers ?? {})
  return { id, generation, attempt, workerId, ofQueue, said, adopt, reportedError: before, shown }
}

/** The delivery that a worker sent along with its report, or with its claim. */
type Shown = Pick<ReportEvent, 'job_id' | 'headers' | 'properties' | 'max_attempts'>

/** Makes a job out of the delivery that the worker sent along. */
export function shownJob(
  deps: Deps,
  event: Shown,
  job: Record<string, unknown>,
  fallback: string,
): NewJob {
  const content = Buffer.from(JSON.stringify(job))
  const { headers, properties } = event
  const shown = { content, headers: headers ?? {}, properties: properties ?? {} }
  const { message, maxAttempts, carry } = deps.broker.shown(shown)
  const queue = scopeOf(deps, fallback) ?? originOf(job, headers) ?? fallback
  requireRoomFor(deps, queue)
  return adoptedJob(deps, {
    id: event.job_id,
    queue,
    maxAttempts: event.max_attempts ?? maxAttempts,
    message,
    carry: () => carry,
  })
}

/**
 * Throws 422 for an unknown queue when the ledger has `maxQueues` queues already. The worker chooses the
 * queue's name, and a queue that the ledger records is declared after each reconnect and never forgotten. The
 * jobs of one commit may exceed the limit by a few.
 */
function requireRoomFor({ ledger, settings }: Deps, queue: string): void {
  if (ledger.known.hasQueue(queue) || ledger.known.queues().length < settings.maxQueues) return
  throw queueRefusal(queue, 'too-many-queues')
}

/** The queue that the job itself names: the report may have come by the control queue of another one. */
function originOf(job: Record<string, unknown>, headers: ReportEvent['headers']): string | null {
  const said = [job['queue'], headers?.['x-ojs-queue']]
  return said.find((name): name is string => typeof name === 'string' && name !== '') ?? null
}

/** Start times of the executions in a report, by the worker's clock; starts without a time are left out. */
export function beginnings(events: readonly ReportEvent[]): Map<string, number> {
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

/** Both times are by the worker's clock, so its offset from the gateway's clock does not matter. */
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
      return { event: 'released', messageAttempt: event.token_attempt }
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
