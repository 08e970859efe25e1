/** `/jobs/:id/result`: what a job has returned, at once or when it ends; `/jobs/results`: of several. */
import type { Request, Response } from 'express'
import { invalidField, unavailable } from '../../errors.ts'
import { timestamp } from '../../job/document.ts'
import { isTerminal, type JobRow } from '../../job/job.ts'
import {
  isPruned,
  MAX_RESULT_WAIT_MS,
  type Returned,
  result,
  resultExpiresAt,
  resultPruned,
  results,
  waitOver,
} from '../../operations/results.ts'
import { readJson } from '../message/body.ts'
import { integer, parameter } from '../message/query.ts'
import { answer } from '../message/respond.ts'
import { RESULT, RESULTS } from '../openapi/jobs.ts'
import { type Endpoint, pathParameter } from '../route.ts'
import type { Door } from './route-deps.ts'

/** In seconds (OJS results). */
const DEFAULT_TIMEOUT = 30
/** A client that asks for 30 s may itself give up after 30 s: it gets its answer a little earlier. */
const EARLIER_MS = 500

/** RESULT and RESULTS (OJS results); not part of the seeds. */
export function resultRoutes(door: Door): Endpoint[] {
  return [
    {
      method: 'GET',
      path: '/ojs/v1/jobs/:id/result',
      about: RESULT,
      access: ['producer', 'worker', 'operator'],
      scoping: 'job',
      handle: (request, response) => answerResult(door, request, response),
    },
    {
      method: 'POST',
      path: '/ojs/v1/jobs/results',
      about: RESULTS,
      access: ['producer', 'worker', 'operator'],
      scoping: 'own',
      onlyReads: true,
      async handle(request, response) {
        const body = await readJson(request, response, door.deps.settings.maxBodyBytes)
        const found = await results(door.deps, body, request.context)
        const parts = [...found].map(([id, job]) => `${JSON.stringify(id)}:${resultOf(job)}`)
        answer(response, 200, `{"results":{${parts.join(',')}}}`)
      },
    },
  ]
}

async function answerResult(door: Door, request: Request, response: Response): Promise<void> {
  const waitMs = isWaiting(request) ? waitOf(request) : 0
  const poll = door.polls.open(response)
  try {
    const job = await result(door.deps, pathParameter(request, 'id'), {
      waitMs,
      signal: poll.signal,
    })
    if (isPruned(job, door.deps.clock.now())) throw resultPruned(job.id)
    if (isTerminal(job.state)) answer(response, 200, endDocument(job))
    else if (waitMs === 0) {
      const body = JSON.stringify({ job_id: job.id, state: job.state })
      answer(response, 202, body, 'Retry-After', '1')
    } else if (door.isDraining()) throw unavailable('The gateway stops.', 'stopping')
    else throw waitOver(job)
  } finally {
    poll.close()
  }
}

function resultOf(job: Returned | null): string {
  return job === null ? 'null' : `{"state":"${job.state}","result":${job.result ?? 'null'}}`
}

function isWaiting(request: Request): boolean {
  const text = parameter(request, 'wait')
  if (text === null || text === 'false') return false
  if (text === 'true') return true
  throw invalidField('wait', "The 'wait' parameter must be true or false.", {
    expected: ['true', 'false'],
  })
}

function waitOf(request: Request): number {
  const ms = 1_000 * integer(request, 'timeout', DEFAULT_TIMEOUT)
  return Math.max(0, Math.min(ms, MAX_RESULT_WAIT_MS) - EARLIER_MS)
}

function endDocument(job: JobRow): string {
  const expiresAt = resultExpiresAt(job)
  const endedAt = job.completedAt ?? job.cancelledAt ?? job.discardedAt
  const head = JSON.stringify({
    job_id: job.id,
    state: job.state,
    ...(endedAt !== null && { completed_at: timestamp(endedAt) }),
    ...(expiresAt !== null && { result_expires_at: timestamp(expiresAt) }),
  })
  let text = head.slice(0, -1)
  if (job.result !== null) text += `,"result":${job.result}`
  if (job.error !== null) text += `,"error":${job.error}`
  return `${text}}`
}
