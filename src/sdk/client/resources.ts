/** What the client offers beside jobs: queues, dead letters, cron, schemas, workers, workflows. */
import { given, requireKnown, requireObject } from '../async/options.ts'
import type { Job } from '../job.ts'
import { newJobId } from '../job.ts'
import { OJSDuplicateError, OJSNotFoundError } from '../transport/errors.ts'
import {
  type Answer,
  type CallOptions,
  hasIdempotencyKey,
  listIn,
  objectIn,
  query,
  type SendRequest,
  segment,
} from '../transport/request.ts'
import { withActiveTrace } from '../worker/tracing.ts'
import { eitherSpelling, type JobOptions, type JobSpec, wireJob } from './job-options.ts'
import type {
  CronJob,
  JobPage,
  OverlapPolicy,
  PageOptions,
  Pagination,
  Queue,
  QueueStats,
  QueueStatus,
  Schema,
  WorkerInfo,
  Workflow,
  WorkflowState,
} from './responses.ts'
import { type WorkflowDefinition, wireWorkflow } from './workflow.ts'

// What the client offers beside jobs: one function per resource, one member per endpoint. A POST without
// parameters sends `{}`, because a body is a JSON object (seed 001 §6.1).

/** A page of a list. The list is in the member that the spec names. */
type Listed<Member extends string, Item> = Record<Member, Item[]> & { pagination: Pagination }

export interface PausedQueue {
  queue: string
  status: QueueStatus
  paused_at?: string
}

export interface ResumedQueue {
  queue: string
  status: QueueStatus
  resumed_at?: string
}

/** Queues: list, statistics, pause and resume (seed 001 §11). */
export interface Queues {
  list(page?: PageOptions, call?: CallOptions): Promise<Listed<'queues', Queue>>
  stats(name: string, call?: CallOptions): Promise<QueueStats>
  /** Stops the queue until it is resumed: workers get no jobs from it, and jobs cannot be enqueued. */
  pause(name: string, call?: CallOptions): Promise<PausedQueue>
  resume(name: string, call?: CallOptions): Promise<ResumedQueue>
}

export function queuesOf(sendRequest: SendRequest): Queues {
  const path = (name: string) => `/queues/${segment(name, 'The name of a queue')}`
  return {
    async list(page = {}, call = {}) {
      return listed(sendRequest, 'queues', '/queues', page, call)
    },
    async stats(name, call = {}) {
      const answer = await sendRequest({ method: 'GET', path: `${path(name)}/stats`, ...call })
      objectIn(answer, 'stats')
      return answered(answer)
    },
    async pause(name, call = {}) {
      return directed(sendRequest, `${path(name)}/pause`, call)
    },
    async resume(name, call = {}) {
      return directed(sendRequest, `${path(name)}/resume`, call)
    },
  }
}

/** Jobs that have failed for good (seed 001 §12). */
export interface DeadLetters {
  list(page?: PageOptions & { queue?: string | undefined }, call?: CallOptions): Promise<JobPage>
  /** Makes the job available again; its attempts are counted from 0. */
  retry(id: string, call?: CallOptions): Promise<Job>
  /** Deletes the job for good. */
  delete(id: string, call?: CallOptions): Promise<{ deleted: boolean; job_id: string }>
}

export function deadLettersOf(sendRequest: SendRequest): DeadLetters {
  const path = (id: string) => `/dead-letter/${segment(id, 'The id of a job')}`
  return {
    async list(page = {}, call = {}) {
      return listed(sendRequest, 'jobs', '/dead-letter', page, call)
    },
    async retry(id, call = {}) {
      return objectIn(
        await sendRequest({ method: 'POST', path: `${path(id)}/retry`, body: {}, ...call }),
        'job',
      )
    },
    async delete(id, call = {}) {
      return deleted(sendRequest, path(id), { deleted: true, job_id: id }, call)
    },
  }
}

/** A recurring job (seed 001 §13.2); `options` as for any job, in camelCase or snake_case. */
export interface CronSpec extends Omit<JobSpec, 'id'> {
  name: string
  /** Five fields, or six with the seconds first, or `@daily` and the like. */
  cron: string
  /** IANA name; default UTC. */
  timezone?: string | undefined
  /** What happens at a tick while an earlier tick's job has not ended; default `skip`. In either spelling. */
  overlapPolicy?: OverlapPolicy | undefined
  overlap_policy?: OverlapPolicy | undefined
  /** Default true. */
  enabled?: boolean | undefined
  description?: string | undefined
  /** True: takes the place of an entry of this name, which keeps its counts, jobs and times that wait. */
  replace?: boolean | undefined
  options?: Omit<JobOptions, 'id'> | undefined
}

