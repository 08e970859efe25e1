/** `/dead-letter`: jobs that failed for good are listed, retried and deleted. */
import { OjsError } from '../../errors.ts'
import { jobDocument, timestamp, withheldDocument } from '../../job/document.ts'
import {
  deleteDeadLetter,
  listDeadLetters,
  retryDeadLetter,
} from '../../operations/dead-letters/dead-letters.ts'
import { mayReadPayloads } from '../access/roles.ts'
import { readOptionalJson } from '../message/body.ts'
import { pageOf, pagination, shortened } from '../message/page.ts'
import { parameter } from '../message/query.ts'
import { answer } from '../message/respond.ts'
import {
  DELETE_DEAD_LETTER,
  LIST_DEAD_LETTERS,
  RETRY_DEAD_LETTER,
} from '../openapi/dead-letters.ts'
import { type Endpoint, pathParameter } from '../route.ts'
import type { Door } from './route-deps.ts'

const DEAD_LETTER = '/ojs/v1/dead-letter'

/** Lists, retries and deletes dead letters (seed 001 §12). */
export function deadLetterRoutes({ deps }: Door): Endpoint[] {
  return [
    {
      method: 'GET',
      path: DEAD_LETTER,
      about: LIST_DEAD_LETTERS,
      access: ['operator', 'reader'],
      scoping: { parameter: 'queue' },
      async handle(request, response) {
        const page = pageOf(request)
        const { jobs, total } = await listDeadLetters(deps, {
          queue: parameter(request, 'queue'),
          ...page,
        })
        const mayRead = mayReadPayloads(request.admission)
        const list = jobs.map(mayRead ? jobDocument : withheldDocument).join(',')
        const end = JSON.stringify(pagination(shortened(page, jobs.length, total), total))
        answer(response, 200, `{"jobs":[${list}],"pagination":${end}}`)
      },
    },
    {
      method: 'POST',
      path: `${DEAD_LETTER}/:id/retry`,
      about: RETRY_DEAD_LETTER,
      access: ['operator'],
      scoping: 'job',
      async handle(request, response) {
        refuseOverride(await readOptionalJson(request, response, deps.settings.maxBodyBytes))
        const job = await retryDeadLetter(deps, pathParameter(request, 'id'), request.context)
        const document = jobDocument(job).slice(0, -1)
        const at = timestamp(job.enqueuedAt)
        answer(response, 200, `{"job":${document},"re_enqueued_at":"${at}"}}`)
      },
    },
    {
      method: 'DELETE',
      path: `${DEAD_LETTER}/:id`,
      about: DELETE_DEAD_LETTER,
      access: ['operator'],
      scoping: 'job',
      async handle(request, response) {
        const id = pathParameter(request, 'id')
        await deleteDeadLetter(deps, id, request.context)
        answer(response, 200, JSON.stringify({ deleted: true, job_id: id }))
      },
    },
  ]
}

/**
 * Throws 422 for `override`. OJS's own texts describe a retry with another queue, other args and so on
 * (OJS dead letters), which is not offered here. To ignore `override` would run the job again with its old
 * values.
 */
function refuseOverride({ override }: Record<string, unknown>): void {
  if (override == null) return
  throw new OjsError(
    'unsupported',
    "The 'override' field is not supported: a dead letter is retried unchanged.",
    {
      details: { field: 'override' },
    },
  )
}
