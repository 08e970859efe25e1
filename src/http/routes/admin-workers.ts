/** `/admin/workers`: who works, and the directives quiet and terminate. */
import type { Request, Response } from 'express'
import { timestamp } from '../../job/document.ts'
import type { ListedWorker } from '../../operations/workers/worker-registry.ts'
import { directWorker, listWorkers } from '../../operations/workers/workers.ts'
import { readOptionalJson } from '../message/body.ts'
import { pageOf, pagination } from '../message/query.ts'
import { answer } from '../message/respond.ts'
import { pathParameter, type Route } from '../route.ts'
import type { Door } from './route-deps.ts'

/** Lists the workers, and tells them to go quiet or to terminate (OJS admin API); not part of the seeds. */
export function adminWorkerRoutes(door: Door): Route[] {
  return [
    {
      method: 'GET',
      path: '/ojs/v1/admin/workers',
      access: ['operator'],
      handle(request, response) {
        const page = pageOf(request)
        const { workers, summary } = listWorkers(door.deps, page)
        const items = workers.map(workerDocument)
        const body = { items, summary, pagination: pagination(page, summary.total) }
        answer(response, 200, JSON.stringify(body))
      },
    },
    {
      method: 'POST',
      path: '/ojs/v1/admin/workers/:id/quiet',
      access: ['operator'],
      handle: (request, response) => direct(door, request, response, 'quiet'),
    },
    {
      method: 'POST',
      path: '/ojs/v1/admin/workers/:id/terminate',
      access: ['operator'],
      handle: (request, response) => direct(door, request, response, 'terminate'),
    },
  ]
}

async function direct(
  { deps, polls }: Door,
  request: Request,
  response: Response,
  directive: 'quiet' | 'terminate',
): Promise<void> {
  await readOptionalJson(request, response, deps.settings.maxBodyBytes)
  const result = directWorker(deps, pathParameter(request, 'id'), directive, request.context)
  polls.endOf((id) => deps.workers.directiveOf(id) !== 'running')
  const body = 'worker' in result ? { worker: workerDocument(result.worker) } : result
  answer(response, 200, JSON.stringify(body))
}

/**
 * `id` as in OJS admin API, `worker_id` as in every request. What a worker never sent is absent, but for
 * `last_heartbeat_at`, which clients need: a worker that only fetches was heard of by its last FETCH.
 */
function workerDocument(worker: ListedWorker): object {
  const { id, hostname, pid, concurrency, version, lastHeartbeatAt } = worker
  return {
    id,
    worker_id: id,
    state: worker.state,
    directive: worker.directive,
    ...(hostname !== null && { hostname }),
    ...(pid !== null && { pid }),
    queues: worker.queues,
    ...(concurrency !== null && { concurrency }),
    labels: worker.labels,
    ...(version !== null && { version }),
    active_jobs: worker.activeJobs,
    active_job_ids: worker.activeJobIds,
    started_at: timestamp(worker.startedAt),
    last_heartbeat_at: timestamp(lastHeartbeatAt ?? worker.lastSeenAt),
    last_seen_at: timestamp(worker.lastSeenAt),
  }
}
