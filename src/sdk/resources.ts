import type {
  CronJob,
  JobPage,
  PageOptions,
  Pagination,
  Queue,
  QueueStats,
  Schema,
  WorkerInfo,
  Workflow,
} from './answers.ts'
import { OJSNotFoundError } from './errors.ts'
import { type Answer, type Exchange, listIn, objectIn, query, segment } from './exchange.ts'
import type { Job } from './job.ts'
import { eitherSpelling, type JobOptions, type JobSpec, wireJob } from './job-options.ts'
import { type WorkflowDefinition, wireWorkflow } from './workflow.ts'

// What the client offers beside jobs: one function per resource, one member per endpoint. POSTs
// with nothing to say send `{}`: a body is a JSON object (seed 001 §6.1).

/** Seed 001 §11. */
export interface Queues {
  list(page?: PageOptions): Promise<{ queues: Queue[]; pagination: Pagination }>
  stats(name: string): Promise<QueueStats>
  /** Workers get nothing from it, and nothing can be enqueued, until it is resumed. */
  pause(name: string): Promise<{ queue: string; status: string; paused_at?: string }>
  resume(name: string): Promise<{ queue: string; status: string; resumed_at?: string }>
}

export function queuesOf(exchange: Exchange): Queues {
  const path = (name: string) => `/queues/${segment(name, 'The name of a queue')}`
  const direct = async (name: string, verb: 'pause' | 'resume') =>
    answered<{ queue: string; status: string }>(
      await exchange({ method: 'POST', path: `${path(name)}/${verb}`, body: {}, idempotent: true }),
    )
  return {
    async list(page = {}) {
      return listed<Queue, 'queues'>(exchange, 'queues', '/queues', page)
    },
    async stats(name) {
      const answer = await exchange({ method: 'GET', path: `${path(name)}/stats` })
      objectIn(answer, 'stats')
      return answered(answer)
    },
    pause: (name) => direct(name, 'pause'),
    resume: (name) => direct(name, 'resume'),
  }
}

/** Jobs that have failed for good (seed 001 §12). */
export interface DeadLetters {
  list(page?: PageOptions & { queue?: string | undefined }): Promise<JobPage>
  /** Available again, its attempts counted from 0. */
  retry(id: string): Promise<Job>
  /** For ever. */
  delete(id: string): Promise<{ deleted: boolean; job_id: string }>
}

export function deadLettersOf(exchange: Exchange): DeadLetters {
  const path = (id: string) => `/dead-letter/${segment(id, 'The id of a job')}`
  return {
    async list(page = {}) {
      return listed<Job, 'jobs'>(exchange, 'jobs', '/dead-letter', page)
    },
    async retry(id) {
      return objectIn(
        await exchange({ method: 'POST', path: `${path(id)}/retry`, body: {} }),
        'job',
      )
    },
    async delete(id) {
      return deleted(exchange, path(id), { deleted: true, job_id: id })
    },
  }
}

/** A schedule (seed 001 §13.2); `options` as for any job, camelCase or snake_case. */
export interface CronSpec extends Omit<JobSpec, 'id'> {
  name: string
  /** Five fields, six with the seconds first, or `@daily` and the like. */
  cron: string
  /** IANA; default UTC. */
  timezone?: string | undefined
  /** While a job of an earlier tick is not over; default `skip`. In either spelling. */
  overlapPolicy?: OverlapPolicy | undefined
  overlap_policy?: OverlapPolicy | undefined
  /** Default true. */
  enabled?: boolean | undefined
  description?: string | undefined
  options?: Omit<JobOptions, 'id'> | undefined
}

type OverlapPolicy = 'skip' | 'allow' | 'cancel_previous' | 'enqueue'

/** Seed 001 §13. */
export interface Cron {
  list(page?: PageOptions): Promise<{ cron_jobs: CronJob[]; pagination: Pagination }>
  /** Rejects with `OJSDuplicateError` where the name is taken. */
  register(spec: CronSpec): Promise<CronJob>
  get(name: string): Promise<CronJob>
  /** Jobs that it has made stay. */
  delete(name: string): Promise<{ deleted: boolean; name: string }>
}

