/** `/events`: the newest events of this process, a page at a time. */
import { integer, list, parameter } from '../message/query.ts'
import { answer } from '../message/respond.ts'
import { LIST_EVENTS } from '../openapi/events.ts'
import type { Endpoint } from '../route.ts'
import type { Door } from './route-deps.ts'

const DEFAULT_LIMIT = 100
const MAX_LIMIT = 1_000

/** The newest events (OJS events, ojs-choices S2). Not part of the seeds. */
export function eventRoutes({ events }: Door): Endpoint[] {
  return [
    {
      method: 'GET',
      path: '/ojs/v1/events',
      about: LIST_EVENTS,
      access: ['operator'],
      scoping: { parameter: 'queues' },
      handle(request, response) {
        const limit = integer(request, 'limit', DEFAULT_LIMIT)
        const page = events.list({
          after: parameter(request, 'after'),
          types: list(request, 'types'),
          queues: list(request, 'queues'),
          limit: Math.min(limit, MAX_LIMIT),
        })
        answer(response, 200, JSON.stringify(page))
      },
    },
  ]
}