/** Recurring jobs (seed 001 §13). */
export interface Cron {
  list(page?: PageOptions, call?: CallOptions): Promise<Listed<'cron_jobs', CronJob>>
  /** Rejects with `OJSDuplicateError` if the name is taken, unless `replace` is true. */
  register(spec: CronSpec, call?: CallOptions): Promise<CronJob>
  get(name: string, call?: CallOptions): Promise<CronJob>
  /** Deletes the schedule. Jobs that it has made are kept. */
  delete(name: string, call?: CallOptions): Promise<{ deleted: boolean; name: string }>
}

export function cronOf(sendRequest: SendRequest): Cron {
  const path = (name: string) => `/cron/${segment(name, 'The name of a cron job')}`
  return {
    async list(page = {}, call = {}) {
      return listed(sendRequest, 'cron_jobs', '/cron', page, call)
    },
    async register(spec, call = {}) {
      requireObject(spec, 'A cron job must be an object such as { name, cron, type }.')
      const { name, cron, timezone, enabled, description, replace, ...others } = spec
      const { overlapPolicy, overlap_policy, ...job } = others
      const overlap = eitherSpelling('overlap_policy', overlapPolicy, overlap_policy)
      const own = { name, cron, timezone, overlap_policy: overlap, enabled, description }
      const body = { ...given(own), ...wireJob(job) }
      const path = replace === true ? '/cron?replace=true' : '/cron'
      const sent = { method: 'POST', path, body, ...repeatable(call), ...call }
      return objectIn(await sendRequest(sent), 'cron_job')
    },
    async get(name, call = {}) {
      return objectIn(await sendRequest({ method: 'GET', path: path(name), ...call }), 'cron_job')
    },
    async delete(name, call = {}) {
      return deleted(sendRequest, path(name), { deleted: true, name }, call)
    },
  }
}

export interface SchemaSpec {
  uri: string
  type: string
  version: number | string
  schema: Record<string, unknown>
}

const SCHEMA: Readonly<Record<keyof SchemaSpec, true>> = {
  ...{ uri: true, type: true, version: true, schema: true },
}

/** JSON Schemas (draft 2020-12) that the `args` of jobs can be checked against (seed 001 §15). */
export interface Schemas {
  list(page?: PageOptions, call?: CallOptions): Promise<Listed<'schemas', Schema>>
  /** `schema` describes the whole `args` array. */
  register(spec: SchemaSpec, call?: CallOptions): Promise<Schema>
  get(uri: string, call?: CallOptions): Promise<Schema>
  delete(uri: string, call?: CallOptions): Promise<{ deleted: boolean; uri: string }>
}

export function schemasOf(sendRequest: SendRequest): Schemas {
  const path = (uri: string) => `/schemas/${segment(uri, 'The URI of a schema')}`
  return {
    async list(page = {}, call = {}) {
      return listed(sendRequest, 'schemas', '/schemas', page, call)
    },
    async register(spec, call = {}) {
      requireObject(spec, 'A schema must be an object such as { uri, type, version, schema }.')
      requireKnown(spec, SCHEMA, 'a schema')
      const sent = { method: 'POST', path: '/schemas', body: spec, ...repeatable(call), ...call }
      return objectIn(await sendRequest(sent), 'schema')
    },
    async get(uri, call = {}) {
      return objectIn(await sendRequest({ method: 'GET', path: path(uri), ...call }), 'schema')
    },
    async delete(uri, call = {}) {
      return deleted(sendRequest, path(uri), { deleted: true, uri }, call)
    },
  }
}

/** The workers that the server knows (OJS admin API; not part of the seeds). */
export interface Workers {
  list(page?: PageOptions, call?: CallOptions): Promise<Listed<'items', WorkerInfo>>
  /** Tells the worker to take no more jobs; `*`: all workers. */
  quiet(id: string, call?: CallOptions): Promise<Record<string, unknown>>
  /** Tells the worker to end when its jobs have ended; `*`: all workers. */
  terminate(id: string, call?: CallOptions): Promise<Record<string, unknown>>
}

export function workersOf(sendRequest: SendRequest): Workers {
  const path = (id: string) => `/admin/workers/${segment(id, 'The id of a worker')}`
  return {
    async list(page = {}, call = {}) {
      return listed(sendRequest, 'items', '/admin/workers', page, call)
    },
    async quiet(id, call = {}) {
      return directed(sendRequest, `${path(id)}/quiet`, call)
    },
    async terminate(id, call = {}) {
      return directed(sendRequest, `${path(id)}/terminate`, call)
    },
  }
}

