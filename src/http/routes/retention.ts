/** The operator's word that the clock is right, so that retention goes on. */
import { answer } from '../message/respond.ts'
import type { Route } from '../route.ts'
import type { Door } from './route-deps.ts'

/** Lets retention go on that is held because of the clock; not part of the seeds. */
export function retentionRoutes({ deps }: Door): Route[] {
  return [
    {
      method: 'POST',
      path: '/ojs/v1/admin/retention/resume',
      access: ['operator'],
      handle(_request, response) {
        answer(response, 200, JSON.stringify({ resumed: deps.pruneHold.release() }))
      },
    },
  ]
}
