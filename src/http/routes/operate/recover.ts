/** The operator's request to publish the jobs of a lost queue again, also as a dry run. */
import { OjsError } from '../../../errors.ts'
import { recoverable, recoverQueue } from '../../../operations/queues/recover.ts'
import { readOptionalJson } from '../../message/body.ts'
import { answer, answerDryRun } from '../../message/respond.ts'
import { RECOVER } from '../../openapi/queues.ts'
import { type Endpoint, pathParameter } from '../../route.ts'
import type { Door } from '../route-deps.ts'

/** Declares a lost queue again and publishes its jobs again; not part of the seeds. */
export function recoverRoutes({ deps }: Door): Endpoint[] {
  return [
    {
      method: 'POST',
      path: '/ojs/v1/admin/queues/:name/recover',
      about: RECOVER,
      access: ['operator'],
      scoping: 'queue',
      async handle(request, response) {
        const body = await readOptionalJson(request, response, deps.settings.maxBodyBytes)
        const queue = pathParameter(request, 'name')
        if (isDryRun(body)) answerDryRun(response, JSON.stringify(await recoverable(deps, queue)))
        else {
          const recovered = await recoverQueue(deps, queue, request.context)
          answer(response, 200, JSON.stringify(recovered))
        }
      },
    },
  ]
}

/** `{ "dry_run": true }`. Throws 400 for another value, which may have meant that nothing is to be published. */
function isDryRun(body: unknown): boolean {
  const given: unknown =
    typeof body === 'object' && body !== null ? Reflect.get(body, 'dry_run') : null
  if (typeof given === 'boolean' || given == null) return given === true
  throw new OjsError('invalid_request', "'dry_run' must be true or false.", {
    details: { field: 'dry_run' },
  })
}