/** Workflows (seed 001 §14). */
export interface Workflows {
  /**
   * Starts a workflow. The client mints its `id` unless you give one, so that the request can be repeated if the
   * answer gets lost; with the header `Idempotency-Key` the key does that. An id that exists already gives the
   * existing workflow if it has the same type and name, else rejects with `OJSDuplicateError`.
   */
  create(definition: WorkflowDefinition, call?: CallOptions): Promise<Workflow>
  /** Lists workflows without their steps. An addition of this gateway: other servers may not have it. */
  list(page?: WorkflowPage, call?: CallOptions): Promise<Listed<'workflows', Workflow>>
  get(id: string, call?: CallOptions): Promise<Workflow>
  /** Cancels the workflow and all of its jobs that have not ended. */
  cancel(id: string, call?: CallOptions): Promise<Workflow>
}

/** The part of the list, and the state of its workflows; default: all states. */
export interface WorkflowPage extends PageOptions {
  state?: WorkflowState | undefined
}

export function workflowsOf(sendRequest: SendRequest): Workflows {
  const path = (id: string) => `/workflows/${segment(id, 'The id of a workflow')}`
  return {
    async create(definition, call = {}) {
      const wire = wireWorkflow(definition)
      const id = definition.id ?? (hasIdempotencyKey(call) ? undefined : newJobId())
      const body = id === undefined ? wire : { ...wire, id }
      const traced = withActiveTrace(call)
      const sent = { method: 'POST', path: '/workflows', body, idempotent: true, ...traced }
      try {
        return objectIn(await sendRequest(sent), 'workflow')
      } catch (error) {
        if (id === undefined || !isTakenBy(error, id)) throw error
        const answer = await sendRequest({ method: 'GET', path: path(id), ...call })
        const workflow = objectIn<Workflow>(answer, 'workflow')
        if (!isOf(workflow, definition)) throw error
        return workflow
      }
    },
    async list(page = {}, call = {}) {
      return listed(sendRequest, 'workflows', '/workflows', page, call)
    },
    async get(id, call = {}) {
      return objectIn(await sendRequest({ method: 'GET', path: path(id), ...call }), 'workflow')
    },
    async cancel(id, call = {}) {
      return objectIn(await sendRequest({ method: 'DELETE', path: path(id), ...call }), 'workflow')
    },
  }
}

function repeatable(call: CallOptions): { idempotent?: true } {
  return hasIdempotencyKey(call) ? { idempotent: true } : {}
}

function isTakenBy(error: unknown, id: string): boolean {
  return error instanceof OJSDuplicateError && error.details?.['resource_id'] === id
}

function isOf(workflow: Workflow, definition: WorkflowDefinition): boolean {
  const type = 'type' in definition ? definition.type : 'dag'
  return workflow.name === definition.name && (workflow.type ?? 'dag') === type
}

const PAGE = { limit: true, offset: true }
/** By the member that has the list: what may be asked for beside the page. */
const LIST_OPTIONS: Readonly<Record<string, object>> = {
  jobs: { ...PAGE, queue: true },
  workflows: { ...PAGE, state: true },
}

/** Requests a page of a list, and checks that the answer has the list. */
async function listed<Member extends string, Item extends object>(
  sendRequest: SendRequest,
  member: Member,
  path: string,
  page: object,
  call: CallOptions,
): Promise<Listed<Member, Item>> {
  requireKnown(page, LIST_OPTIONS[member] ?? PAGE, 'a list')
  const answer = await sendRequest({ method: 'GET', path: `${path}${query(page)}`, ...call })
  listIn(answer, member)
  return answered(answer)
}

/** Sends a directive. Idempotent: a repetition changes nothing. */
async function directed<T extends object>(
  sendRequest: SendRequest,
  path: string,
  call: CallOptions,
): Promise<T> {
  return answered(await sendRequest({ method: 'POST', path, body: {}, idempotent: true, ...call }))
}

/** Sends a DELETE. A 404 after a try whose answer got lost counts as success. */
async function deleted<T extends object>(
  sendRequest: SendRequest,
  path: string,
  done: T,
  call: CallOptions,
): Promise<T> {
  try {
    return answered(await sendRequest({ method: 'DELETE', path, idempotent: true, ...call }), done)
  } catch (error) {
    if (error instanceof OJSNotFoundError && error.attempts > 1) return done
    throw error
  }
}

/** The answer's body, not checked any further; `defaults` fill in for an empty answer. */
function answered<T extends object>({ body }: Answer, defaults?: T): T {
  return { ...defaults, ...body } as T
}
