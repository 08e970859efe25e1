import { recoverQueue } from '../../operations/recover.ts'
import { answer } from '../answer.ts'
import { readOptionalJson } from '../body.ts'
import { pathParameter, type Route } from '../route.ts'
import type { Door } from './door.ts'

/** Declares a lost queue again and publishes its jobs again; not part of the seeds. */
export function recoverRoutes({ deps }: Door): Route[] {
  return [
    {
      method: 'POST',
      path: '/ojs/v1/admin/queues/:name/recover',
      access: ['operator'],
      async handle(request, response) {
        await readOptionalJson(request, response, deps.settings.maxBodyBytes)
        const recovered = await recoverQueue(deps, pathParameter(request, 'name'), request.context)
        answer(response, 200, JSON.stringify(recovered))
      },
    },
  ]
}
