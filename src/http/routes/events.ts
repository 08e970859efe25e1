/** `/events`: the newest events of this process, a page at a time. */

import { queuesOf, typesOf } from '../message/event-filter.ts'
import { integer, parameter } from '../message/query.ts'
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
      scoping: 'own',
      handle(request, response) {
        const limit = integer(request, 'limit', DEFAULT_LIMIT)
        const page = events.list({
          after: parameter(request, 'after'),
          types: typesOf(request),
          queues: queuesOf(request),
          limit: Math.min(limit, MAX_LIMIT),
        })
        answer(response, 200, JSON.stringify(page))
      },
    },
  ]
}
