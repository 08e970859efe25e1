import { infoDocument, jobDocument } from '../../job/document.ts'
import { activate } from '../../operations/activate.ts'
import { cancel } from '../../operations/cancel.ts'
import { info } from '../../operations/info.ts'
import { push } from '../../operations/push.ts'
import { pushBatch } from '../../operations/push-batch.ts'
import { traced } from '../../telemetry/tracing.ts'
import { answer } from '../answer.ts'
import { readJson, readOptionalJson } from '../body.ts'
import { pathParameter, type Route } from '../route.ts'
import type { Door } from './door.ts'

const JOBS = '/ojs/v1/jobs'

/** PUSH, PUSH batch, INFO, CANCEL and ACTIVATE (seed 001 §9). */
export function jobRoutes({ deps, maxBodyBytes, maxBatchBytes }: Door): Route[] {
  return [
    {
      method: 'POST',
      path: JOBS,
      access: ['producer'],
      async handle(request, response) {
        const body = await readJson(request, response, maxBodyBytes)
        const job = await push(deps, body, request.context)
        answer(response, 201, `{"job":${jobDocument(job)}}`, 'Location', `${JOBS}/${job.id}`)
      },
    },
    {
      method: 'POST',
      path: `${JOBS}/batch`,
      access: ['producer'],
      async handle(request, response) {
        const body = await readJson(request, response, maxBatchBytes)
        const jobs = await pushBatch(deps, body, request.context)
        answer(
          response,
          201,
          `{"jobs":[${jobs.map(jobDocument).join(',')}],"count":${jobs.length}}`,
        )
      },
    },
    {
      method: 'POST',
      path: `${JOBS}/:id/activate`,
      access: ['producer'],
      async handle(request, response) {
        await readOptionalJson(request, response, maxBodyBytes)
        const job = await activate(deps, pathParameter(request, 'id'), request.context)
        const document = jobDocument(job).slice(0, -1)
        answer(response, 200, `{"job":${document},"previous_state":"pending"}}`)
      },
    },
    {
      method: 'GET',
      path: `${JOBS}/:id`,
      access: ['producer', 'worker', 'operator'],
      async handle(request, response) {
        const id = pathParameter(request, 'id')
        const { job } = await traced('ojs.get_job', request.context, () => ({
          job: info(deps, id),
        }))
        answer(response, 200, infoDocument(job))
      },
    },
    {
      method: 'DELETE',
      path: `${JOBS}/:id`,
      access: ['operator'],
      async handle(request, response) {
        const { context } = request
        const id = pathParameter(request, 'id')
        const cancelled = await traced('ojs.cancel', context, () => cancel(deps, id, context))
        const job = jobDocument(cancelled.job).slice(0, -1)
        answer(response, 200, `{"job":${job},"previous_state":"${cancelled.previousState}"}}`)
      },
    },
  ]
}
