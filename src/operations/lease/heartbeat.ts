/** BEAT: a worker extends its leases and learns of directives and cancelled jobs. */
import { testDirective } from '../../dialect.ts'
import type { HeartbeatRequest } from '../../job/request.ts'
import { leaseMsOf } from '../../job/values/duration.ts'
import type { BeatFate } from '../../ledger/leases.ts'
import { parseHeartbeat } from '../../schemas/requests/validator.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { explainStaleLease } from '../job-errors.ts'
import { isJobInScope } from '../scope.ts'
import type { Directive, WorkerReport } from '../workers/worker-registry.ts'
import { acknowledgeEarly } from './hand-over.ts'
import { fenceOf, payToll } from './toll.ts'

/** The longest job id that PUSH accepts, in characters. */
const MAX_ID = 255

export interface Heartbeat {
  directive: Directive
  /** Ids of the extended leases, in the order in which the worker named them. */
  extended: string[]
  /** Ids among those named that were cancelled while this worker had them (ojs-choices C-15). */
  cancelled: string[]
  /** Wall time. */
  serverTime: number
}

/**
 * BEAT (seed 001 §7.6, §10.4): notes that the worker is alive and extends its leases, all in one commit.
 * Leaves out ids whose lease cannot be extended. Only when the worker names a single job with its attempt
 * or generation does it throw for that, as ACK would. Works while RabbitMQ is away. Throws 400, 404, 409, 429, 503.
 */
export async function heartbeat(
  deps: Deps,
  body: unknown,
  context: Pick<RequestContext, 'toll' | 'queues'>,
): Promise<Heartbeat> {
  const request = parseHeartbeat(body)
  const ids = await inScope(deps, context, idsOf(request))
  if (context.toll !== undefined) await payToll(deps, context.toll, ids, fenceOf(request))
  const told = deps.workers.beaten(reportOf(request, ids))
  const fates = ids.length === 0 ? [] : await extend(deps, request, ids)
  requireOwnLease(deps, request, fates)
  const documents = async () => {
    const rows = await Promise.all(ids.map((id) => deps.ledger.read.find(id)))
    return rows.flatMap((row) => row?.envelope ?? [])
  }
  return {
    directive: (await testDirective(deps.settings.dialect, documents)) ?? told,
    extended: idsThat(fates, 'extended'),
    cancelled: idsThat(fates, 'cancelled'),
    serverTime: deps.clock.wall(),
  }
}

/** The jobs that the worker names, in any spelling (ojs-choices C-12); `active_jobs` may be only a number. */
function idsOf({ active_jobs, active_job_ids, job_id }: HeartbeatRequest): string[] {
  const ids = new Set(Array.isArray(active_jobs) ? active_jobs : [])
  for (const id of active_job_ids ?? []) ids.add(id)
  if (job_id != null) ids.add(job_id)
  return [...ids].filter(isPossibleId)
}

/** Those of jobs that the caller may know of. */
async function inScope(
  deps: Deps,
  context: Pick<RequestContext, 'queues'>,
  ids: string[],
): Promise<string[]> {
  if (context.queues === undefined) return ids
  const are = await Promise.all(ids.map((id) => isJobInScope(deps, context, id)))
  return ids.filter((_, i) => are[i])
}

/** False for ids that no job can have; SQLite would read an id with a NUL only up to the NUL. */
function isPossibleId(id: string): boolean {
  return id.length > 0 && id.length <= MAX_ID && !id.includes('\0')
}

function reportOf(request: HeartbeatRequest, ids: readonly string[]): WorkerReport {
  const { worker_id, active_jobs, ...said } = request
  const activeJobs = typeof active_jobs === 'number' ? active_jobs : ids.length
  return { ...said, workerId: worker_id, activeJobs, activeJobIds: ids }
}

async function extend(
  deps: Deps,
  request: HeartbeatRequest,
  ids: readonly string[],
): Promise<BeatFate[]> {
  const fates = await deps.ledger.extend(ids, {
    now: deps.clock.now(),
    workerId: request.worker_id,
    leaseMs: leaseMsOf(request, 'visibility_timeout'),
    attempt: request.attempt,
    generation: request.generation,
  })
  const leases = fates.flatMap((fate) => (fate.outcome === 'extended' ? [fate.lease] : []))
  for (const job of leases) {
    deps.events.emit({ type: 'job.heartbeat', job, workerId: request.worker_id })
  }
  await acknowledgeEarly(deps, leases)
  return fates
}

/** Those cancelled while this worker had them are told, so that it can stop (the flag of seed 001 §7.7). */
function idsThat(fates: readonly BeatFate[], were: 'extended' | 'cancelled'): string[] {
  return fates.flatMap(({ outcome, id }) => (outcome === were ? [id] : []))
}

/** Throws when the worker named one job with its attempt or generation: it wants to know that the lease is not its own. */
function requireOwnLease(deps: Deps, request: HeartbeatRequest, fates: readonly BeatFate[]): void {
  const fence = fenceOf(request)
  const isAsked = fence.attempt != null || fence.generation != null
  const [fate] = fates
  if (!isAsked || fate?.outcome !== 'stale' || fates.length > 1) return
  throw explainStaleLease(deps, fate, fence, 'beat')
}
