import { notFound, OjsError } from '../errors.ts'
import { broadcastDirective } from './broadcasts.ts'
import type { Deps, RequestContext } from './deps.ts'
import type { Directive, ListedWorker, WorkerList } from './worker-registry.ts'

/** Stands for every worker that is known. */
const ALL = '*'

/** Those that end first count, so that it costs the same for every backlog. */
const MAX_LEASES = 10_000

/** Everybody who fetched with a `worker_id` or sent a heartbeat lately (ojs-digest §11). */
export function listWorkers(
  deps: Pick<Deps, 'workers' | 'ledger'>,
  page: { limit: number; offset: number },
): WorkerList {
  const { workers, summary } = deps.workers.list(page)
  return { workers: workers.map(countLeases(deps)), summary }
}

/**
 * A worker has what the ledger says that it has, and that a heartbeat has not named yet (it may
 * never send one). It may have more by its own count: what it took and nobody knows of. That is also
 * what counts while the ledger cannot be read, of which health tells.
 */
function countLeases({ ledger }: Pick<Deps, 'ledger'>): (worker: ListedWorker) => ListedWorker {
  let leases: ReadonlyMap<string, number> = new Map()
  try {
    leases = ledger.activeByWorker(MAX_LEASES)
  } catch (error) {
    if (!(error instanceof OjsError)) throw error
  }
  return (worker) => ({
    ...worker,
    activeJobs: Math.max(worker.activeJobs, leases.get(worker.id) ?? 0),
  })
}

/**
 * What an operator wants of a worker, or of all (`*`): its next heartbeat says so, its FETCH gets
 * nothing from now on, and native workers are told by broadcast. Throws 404; 409 when it was told
 * to end already (one way only).
 */
export function directWorker(
  deps: Pick<Deps, 'workers' | 'logger' | 'broker' | 'ledger'>,
  workerId: string,
  directive: Exclude<Directive, 'running'>,
  { requestId }: RequestContext,
): { worker: ListedWorker } | { workers: number } {
  const told =
    workerId === ALL
      ? { workers: deps.workers.directAll(directive) }
      : { worker: directOne(deps, workerId, directive) }
  broadcast(deps, workerId, directive, 'worker' in told ? told.worker.queues : null)
  deps.logger.info({ workerId, directive, requestId }, 'workers directed')
  return 'worker' in told ? { worker: countLeases(deps)(told.worker) } : told
}

/** `queues`: those that it works on; null: all. What is lost, a heartbeat makes up for. */
function broadcast(
  deps: Pick<Deps, 'broker' | 'ledger'>,
  workerId: string,
  state: Exclude<Directive, 'running'>,
  queues: readonly string[] | null,
): void {
  for (const queue of queues ?? deps.ledger.queues().map(({ name }) => name)) {
    void broadcastDirective(deps, { queue, workerId: workerId === ALL ? null : workerId, state })
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
    throw new OjsError('invalid_request', `Worker '${workerId}' was told to terminate already.`, {
      status: 409,
      details: { reason: 'invalid_state_transition', worker_id: workerId, directive: 'terminate' },
    })
  }
  return told
}
