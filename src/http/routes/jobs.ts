/** `/jobs`: PUSH, PUSH batch, INFO, CANCEL and ACTIVATE. */
import type { Response } from 'express'
import { infoDocument, jobDocument } from '../../job/document.ts'
import { cancel } from '../../operations/cancel.ts'
import { activate } from '../../operations/enqueue/activate.ts'
import { type Pushed, push } from '../../operations/enqueue/push.ts'
import { type PushedBatch, pushBatch } from '../../operations/enqueue/push-batch.ts'
import { info } from '../../operations/info.ts'
import { traced } from '../../telemetry/tracing.ts'
import { mayReadPayloads } from '../access/roles.ts'
import { readJson, readJsonList, readOptionalJson } from '../message/body.ts'
import { answer, replayHeader } from '../message/respond.ts'
import { ACTIVATE, CANCEL, INFO, PUSH, PUSH_BATCH } from '../openapi/jobs.ts'
import { type Endpoint, pathParameter } from '../route.ts'
import type { Door } from './route-deps.ts'

const JOBS = '/ojs/v1/jobs'

/** PUSH, PUSH batch, INFO, CANCEL and ACTIVATE (seed 001 §9). */
export function jobRoutes({ deps }: Door): Endpoint[] {
  return [
    {
      method: 'POST',
      path: JOBS,
      about: PUSH,
      access: ['producer'],
      scoping: 'own',
      async handle(request, response) {
        const body = await readJson(request, response, deps.settings.maxBodyBytes)
        answerPush(response, await push(deps, body, request.context))
      },
    },
    {
      method: 'POST',
      path: `${JOBS}/batch`,
      about: PUSH_BATCH,
      access: ['producer'],
      scoping: 'own',
      async handle(request, response) {
        const body = await readJsonList(request, response, deps.settings, 'jobs')
        answerBatch(response, await pushBatch(deps, body, request.context))
      },
    },
    {
      method: 'POST',
      path: `${JOBS}/:id/activate`,
      about: ACTIVATE,
      access: ['producer'],
      scoping: 'job',
      async handle(request, response) {
        await readOptionalJson(request, response, deps.settings.maxBodyBytes)
        const job = await activate(deps, pathParameter(request, 'id'), request.context)
        const document = jobDocument(job).slice(0, -1)
        answer(response, 200, `{"job":${document},"previous_state":"pending"}}`)
      },
    },
    {
      method: 'GET',
      path: `${JOBS}/:id`,
      about: INFO,
      access: ['producer', 'worker', 'reader', 'operator'],
      scoping: 'job',
      async handle(request, response) {
        const id = pathParameter(request, 'id')
        const found = await traced('ojs.get_job', request.context, () => info(deps, id))
        const mayRead = mayReadPayloads(request.admission)
        answer(response, 200, infoDocument(found.job, found.progress, mayRead))
      },
    },
    {
      method: 'DELETE',
      path: `${JOBS}/:id`,
      about: CANCEL,
      access: ['operator'],
      scoping: 'job',
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

/** Seed 001 §9.1; 200 instead of 201 when nothing had to be stored (OJS unique jobs). */
function answerPush(response: Response, { job, isDuplicate, isReplay }: Pushed): void {
  const document = jobDocument(job)
  if (isDuplicate) {
    answer(response, 200, `{"job":${document},"deduplicated":true}`, ...replayHeader(isReplay))
    return
  }
  const headers = ['Location', `${JOBS}/${job.id}`, ...replayHeader(isReplay)]
  answer(response, 201, `{"job":${document}}`, ...headers)
}

/** Seed 001 §9.2. `deduplicated` holds the indexes of the jobs that existed before. */
function answerBatch(response: Response, { jobs, existing, isReplay }: PushedBatch): void {
  const status = existing.length === jobs.length ? 200 : 201
  const list = `"jobs":[${jobs.map(jobDocument).join(',')}],"count":${jobs.length}`
  const places = existing.length > 0 ? `,"deduplicated":${JSON.stringify(existing)}` : ''
  answer(response, status, `{${list}${places}}`, ...replayHeader(isReplay))
}
