/** Lists workers, and gives them the directives quiet and terminate. */
import { notFound, OjsError } from '../../errors.ts'
import { isInScope } from '../../job/queue-scope.ts'
import { ANY_JOB } from '../../job/search/filter.ts'
import type { WorkerLeases } from '../../ledger/leases.ts'
import type { FoundJob } from '../../ledger/search.ts'
import type { DirectiveRequest } from '../../schemas/requests/admin.ts'
import { ALL_WORKERS } from '../../schemas/requests/shared-members.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { broadcastDirective } from './broadcasts.ts'
import type { Directive, ListedWorker, WorkerList } from './worker-registry.ts'

/** At most this many leases are counted, those that end first, so that the cost is bounded. */
const MAX_LEASES = 10_000

/**
 * Lists the workers that fetched with a `worker_id` or sent a heartbeat lately (OJS admin API); behind them those of
 * which only their jobs in the ledger tell.
 */
export async function listWorkers(
  deps: Pick<Deps, 'workers' | 'ledger'>,
  page: { limit: number; offset: number },
): Promise<WorkerList> {
  const { workers, summary } = deps.workers.list(page)
  const leases = await leasesByWorker(deps)
  const lost = lostWorkers(deps, leases)
  const from = Math.max(0, page.offset - summary.total)
  const others = lost.slice(from, from + page.limit - workers.length)
  const state = lostState(deps)
  return {
    workers: [...workers.map((worker) => withLeases(worker, leases)), ...others],
    summary: {
      ...summary,
      total: summary.total + lost.length,
      [state]: summary[state] + lost.length,
    },
  }
}

/** At most so many of a worker's active jobs are shown, the newest. */
const MAX_SHOWN_JOBS = 100

/** One worker with its active jobs. Throws 404. */
export async function findWorker(
  deps: Pick<Deps, 'workers' | 'ledger'>,
  id: string,
): Promise<{ worker: ListedWorker; jobs: FoundJob[] }> {
  const worker = await knownWorker(deps, id)
  if (worker === null) throw notFound('worker', id)
  const { jobs } = await deps.ledger.read.search.page(
    { ...ANY_JOB, workerId: id, states: ['active'] },
    {
      ...{ order: 'created_at', isAscending: false, after: null },
      ...{ offset: 0, limit: MAX_SHOWN_JOBS, isWhole: false },
    },
  )
  return { worker, jobs }
}

/**
 * Whether a worker can be counted on (OJS graceful shutdown). A key of some queues sees the workers that serve one
 * of them. Throws 404.
 */
export async function workerHealth(
  deps: Pick<Deps, 'workers' | 'ledger'>,
  id: string,
  { queues }: Pick<RequestContext, 'queues'>,
): Promise<ListedWorker> {
  const worker = await knownWorker(deps, id)
  const isOther = queues !== undefined && !worker?.queues.some((name) => isInScope(queues, name))
  if (worker === null || isOther) throw notFound('worker', id)
  return worker
}

/** A worker that is listed; null: there is none of this id. */
export async function knownWorker(
  deps: Pick<Deps, 'workers' | 'ledger'>,
  id: string,
): Promise<ListedWorker | null> {
  const worker = deps.workers.find(id)
  const leases = await leasesByWorker(deps)
  if (worker !== null) return withLeases(worker, leases)
  return lostWorkers(deps, leases).find((lost) => lost.id === id) ?? null
}

type Leases = ReadonlyMap<string, WorkerLeases>

/** Empty while the ledger cannot be read, which the health endpoint reports. */
async function leasesByWorker({ ledger }: Pick<Deps, 'ledger'>): Promise<Leases> {
  try {
    return await ledger.read.activeByWorker(MAX_LEASES)
  } catch (error) {
    if (error instanceof OjsError) return new Map()
    throw error
  }
}

/**
 * The larger of two counts: its leases in the ledger, since it may not have sent a heartbeat, and its own count,
 * since it may have taken jobs that the ledger does not know.
 */
