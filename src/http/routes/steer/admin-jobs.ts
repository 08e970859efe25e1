/** What operators do to one job: cancel, retry, delete, prioritize, and enqueue a copy of it. */
import { jobDocument, timestamp } from '../../../job/document.ts'
import { copyJob, overrideIn } from '../../../operations/steer/copy.ts'
import { prioritize } from '../../../operations/steer/prioritize.ts'
import { cancelOne, deleteJob, retryJob, steering } from '../../../operations/steer/steer.ts'
import { readJson, readOptionalJson } from '../../message/body.ts'
import { answer, answerEmpty, replayHeader } from '../../message/respond.ts'
import {
  CANCEL_ADMIN_JOB,
  COPY_JOB,
  DELETE_ADMIN_JOB,
  prioritizeUnder,
  RETRY_ADMIN_JOB,
} from '../../openapi/steer.ts'
import { type Endpoint, pathParameter } from '../../route.ts'
import type { Door } from '../route-deps.ts'

const JOB = '/ojs/v1/admin/jobs/:id'

/** Cancels, retries, deletes and copies single jobs (OJS admin API; not part of the seeds). */
export function adminJobRoutes({ deps }: Door): Endpoint[] {
  const common = { access: ['operator'], scoping: 'job' } as const
  return [
    {
      ...common,
      method: 'POST',
      path: `${JOB}/cancel`,
      about: CANCEL_ADMIN_JOB,
      async handle(request, response) {
        await readOptionalJson(request, response, deps.settings.maxBodyBytes)
        const id = pathParameter(request, 'id')
        const { job, previousState } = await cancelOne(deps, id, request.context)
        const document = jobDocument(job).slice(0, -1)
        answer(response, 200, `{"job":${document},"previous_state":"${previousState}"}}`)
      },
    },
    {
      ...common,
      method: 'POST',
      path: `${JOB}/retry`,
      about: RETRY_ADMIN_JOB,
      async handle(request, response) {
        await readOptionalJson(request, response, deps.settings.maxBodyBytes)
        const { context } = request
        const id = pathParameter(request, 'id')
        const { job, before } = await retryJob(deps, id, steering('retry', context), context)
        const more = `"previous_state":"${before.state}","re_enqueued_at":"${timestamp(job.enqueuedAt)}"`
        answer(response, 200, `{"job":${jobDocument(job).slice(0, -1)},${more}}}`)
      },
    },
    {
      ...common,
      method: 'POST',
      path: `${JOB}/copy`,
      about: COPY_JOB,
      async handle(request, response) {
        const body = await readOptionalJson(request, response, deps.settings.maxBodyBytes)
        const id = pathParameter(request, 'id')
        const { job, isDuplicate, isReplay } = await copyJob(
          deps,
          id,
          overrideIn(body),
          request.context,
        )
        const headers = ['Location', `/ojs/v1/jobs/${job.id}`, ...replayHeader(isReplay)]
        answer(response, isDuplicate ? 200 : 201, `{"job":${jobDocument(job)}}`, ...headers)
      },
    },
    ...[JOB, '/ojs/v1/jobs/:id'].map(
      (path): Endpoint => ({
        ...common,
        method: 'PATCH',
        path,
        about: prioritizeUnder(path),
        async handle(request, response) {
          const body = await readJson(request, response, deps.settings.maxBodyBytes)
          const job = await prioritize(deps, pathParameter(request, 'id'), body, request.context)
          answer(response, 200, `{"job":${jobDocument(job)}}`)
        },
      }),
    ),
    {
      ...common,
      method: 'DELETE',
      path: JOB,
      about: DELETE_ADMIN_JOB,
      async handle(request, response) {
        const { context } = request
        const id = pathParameter(request, 'id')
        await deleteJob(deps, id, steering('delete', context), context)
        answerEmpty(response)
      },
    },
  ]
}
