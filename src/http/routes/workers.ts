/** `/workers`: FETCH, ACK and NACK of HTTP workers, and many of the last two at once. */
import type { Request, Response } from 'express'
import { errorBody } from '../../errors.ts'
import { jobDocument, timestamp } from '../../job/document.ts'
import type { JobRow } from '../../job/job.ts'
import type { Deps } from '../../operations/deps.ts'
import { fetch, giveBack } from '../../operations/fetch/fetch.ts'
import { ack } from '../../operations/lease/ack.ts'
import { nack } from '../../operations/lease/nack.ts'
import { type Settled, settle } from '../../operations/lease/settle.ts'
import { traced } from '../../telemetry/tracing.ts'
import { readJson, readJsonList, readOptionalJson } from '../message/body.ts'
import { visibleError } from '../message/render-error.ts'
import { answer } from '../message/respond.ts'
import { ACK, ACK_OF_PATH, FETCH, NACK, NACK_OF_PATH, SETTLE } from '../openapi/workers.ts'
import { type Endpoint, ofPath } from '../route.ts'
import type { Door } from './route-deps.ts'

/** FETCH, ACK and FAIL (seed 001 §10.1 to §10.3); ACK and FAIL by the job's path too (OJS results). */
export function workerRoutes(door: Door): Endpoint[] {
  return [
    {
      method: 'POST',
      path: '/ojs/v1/workers/fetch',
      about: FETCH,
      access: ['worker'],
      scoping: 'own',
      handle: (request, response) => fetchJobs(door, request, response),
    },
    {
      method: 'POST',
      path: '/ojs/v1/workers/ack',
      about: ACK,
      access: ['worker'],
      scoping: 'own',
      async handle(request, response) {
        const body = await readJson(request, response, door.deps.settings.maxBodyBytes)
        answer(response, 200, ackDocument(await acked(door, body, request)))
      },
    },
    {
      method: 'POST',
      path: '/ojs/v1/jobs/:id/ack',
      about: ACK_OF_PATH,
      access: ['worker'],
      scoping: 'own',
      async handle(request, response) {
        const body = await readOptionalJson(request, response, door.deps.settings.maxBodyBytes)
        answer(response, 200, ackDocument(await acked(door, ofPath(request, body), request)))
      },
    },
    {
      method: 'POST',
      path: '/ojs/v1/workers/nack',
      about: NACK,
      access: ['worker'],
      scoping: 'own',
      async handle(request, response) {
        const body = await readJson(request, response, door.deps.settings.maxBodyBytes)
        answer(response, 200, nackDocument(await nacked(door, body, request)))
      },
    },
    {
      method: 'POST',
      path: '/ojs/v1/workers/settle',
      about: SETTLE,
      access: ['worker'],
      scoping: 'own',
      handle: (request, response) => settleJobs(door, request, response),
    },
    {
      method: 'POST',
      path: '/ojs/v1/jobs/:id/nack',
      about: NACK_OF_PATH,
      access: ['worker'],
      scoping: 'own',
      async handle(request, response) {
        const body = await readJson(request, response, door.deps.settings.maxBodyBytes)
        const job = await nacked(door, ofPath(request, body), request)
        answer(response, 200, `${nackDocument(job).slice(0, -1)},"job":${jobDocument(job)}}`)
      },
    },
  ]
}

const acked = ({ deps }: Door, body: object, { context }: Request) =>
  traced('ojs.ack', context, () => ack(deps, body, context))

const nacked = ({ deps }: Door, body: object, { context }: Request) =>
  traced('ojs.nack', context, () => nack(deps, body, context))

/** Answers each item as its own request would be answered, but without the whole job. */
async function settleJobs({ deps }: Door, request: Request, response: Response): Promise<void> {
  const body = await readJsonList(request, response, deps.settings, 'items')
  const settled = await settle(deps, body, request.context)
  const items = settled.map((item) => settledDocument(deps, item, request))
  answer(response, 200, `{"items":[${items.join(',')}]}`)
}

