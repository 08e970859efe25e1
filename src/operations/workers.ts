import { OjsError } from '../errors.ts'
import { broadcastDirective } from './broadcasts.ts'
import type { Deps, RequestContext } from './deps.ts'
import type { Directive, ListedWorker, WorkerList } from './worker-registry.ts'

/** Stands for every worker that is known. */
const ALL = '*'

/** Everybody who fetched with a `worker_id` or sent a heartbeat lately (ojs-digest §11). */
export function listWorkers(
  deps: Pick<Deps, 'workers'>,
  page: { limit: number; offset: number },
): WorkerList {
  return deps.workers.list(page)
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
  return told
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
  if (told === 'unknown') {
    throw new OjsError('not_found', `Worker '${workerId}' not found.`, {
      details: { resource_type: 'worker', resource_id: workerId },
    })
  }
  if (told === 'too-late') {
    throw new OjsError('invalid_request', `Worker '${workerId}' was told to terminate already.`, {
      status: 409,
      details: { reason: 'invalid_state_transition', worker_id: workerId, directive: 'terminate' },
    })
  }
  return told
}
