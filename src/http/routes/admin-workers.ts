/** `/admin/workers`: who works, directives to one and to all, and workers that are gone. */
import type { Request, Response } from 'express'
import { timestamp } from '../../job/document.ts'
import { deregisterWorker } from '../../operations/lease/deregister-worker.ts'
import type { ListedWorker } from '../../operations/workers/worker-registry.ts'
import {
  directAll,
  directWorker,
  findWorker,
  listWorkers,
} from '../../operations/workers/workers.ts'
import { parseDirective } from '../../schemas/requests/admin.ts'
import { readJson, readOptionalJson } from '../message/body.ts'
import { adminPageOf, memoryPagination, startOf } from '../message/page.ts'
import { answer } from '../message/respond.ts'
import {
  DEREGISTER,
  DIRECT_ALL,
  GET_WORKER,
  LIST_WORKERS,
  QUIET,
  TERMINATE,
} from '../openapi/admin-workers.ts'
import { type Endpoint, pathParameter } from '../route.ts'
import type { Door } from './route-deps.ts'

/** Lists the workers, tells them to go quiet or to terminate, and forgets lost ones (OJS admin API). */
export function adminWorkerRoutes(door: Door): Endpoint[] {
  return [
    {
      method: 'GET',
      path: '/ojs/v1/admin/workers',
      about: LIST_WORKERS,
      access: ['operator', 'reader'],
      async handle(request, response) {
        const page = adminPageOf(request)
        const place = { limit: page.limit, offset: startOf(page) }
        const { workers, summary } = await listWorkers(door.deps, place)
        const items = workers.map(workerDocument)
        const body = { items, summary, pagination: memoryPagination(request, page, summary.total) }
        answer(response, 200, JSON.stringify(body))
      },
    },
    {
      method: 'GET',
      path: '/ojs/v1/admin/workers/:id',
      about: GET_WORKER,
      access: ['operator', 'reader'],
      async handle(request, response) {
        const { worker, jobs } = await findWorker(door.deps, pathParameter(request, 'id'))
        const active = jobs.map((job) => ({
          ...{ id: job.id, type: job.type, queue: job.queue, attempt: job.attempt },
          ...(job.startedAt !== null && { started_at: timestamp(job.startedAt) }),
          timeout_ms: job.timeoutMs,
        }))
        answer(response, 200, JSON.stringify({ ...workerDocument(worker), jobs: active }))
      },
    },
    {
      method: 'POST',
      path: '/ojs/v1/admin/workers/:id/quiet',
      about: QUIET,
      access: ['operator'],
      handle: (request, response) => direct(door, request, response, 'quiet'),
    },
    {
      method: 'POST',
      path: '/ojs/v1/admin/workers/:id/terminate',
      about: TERMINATE,
      access: ['operator'],
      handle: (request, response) => direct(door, request, response, 'terminate'),
    },
    {
      method: 'POST',
      path: '/ojs/v1/admin/workers/directive',
      about: DIRECT_ALL,
      access: ['operator'],
      async handle(request, response) {
        const { deps, polls } = door
        const body = await readJson(request, response, deps.settings.maxBodyBytes)
        const workers = await directAll(deps, parseDirective(body).directive, request.context)
        endPolls({ deps, polls })
        answer(response, 200, JSON.stringify({ workers }))
      },
    },
    {
      method: 'DELETE',
      path: '/ojs/v1/admin/workers/:id',
      about: DEREGISTER,
      async handle(request, response) {
        const id = pathParameter(request, 'id')
        const { requeued, discarded } = await deregisterWorker(door.deps, id, request.context)
        const counts = { jobs_requeued: requeued, jobs_discarded: discarded }
        answer(response, 200, JSON.stringify({ deregistered: true, id, ...counts }))
      },
    },
  ]
}

function endPolls({ deps, polls }: Pick<Door, 'deps' | 'polls'>): void {
  polls.endOf((id) => deps.workers.directiveOf(id) !== 'running')
}

async function direct(
  { deps, polls }: Door,
  request: Request,
  response: Response,
  directive: 'quiet' | 'terminate',
): Promise<void> {
  await readOptionalJson(request, response, deps.settings.maxBodyBytes)
  const result = await directWorker(deps, pathParameter(request, 'id'), directive, request.context)
  endPolls({ deps, polls })
  answer(response, 200, JSON.stringify('worker' in result ? told(result.worker) : result))
}

/** The members that OJS admin API has at the root stand beside `worker`. */
function told(worker: ListedWorker): object {
  const { id, state, directive } = worker
  return { worker: workerDocument(worker), id, state, directive }
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
    last_heartbeat: timestamp(lastHeartbeatAt ?? worker.lastSeenAt),
    last_seen_at: timestamp(worker.lastSeenAt),
    metadata: {},
  }
}
