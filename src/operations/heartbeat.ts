import type { HeartbeatRequest } from '../job/request.ts'
import type { ExtendedLease } from '../ledger/leases.ts'
import { parseHeartbeat } from '../schemas/validator.ts'
import type { Deps } from './deps.ts'
import { explainStaleLease } from './job-refusals.ts'
import { acknowledgeEarly } from './lease/hand-over.ts'
import type { Directive, WorkerReport } from './worker-registry.ts'

/** Of any id that PUSH takes, in characters. */
const MAX_ID = 255

export interface Heartbeat {
  directive: Directive
  /** Ids, in the order in which the worker named them. */
  extended: string[]
  /** Those among them that were cancelled under this worker (ojs-digest C-15). */
  cancelled: string[]
  /** Wall time. */
  serverTime: number
}

/**
 * BEAT (seed 001 §7.6, §10.4): the worker is alive, and its leases go on; one commit for all of
 * them. Ids that cannot be extended are left out, but a single one that is named with its attempt
 * is fenced as in ACK. Works while RabbitMQ is away. Throws 400, 404, 409, 503.
 */
export async function heartbeat(deps: Deps, body: unknown): Promise<Heartbeat> {
  const request = parseHeartbeat(body)
  const ids = idsOf(request)
  const directive = deps.workers.beaten(reportOf(request, ids))
  const leases = ids.length === 0 ? [] : await extend(deps, request, ids)
  const cancelled = cancelledAmong(deps, ids, leases, request.worker_id)
  if (leases.length === 0 && cancelled.length === 0) requireOwnLease(deps, request, ids)
  return {
    directive,
    extended: leases.map(({ id }) => id),
    cancelled,
    serverTime: deps.clock.wall(),
  }
}

/** Every spelling of the jobs that are worked on (ojs-digest C-12); a number names none. */
function idsOf({ active_jobs, active_job_ids, job_id }: HeartbeatRequest): string[] {
  const ids = new Set(Array.isArray(active_jobs) ? active_jobs : [])
  for (const id of active_job_ids ?? []) ids.add(id)
  if (job_id != null) ids.add(job_id)
  return [...ids].filter(isPossibleId)
}

/** The others are of no job, and one with a NUL would be taken for what is before that. */
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
): Promise<ExtendedLease[]> {
  const leases = await deps.ledger.extend(ids, {
    now: deps.clock.now(),
    workerId: request.worker_id,
    leaseMs: request.visibility_timeout_ms ?? null,
    ...(request.attempt != null && { attempt: request.attempt }),
  })
  for (const job of leases) {
    deps.events.emit({ type: 'job.heartbeat', job, workerId: request.worker_id })
  }
  await acknowledgeEarly(deps, leases)
  return leases
}

/** The flag of seed 001 §7.7: jobs that were cancelled while this worker had them. */
function cancelledAmong(
  deps: Deps,
  ids: readonly string[],
  leases: readonly ExtendedLease[],
  workerId: string,
): string[] {
  const extended = new Set(leases.map(({ id }) => id))
  return ids.filter((id) => {
    if (extended.has(id)) return false
    const row = deps.ledger.standing(id)
    return row?.state === 'cancelled' && (row.workerId === null || row.workerId === workerId)
  })
}

/** A worker that names one job and its attempt wants to know when that is not its own any more. */
function requireOwnLease(deps: Deps, request: HeartbeatRequest, ids: readonly string[]): void {
  const { attempt, worker_id: workerId } = request
  const [id] = ids
  if (attempt == null || id === undefined || ids.length > 1) return
  throw explainStaleLease(deps, id, { attempt, workerId }, 'beat')
}