export function cronOf(exchange: Exchange): Cron {
  const path = (name: string) => `/cron/${segment(name, 'The name of a cron job')}`
  return {
    async list(page = {}) {
      return listed<CronJob, 'cron_jobs'>(exchange, 'cron_jobs', '/cron', page)
    },
    async register(spec) {
      const { name, cron, timezone, enabled, description, ...others } = spec
      const { overlapPolicy, overlap_policy, ...job } = others
      const overlap = eitherSpelling('overlap_policy', overlapPolicy, overlap_policy)
      const body = {
        name,
        cron,
        ...(timezone !== undefined && { timezone }),
        ...(overlap !== undefined && { overlap_policy: overlap }),
        ...(enabled !== undefined && { enabled }),
        ...(description !== undefined && { description }),
        ...wireJob(job),
      }
      return objectIn(await exchange({ method: 'POST', path: '/cron', body }), 'cron_job')
    },
    async get(name) {
      return objectIn(await exchange({ method: 'GET', path: path(name) }), 'cron_job')
    },
    async delete(name) {
      return deleted(exchange, path(name), { deleted: true, name })
    },
  }
}

/** JSON Schemas (draft 2020-12) that `args` can be held to (seed 001 §15). */
export interface Schemas {
  list(page?: PageOptions): Promise<{ schemas: Schema[]; pagination: Pagination }>
  /** `schema` describes the whole `args` array. */
  register(spec: {
    uri: string
    type: string
    version: number
    schema: Record<string, unknown>
  }): Promise<Schema>
  get(uri: string): Promise<Schema>
  delete(uri: string): Promise<{ deleted: boolean; uri: string }>
}

export function schemasOf(exchange: Exchange): Schemas {
  const path = (uri: string) => `/schemas/${segment(uri, 'The URI of a schema')}`
  return {
    async list(page = {}) {
      return listed<Schema, 'schemas'>(exchange, 'schemas', '/schemas', page)
    },
    async register(spec) {
      return objectIn(await exchange({ method: 'POST', path: '/schemas', body: spec }), 'schema')
    },
    async get(uri) {
      return objectIn(await exchange({ method: 'GET', path: path(uri) }), 'schema')
    },
    async delete(uri) {
      return deleted(exchange, path(uri), { deleted: true, uri })
    },
  }
}

/** The workers that the server knows (ojs-digest §11; not part of the seeds). */
export interface Workers {
  list(page?: PageOptions): Promise<{ items: WorkerInfo[]; pagination: Pagination }>
  /** It takes no further jobs; `*`: all of them. */
  quiet(id: string): Promise<Record<string, unknown>>
  /** It ends when its jobs have; `*`: all of them. */
  terminate(id: string): Promise<Record<string, unknown>>
}

export function workersOf(exchange: Exchange): Workers {
  const direct = async (id: string, directive: 'quiet' | 'terminate') =>
    answered<Record<string, unknown>>(
      await exchange({
        method: 'POST',
        path: `/admin/workers/${segment(id, 'The id of a worker')}/${directive}`,
        body: {},
        idempotent: true,
      }),
    )
  return {
    async list(page = {}) {
      return listed<WorkerInfo, 'items'>(exchange, 'items', '/admin/workers', page)
    },
    quiet: (id) => direct(id, 'quiet'),
    terminate: (id) => direct(id, 'terminate'),
  }
}

/** Seed 001 §14. */
export interface Workflows {
  /** Not repeated when the answer gets lost: it would start twice. */
  create(definition: WorkflowDefinition): Promise<Workflow>
  get(id: string): Promise<Workflow>
  /** With all of its jobs that have not ended. */
  cancel(id: string): Promise<Workflow>
}

export function workflowsOf(exchange: Exchange): Workflows {
  const path = (id: string) => `/workflows/${segment(id, 'The id of a workflow')}`
  return {
    async create(definition) {
      const body = wireWorkflow(definition)
      return objectIn(await exchange({ method: 'POST', path: '/workflows', body }), 'workflow')
    },
    async get(id) {
      return objectIn(await exchange({ method: 'GET', path: path(id) }), 'workflow')
    },
    async cancel(id) {
      return objectIn(await exchange({ method: 'DELETE', path: path(id) }), 'workflow')
    },
  }
}

/** A page of a list, checked for its list. */
async function listed<Item extends object, Member extends string>(
  exchange: Exchange,
  member: Member,
  path: string,
  page: object,
): Promise<Record<Member, Item[]> & { pagination: Pagination }> {
  const answer = await exchange({ method: 'GET', path: `${path}${query(page)}` })
  listIn(answer, member)
  return answered(answer)
}

/** A second try finds nothing any more when the answer to the first got lost. */
async function deleted<T extends object>(exchange: Exchange, path: string, done: T): Promise<T> {
  try {
    return answered(await exchange({ method: 'DELETE', path, idempotent: true }), done)
  } catch (error) {
    if (error instanceof OJSNotFoundError && error.attempts > 1) return done
    throw error
  }
}

/** What the server answered is taken as the spec says; `defaults` are for an empty answer. */
function answered<T extends object>({ body }: Answer, defaults?: T): T {
  return { ...defaults, ...body } as T
}
