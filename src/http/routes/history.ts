/** `/jobs/:id/history` and `/jobs/:id/retries`: what happened to one job. */
import type { Request } from 'express'
import { echoed, invalidField } from '../../errors.ts'
import { historyRecords, retryRecords } from '../../job/history/records.ts'
import { clearHistory, jobHistory } from '../../operations/history.ts'
import { integer, parameter } from '../message/query.ts'
import { answer } from '../message/respond.ts'
import { CLEAR_HISTORY, JOB_HISTORY, JOB_RETRIES } from '../openapi/events.ts'
import { type Endpoint, pathParameter } from '../route.ts'
import type { Door } from './route-deps.ts'

const JOB = '/ojs/v1/jobs/:id'
const DEFAULT_LIMIT = 50
const MAX_LIMIT = 1_000

/** The history of a job (OJS execution history). Not part of the seeds. */
export function historyRoutes({ deps }: Door): Endpoint[] {
  return [
    {
      method: 'GET',
      path: `${JOB}/history`,
      about: JOB_HISTORY,
      access: ['producer', 'worker', 'operator'],
      scoping: 'job',
      async handle(request, response) {
        const limit = Math.min(integer(request, 'limit', DEFAULT_LIMIT), MAX_LIMIT)
        const { job, changes, isFolded } = await jobHistory(deps, pathParameter(request, 'id'))
        const records = historyRecords(job, changes)
        const offset = offsetOf(
          request,
          records.map(({ id }) => id),
        )
        const events = records.slice(offset, offset + limit)
        const total = records.length
        const hasMore = offset + limit < total
        const body = {
          events,
          next_cursor: hasMore ? cursorOf(events.at(-1)?.id ?? '') : null,
          total,
          pagination: { total, limit, offset, has_more: hasMore },
          ...(isFolded && { truncated: true }),
        }
        answer(response, 200, JSON.stringify(body))
      },
    },
    {
      method: 'DELETE',
      path: `${JOB}/history`,
      about: CLEAR_HISTORY,
      async handle(request, response) {
        const id = pathParameter(request, 'id')
        const { job, changes } = await clearHistory(deps, id, request.context)
        const count = historyRecords(job, changes).length
        const body = { deleted: true, events_deleted: count, job_id: id }
        answer(response, 200, JSON.stringify(body))
      },
    },
    {
      method: 'GET',
      path: `${JOB}/retries`,
      about: JOB_RETRIES,
      access: ['producer', 'worker', 'operator'],
      scoping: 'job',
      async handle(request, response) {
        const { job, changes } = await jobHistory(deps, pathParameter(request, 'id'))
        const policy = { max_attempts: job.maxAttempts }
        const retries = retryRecords(job, changes)
        answer(response, 200, JSON.stringify({ job_id: job.id, retries, policy }))
      },
    },
  ]
}

function cursorOf(id: string): string {
  return Buffer.from(id).toString('base64url')
}

/** Where the page begins. A record that was dropped since was older than all that are left. */
function offsetOf(request: Request, ids: readonly string[]): number {
  const cursor = parameter(request, 'cursor')
  if (cursor === null) return integer(request, 'offset', 0)
  if (request.query['offset'] !== undefined) {
    throw invalidField('offset', "Give either 'cursor' or 'offset'.")
  }
  const id = Buffer.from(cursor, 'base64url').toString()
  if (!id.startsWith(`evt_${pathParameter(request, 'id')}.`)) {
    throw invalidField('cursor', "The 'cursor' is not one of this list.", {
      received: echoed(cursor),
    })
  }
  return ids.indexOf(id) + 1
}