function withLeases(worker: ListedWorker, leases: Leases): ListedWorker {
  return { ...worker, activeJobs: Math.max(worker.activeJobs, leases.get(worker.id)?.jobs ?? 0) }
}

/**
 * Workers that have jobs, and of which nothing was heard for so long that they are forgotten, or since the start of
 * this gateway: without them nobody could take their jobs from them.
 */
function lostWorkers(deps: Pick<Deps, 'workers'>, leases: Leases): ListedWorker[] {
  const state = lostState(deps)
  return [...leases]
    .filter(([id]) => deps.workers.find(id) === null)
    .map(([id, { jobs, queues, since, until }]) => ({
      ...{ id, hostname: null, pid: null, queues, concurrency: null, labels: [], version: null },
      ...{ reported: null, directive: 'running', state, activeJobs: jobs },
      ...{ activeJobIds: [], startedAt: since, lastHeartbeatAt: null, lastSeenAt: until },
    }))
}

/** Right after the start nobody can say yet that a worker is silent. */
function lostState({ workers }: Pick<Deps, 'workers'>): 'running' | 'stale' {
  return workers.isSettled ? 'stale' : 'running'
}

/**
 * Gives an operator's directive to a worker, or to all (`*`): the answer to its next heartbeat carries the
 * directive, its FETCH returns nothing from now on, and native workers get a broadcast. Throws 404; 409 when
 * the worker was told to terminate already, which cannot be taken back.
 */
export async function directWorker(
  deps: Pick<Deps, 'workers' | 'logger' | 'broker' | 'ledger'>,
  workerId: string,
  directive: Exclude<Directive, 'running'>,
  { requestId, principal }: RequestContext,
): Promise<{ worker: ListedWorker } | { workers: number }> {
  const told =
    workerId === ALL_WORKERS
      ? { workers: deps.workers.directAll(directive) }
      : { worker: directOne(deps, workerId, directive) }
  broadcast(deps, workerId, directive, 'worker' in told ? told.worker.queues : null)
  deps.logger.info({ workerId, directive, requestId, principal }, 'workers got a directive')
  if (!('worker' in told)) return told
  return { worker: withLeases(told.worker, await leasesByWorker(deps)) }
}

/**
 * Gives a directive to all workers; returns how many got it. `resume` takes `quiet` back: a worker that has
 * followed it already, and goes on being quiet by itself, has to be started again.
 */
export async function directAll(
  deps: Pick<Deps, 'workers' | 'logger' | 'broker' | 'ledger'>,
  directive: DirectiveRequest['directive'],
  context: RequestContext,
): Promise<number> {
  if (directive === 'resume') {
    const workers = deps.workers.undirectAll()
    const { requestId, principal } = context
    deps.logger.info({ workers, directive, requestId, principal }, 'workers lost their directive')
    return workers
  }
  const told = await directWorker(deps, ALL_WORKERS, directive, context)
  return 'workers' in told ? told.workers : 0
}

/** `queues`: those of the worker; null: all. A lost broadcast is repeated at the worker's next heartbeat. */
function broadcast(
  deps: Pick<Deps, 'broker' | 'ledger'>,
  workerId: string,
  state: Exclude<Directive, 'running'>,
  queues: readonly string[] | null,
): void {
  for (const queue of queues ?? deps.ledger.known.queues().map(({ name }) => name)) {
    void broadcastDirective(deps, {
      queue,
      workerId: workerId === ALL_WORKERS ? null : workerId,
      state,
    })
  }
}

function directOne(
  deps: Pick<Deps, 'workers'>,
  workerId: string,
  directive: Directive,
): ListedWorker {
  const told = deps.workers.direct(workerId, directive)
  if (told === 'unknown') throw notFound('worker', workerId)
  if (told === 'too-late') {
    throw new OjsError(
      'invalid_request',
      `Worker '${workerId}' has already been told to terminate.`,
      {
        status: 409,
        details: {
          reason: 'invalid_state_transition',
          worker_id: workerId,
          directive: 'terminate',
        },
      },
    )
  }
  return told
}
