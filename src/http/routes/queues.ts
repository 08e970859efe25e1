import { timestamp } from '../../job/document.ts'
import { listQueues } from '../../operations/queues.ts'
import { answer } from '../answer.ts'
import { pageOf, pagination } from '../query.ts'
import type { Route } from '../route.ts'
import type { Door } from './door.ts'

/** List queues (seed 001 §11.1). */
export function queueRoutes({ deps }: Door): Route[] {
  return [
    {
      method: 'GET',
      path: '/ojs/v1/queues',
      access: ['operator'],
      handle(request, response) {
        const page = pageOf(request)
        const { queues, total } = listQueues(deps, page)
        const items = queues.map(({ name, status, createdAt }) => ({
          name,
          status,
          created_at: timestamp(createdAt),
        }))
        answer(
          response,
          200,
          JSON.stringify({ queues: items, pagination: pagination(page, total) }),
        )
      },
    },
  ]
}
