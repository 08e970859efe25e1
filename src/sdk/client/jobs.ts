/** Finding jobs, and acting on one of them (OJS admin API; not part of the seeds). */
import type { Job } from '../job.ts'
import {
  type CallOptions,
  hasIdempotencyKey,
  listIn,
  objectIn,
  query,
  type SendRequest,
  segment,
} from '../transport/request.ts'
import { filterParameters, type JobFilter } from './job-filter.ts'
import type { Pagination } from './responses.ts'

/** A filter with an order. */
export interface JobQuery extends JobFilter {
  /** Default: `created_at`. */
  sort?: 'created_at' | 'scheduled_at' | 'priority' | 'updated_at' | undefined
  /** Default: `desc`. */
  order?: 'asc' | 'desc' | undefined
  /** Jobs in a page, at most 100. */
  limit?: number | undefined
}

/** The place of a page: where the page before ended, or how many jobs are before it. */
export interface JobPlace {
  cursor?: string | undefined
  offset?: number | undefined
}

/** One page of a list of jobs. */
export interface FoundJobs {
  jobs: Job[]
  pagination: Pagination & {
    next_cursor?: string
    /** There are more than `total`. */
    total_is_lower_bound?: true
    /** Not all jobs that may match were looked at: if there is a cursor, the next page goes on. */
    search_is_partial?: true
    searched?: number
    [member: string]: unknown
  }
}

/** A change of a job's state, or another event of its life. */
export interface HistoryRecord {
  id: string
  job_id: string
  event_type: string
  timestamp: string
  actor?: { type: string; id: string }
  data?: Record<string, unknown>
  metadata?: Record<string, unknown>
  [member: string]: unknown
}

/** What the copy of a job has instead; names as on the wire. `meta` is merged. */
export type JobOverride = Readonly<Record<string, unknown>>

/** Jobs: find them by filter, act on one of them. */
export interface Jobs {
  /** All jobs that the filter means, page after page, as they are read. */
  list(query?: JobQuery, call?: CallOptions): AsyncGenerator<Job, void, undefined>
  page(query?: JobQuery & JobPlace, call?: CallOptions): Promise<FoundJobs>
  get(id: string, call?: CallOptions): Promise<Job>
  /** Every change of the job's state, the oldest first. */
  history(id: string, call?: CallOptions): AsyncGenerator<HistoryRecord, void, undefined>
  cancel(id: string, call?: CallOptions): Promise<Job>
  /** Runs an ended job again, or a retry now. */
  retry(id: string, call?: CallOptions): Promise<Job>
  /** Deletes an ended job for good. */
  delete(id: string, call?: CallOptions): Promise<void>
  /** Enqueues a copy of the job. */
  copy(id: string, override?: JobOverride, call?: CallOptions): Promise<Job>
}

export function jobsOf(sendRequest: SendRequest): Jobs {
  const path = (id: string) => `/jobs/${segment(id, 'The id of a job')}`
  const act = async (id: string, verb: string, body: object, call: CallOptions): Promise<Job> => {
    const sent = { method: 'POST', path: `/admin${path(id)}/${verb}`, body, ...call }
    return objectIn(await sendRequest(sent), 'job')
  }
  const pageOf = (asked: JobQuery & JobPlace, call: CallOptions) => found(sendRequest, asked, call)
  return {
    list: (asked = {}, call = {}) => allJobs((place) => pageOf({ ...asked, ...place }, call)),
    page: async (asked = {}, call = {}) => pageOf(asked, call),
    async get(id, call = {}) {
      return objectIn(await sendRequest({ method: 'GET', path: path(id), ...call }), 'job')
    },
    history: (id, call = {}) => allRecords(sendRequest, `${path(id)}/history`, call),
    cancel: (id, call = {}) => act(id, 'cancel', {}, call),
    retry: (id, call = {}) => act(id, 'retry', {}, call),
    async delete(id, call = {}) {
      await sendRequest({ method: 'DELETE', path: `/admin${path(id)}`, ...call })
    },
    async copy(id, override = {}, call = {}) {
      const repeatable = hasIdempotencyKey(call) ? { idempotent: true } : {}
      return await act(id, 'copy', { override }, { ...repeatable, ...call })
    },
  }
}

async function found(
  sendRequest: SendRequest,
  asked: JobQuery & JobPlace,
  call: CallOptions,
): Promise<FoundJobs> {
  const { sort, order, limit, cursor, offset, ...filter } = asked
  const page = { sort, order, limit, cursor, offset }
  const path = `/jobs${query({ ...filterParameters(filter), ...page })}`
  const answer = await sendRequest({ method: 'GET', path, ...call })
  listIn(answer, 'jobs')
  objectIn(answer, 'pagination')
  return { ...answer.body } as unknown as FoundJobs
}

/** By cursor; a server that has none is asked by offset. */
async function* allJobs(
  page: (place: JobPlace) => Promise<FoundJobs>,
): AsyncGenerator<Job, void, undefined> {
  let place: JobPlace = {}
  let read = 0
  for (;;) {
    const { jobs, pagination } = await page(place)
    yield* jobs
    read += jobs.length
    const { has_more: isMore, next_cursor: cursor } = pagination
    // A page that compares many jobs may end before it has found one.
    if (!isMore || (jobs.length === 0 && cursor === undefined)) return
    place = cursor === undefined ? { offset: read } : { cursor }
  }
}

async function* allRecords(
  sendRequest: SendRequest,
  path: string,
  call: CallOptions,
): AsyncGenerator<HistoryRecord, void, undefined> {
  let cursor: unknown
  do {
    const page = query({ limit: 1_000, cursor: cursor ?? undefined })
    const answer = await sendRequest({ method: 'GET', path: path + page, ...call })
    yield* listIn<HistoryRecord>(answer, 'events')
    cursor = answer.body['next_cursor']
  } while (typeof cursor === 'string')
}
