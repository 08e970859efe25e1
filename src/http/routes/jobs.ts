import { jobDocument } from '../../job/document.ts'
import { cancel } from '../../operations/cancel.ts'
import { info } from '../../operations/info.ts'
import { push } from '../../operations/push.ts'
import { answer } from '../answer.ts'
import { readJson } from '../body.ts'
import { pathParameter, type Route } from '../route.ts'
import type { Door } from './door.ts'

const JOBS = '/ojs/v1/jobs'

/** PUSH, INFO and CANCEL (seed 001 §9.1, §9.3, §9.4). */
export function jobRoutes({ deps, maxBodyBytes }: Door): Route[] {
  return [
    {
      method: 'POST',
      path: JOBS,
      async handle(request, response) {
        const body = await readJson(request, response, maxBodyBytes)
        const job = await push(deps, body, request.context)
        answer(response, 201, `{"job":${jobDocument(job)}}`, 'Location', `${JOBS}/${job.id}`)
      },
    },
    {
      method: 'GET',
      path: `${JOBS}/:id`,
      handle(request, response) {
        const job = info(deps, pathParameter(request, 'id'))
        answer(response, 200, `{"job":${jobDocument(job)},"state":"${job.state}"}`)
      },
    },
    {
      method: 'DELETE',
      path: `${JOBS}/:id`,
      async handle(request, response) {
        const cancelled = await cancel(deps, pathParameter(request, 'id'), request.context)
        const job = jobDocument(cancelled.job).slice(0, -1)
        answer(response, 200, `{"job":${job},"previous_state":"${cancelled.previousState}"}}`)
      },
    },
  ]
}
