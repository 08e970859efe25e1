/** The result of a job, at once or when the job ends. */
import { notFound, OjsError } from '../errors.ts'
import { isTerminal, type JobRow } from '../job/job.ts'
import { parseResults } from '../schemas/requests/results.ts'
import type { Deps, RequestContext } from './deps.ts'
import { visibleJob } from './info.ts'
import { isQueueInScope } from './scope.ts'

export const MAX_RESULT_WAIT_MS = 60_000

/**
 * RESULT (OJS results): the job once it has ended, or as it is when `waitMs` is over or `signal` aborts. Throws 404.
 */
export async function result(
  deps: Pick<Deps, 'ledger' | 'ends'>,
  id: string,
  { waitMs, signal }: { waitMs: number; signal: AbortSignal },
): Promise<JobRow> {
  if (waitMs === 0) return await jobOf(deps, id)
  // Before the row is read: its end may come in between.
  const stop = new AbortController()
  const ended = deps.ends.wait(id, waitMs, AbortSignal.any([signal, stop.signal]))
  try {
    const job = await jobOf(deps, id)
    if (isTerminal(job.state)) return job
    await ended
    return await jobOf(deps, id)
  } finally {
    stop.abort()
  }
}

async function jobOf(deps: Pick<Deps, 'ledger'>, id: string): Promise<JobRow> {
  const job = await visibleJob(deps, id)
  if (job === null) throw notFound('job', id)
  return job
}

/** The most text that an answer holds, in UTF-16 units: it is in memory as a whole. */
const MAX_RESULTS_LENGTH = 32 * 1024 ** 2

/** What a job has returned so far. */
export type Returned = Pick<JobRow, 'state' | 'result'>

/**
 * RESULTS (OJS results): of each id what its job returned, in the order of the request; null where there is none,
 * or its result is not kept. Throws 400, and 413 when the results are too large for one answer.
 */
export async function results(
  deps: Pick<Deps, 'ledger' | 'clock'>,
  body: unknown,
  context: Pick<RequestContext, 'queues'>,
): Promise<Map<string, Returned | null>> {
  const found = new Map<string, Returned | null>()
  let length = 0
  // One after the other: each may be a megabyte.
  for (const id of new Set(parseResults(body).ids)) {
    const job = await visibleJob(deps, id)
    const isKept =
      job !== null && isQueueInScope(context, job.queue) && !isPruned(job, deps.clock.now())
    length += isKept ? (job.result?.length ?? 0) : 0
    if (length > MAX_RESULTS_LENGTH) throw tooLarge()
    // Not the whole row: its body may be a megabyte, too.
    found.set(id, isKept ? { state: job.state, result: job.result } : null)
  }
  return found
}

function tooLarge(): OjsError {
  return new OjsError(
    'invalid_request',
    'The results are too large for one answer: ask for fewer.',
    {
      status: 413,
      details: { field: 'ids', reason: 'answer_too_large', maximum: MAX_RESULTS_LENGTH },
    },
  )
}

/** 408: the wait is over, and the job has not ended. */
export function waitOver({ id, state }: JobRow): OjsError {
  return new OjsError('backend_error', `Job '${id}' has not ended yet.`, {
    status: 408,
    details: { reason: 'wait_timeout', job_id: id, state },
  })
}

/** When the result of a completed job goes; null: with the job. */
export function resultExpiresAt({ state, completedAt, carry }: JobRow): number | null {
  const ttlMs = carry?.resultTtlMs
  return state !== 'completed' || completedAt === null || ttlMs === undefined
    ? null
    : completedAt + ttlMs
}

/** True if the job was completed and its result is gone, or soon will be: its time is over. */
export function isPruned(job: JobRow, now: number): boolean {
  const expiresAt = resultExpiresAt(job)
  return expiresAt !== null && expiresAt <= now
}

/** 410. */
export function resultPruned(id: string): OjsError {
  return new OjsError('not_found', `The result of job '${id}' is not kept any more.`, {
    status: 410,
    details: { reason: 'result_pruned', resource_type: 'result', resource_id: id },
  })
}