function settledDocument({ logger }: Deps, item: Settled, request: Request): string {
  if ('job' in item) {
    const { action, job } = item
    const own = action === 'ack' ? `${ackMembers(job)}}` : nackDocument(job)
    return `{"status":200,${own.slice(1)}`
  }
  const error = visibleError(item.error, request, logger)
  const { status, retryAfterSeconds } = error
  const named = typeof item.id === 'string' ? `"job_id":${JSON.stringify(item.id)},` : ''
  const after = retryAfterSeconds === undefined ? '' : `"retry_after_seconds":${retryAfterSeconds},`
  return `{"status":${status},${named}${after}${errorBody(error, request.requestId).slice(1)}`
}

/**
 * Answers a FETCH. If the client did not get the answer, gives its jobs back, since no worker would run them
 * (docs/architecture.md §4.4).
 */
async function fetchJobs(door: Door, request: Request, response: Response): Promise<void> {
  const poll = door.polls.open(response)
  try {
    const { deps } = door
    const { context } = request
    context.memory = request.memory
    // Not in a variable: the body would stay in memory for as long as the FETCH waits for a job.
    const jobs = await readJson(request, response, deps.settings.maxBodyBytes).then((body) => {
      const { worker_id: workerId } = body
      if (typeof workerId === 'string') poll.workerId = workerId
      return fetch(deps, body, context, poll.signal)
    })
    const told = poll.isHalfClosed ? [] : jobs
    const isWritten = await poll.answer(fetchDocument(deps, told, poll.workerId))
    if (jobs.length > 0 && !(isWritten && told === jobs)) await returnJobs(deps, jobs, request)
  } finally {
    poll.close()
  }
}

/** `directive` (an addition): why there are no jobs for a worker that was told to take none. */
function fetchDocument(
  { workers }: Deps,
  jobs: readonly JobRow[],
  workerId: string | undefined,
): string {
  if (jobs.length > 0) return `{"jobs":[${jobs.map(jobDocument).join(',')}]}`
  const directive = workerId === undefined ? 'running' : workers.directiveOf(workerId)
  return directive === 'running' ? '{"jobs":[]}' : `{"jobs":[],"directive":"${directive}"}`
}

/** If giving back fails too, the jobs stay leased, to a worker that never got them, until the lease ends. */
async function returnJobs(deps: Deps, jobs: readonly JobRow[], request: Request): Promise<void> {
  const { requestId } = request
  const jobIds = jobs.map((job) => job.id)
  try {
    await giveBack(deps, jobs)
    deps.logger.info(
      { requestId, jobIds },
      'client disconnected before its FETCH was answered: jobs given back',
    )
  } catch (err) {
    deps.logger.warn(
      { err, requestId, jobIds },
      'client disconnected before its FETCH was answered: jobs could not be given back',
    )
  }
}

/** `id` and `job` are additions that the public suite reads (ojs-choices S3). */
function ackDocument(job: JobRow): string {
  return `${ackMembers(job)},"job":${jobDocument(job)}}`
}

/** An open object. */
function ackMembers(job: JobRow): string {
  const id = JSON.stringify(job.id)
  const completedAt = timestamp(job.completedAt ?? 0)
  return (
    `{"acknowledged":true,"id":${id},"job_id":${id},"state":"${job.state}",` +
    `"completed_at":"${completedAt}"`
  )
}

/** `id`, `retry_delay_ms` and `completed_at` are additions (ojs-choices S4, S5). */
function nackDocument(job: JobRow): string {
  return JSON.stringify({
    job_id: job.id,
    id: job.id,
    state: job.state,
    attempt: job.attempt,
    max_attempts: job.maxAttempts,
    ...(job.state === 'retryable' && {
      next_attempt_at: timestamp(job.dueAt ?? 0),
      retry_delay_ms: job.retryDelayMs,
    }),
    ...(job.discardedAt !== null && {
      discarded_at: timestamp(job.discardedAt),
      completed_at: timestamp(job.completedAt ?? job.discardedAt),
    }),
  })
}
