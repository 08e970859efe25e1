/** Statistics of everything, and queues, as OJS's Admin API shows them. */
import { findQueue, listQueues } from '../../operations/queues/queues.ts'
import { requireQueueInScope } from '../../operations/scope.ts'
import { listWorkers } from '../../operations/workers/workers.ts'
import { adminPageOf, memoryPagination, startOf } from '../message/page.ts'
import { parameter } from '../message/query.ts'
import { answer } from '../message/respond.ts'
import { ADMIN_STATS, GET_ADMIN_QUEUE, LIST_ADMIN_QUEUES } from '../openapi/queues.ts'
import { type Endpoint, pathParameter } from '../route.ts'
import { adminQueue, adminStats } from './queue-documents.ts'
import type { Door } from './route-deps.ts'

const ALL = { limit: Number.POSITIVE_INFINITY, offset: 0 }

/** Statistics and queues (OJS admin API; not part of the seeds). */
export function adminQueueRoutes({ deps, health }: Door): Endpoint[] {
  return [
    {
      method: 'GET',
      path: '/ojs/v1/admin/stats',
      about: ADMIN_STATS,
      access: ['operator', 'reader'],
      scoping: 'own',
      async handle(request, response) {
        const { context } = request
        const name = parameter(request, 'queue')
        if (name !== null) requireQueueInScope(context, name, 'queue')
        const { queues } = await listQueues(deps, ALL, name === null ? context.queues : [name])
        const { total, ...summary } = (await listWorkers(deps, { limit: 0, offset: 0 })).summary
        const stats = {
          ...adminStats(queues),
          workers: total,
          worker_summary: { total, ...summary },
          uptime_seconds: (await health()).body.uptime_seconds,
        }
        answer(response, 200, JSON.stringify(stats))
      },
    },
    {
      method: 'GET',
      path: '/ojs/v1/admin/queues',
      about: LIST_ADMIN_QUEUES,
      access: ['operator', 'reader'],
      scoping: 'own',
      async handle(request, response) {
        const page = adminPageOf(request)
        const place = { limit: page.limit, offset: startOf(page) }
        const { queues, total } = await listQueues(deps, place, request.context.queues)
        const items = queues.map(adminQueue)
        const pagination = memoryPagination(request, page, total)
        answer(response, 200, JSON.stringify({ items, pagination }))
      },
    },
    {
      method: 'GET',
      path: '/ojs/v1/admin/queues/:name',
      about: GET_ADMIN_QUEUE,
      access: ['operator', 'reader'],
      scoping: 'queue',
      async handle(request, response) {
        const queue = await findQueue(deps, pathParameter(request, 'name'))
        answer(response, 200, JSON.stringify({ ...adminQueue(queue), configuration: {} }))
      },
    },
  ]
}
