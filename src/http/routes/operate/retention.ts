/** The operator's word that the clock is right, so that retention goes on. */
import { answer } from '../../message/respond.ts'
import { RESUME_RETENTION } from '../../openapi/operate/system.ts'
import type { Endpoint } from '../../route.ts'
import type { Door } from '../route-deps.ts'

/** Lets retention go on that is held because of the clock; not part of the seeds. */
export function retentionRoutes({ deps }: Door): Endpoint[] {
  return [
    {
      method: 'POST',
      path: '/ojs/v1/admin/retention/resume',
      about: RESUME_RETENTION,
      access: ['operator'],
      handle(_request, response) {
        answer(response, 200, JSON.stringify({ resumed: deps.pruneHold.release() }))
      },
    },
  ]
}
