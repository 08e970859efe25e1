/** `OJSClient`: enqueues, reads and cancels jobs, and repeats requests that are safe to repeat. */
import { requireJson } from '../async/json-value.ts'
import { requireSignal } from '../async/on-abort.ts'
import { isRecord, requireKnown, requireObject } from '../async/options.ts'
import type { Job } from '../job.ts'
import { newJobId } from '../job.ts'
import { type Middleware, MiddlewareChain } from '../middleware.ts'
import {
  OJSConflictError,
  OJSDuplicateError,
  OJSNotFoundError,
  OJSTransportError,
} from '../transport/errors.ts'
import {
  HTTP_OPTIONS,
  HttpTransport,
  type HttpTransportOptions,
} from '../transport/http-transport.ts'
import {
  type CallOptions,
  hasIdempotencyKey,
  listIn,
  objectIn,
  requireCall,
  type SendRequest,
  segment,
  sendRequestOver,
} from '../transport/request.ts'
import { refuseAmqp } from '../transport/server-url.ts'
import type { Transport } from '../transport/transport.ts'
import { withActiveTrace } from '../worker/tracing.ts'
import { BatchGate } from './batch-collector.ts'
import { type Bulk, bulkOf } from './bulk.ts'
import { type EventsOptions, eventsOf, type OJSEvent } from './events.ts'
import {
  type EnqueueRequest,
  type JobOptions,
  type JobSpec,
  type WireJob,
  wireJob,
} from './job-options.ts'
import { type Jobs, jobsOf } from './jobs.ts'
import {
  type Cron,
  cronOf,
  type DeadLetters,
  deadLettersOf,
  type Queues,
  queuesOf,
  type Schemas,
  schemasOf,
  type Workers,
  type Workflows,
  workersOf,
  workflowsOf,
} from './resources.ts'
import type { Health, JobResult, Manifest, Workflow } from './responses.ts'
import type { WorkflowDefinition } from './workflow.ts'

/** The options of `HttpTransport`. With a `transport` of your own they are unused, and `url` is optional. */
export type OJSClientOptions =
  | (HttpTransportOptions & { transport?: Transport | undefined })
  | (Omit<HttpTransportOptions, 'url'> & { url?: string | undefined; transport: Transport })

/** A middleware around the enqueueing of a job; `next()` gives the job (seed 004, "Enqueue middleware"). */
export type EnqueueMiddleware = Middleware<EnqueueRequest, Job>

/** How many GETs and PUSHes are sent at a time when the answer to a batch got lost. */
const REQUESTS_AT_A_TIME = 8
/** How long a server waits for the end of a job at most, in seconds (OJS results). */
const LONGEST_WAIT_S = 60

/**
 * The producer's client of an OJS server (seed 004, "Client API"). Every method rejects with `OJSError` when
 * the server refused the request, and with `OJSTransportError` when there was no OJS answer.
 *
 * The client mints the job ids. That makes it safe to repeat an enqueue whose answer got lost: it cannot make
 * two jobs, and a 409 that names the job's own id means that an earlier try was stored. With the header
 * `Idempotency-Key` the server mints the ids instead, and the key identifies the repetition.
 */
export class OJSClient {
  readonly jobs: Jobs
  readonly bulk: Bulk
  readonly queues: Queues
  readonly cron: Cron
  readonly deadLetters: DeadLetters
  readonly schemas: Schemas
  readonly workers: Workers
  readonly workflows: Workflows
  /** Runs around every job that is enqueued, and around each job of a batch. */
  readonly middleware = new MiddlewareChain<EnqueueRequest, Job>()
  readonly #sendRequest: SendRequest
  readonly #transport: Transport

  /** Throws `TypeError` for invalid options, such as an AMQP URL. */
  constructor(options: OJSClientOptions) {
    requireObject(options, 'OJSClient needs options, such as { url }.')
    requireKnown(options, OPTIONS, 'OJSClient')
    if (options.url !== undefined) refuseAmqp(options.url, 'OJSClient', 'NativeProducer')
    this.#transport = transportOf(options)
    const sendRequest = checking(sendRequestOver(this.#transport))
    this.#sendRequest = sendRequest
    this.jobs = jobsOf(sendRequest)
    this.bulk = bulkOf(sendRequest)
    this.queues = queuesOf(sendRequest)
    this.cron = cronOf(sendRequest)
    this.deadLetters = deadLettersOf(sendRequest)
    this.schemas = schemasOf(sendRequest)
    this.workers = workersOf(sendRequest)
    this.workflows = workflowsOf(sendRequest)
  }

  /** Adds enqueue middleware as the innermost. `middleware` can remove it or insert around it by its name. */
  use(
    ...args: [middleware: EnqueueMiddleware] | [name: string, middleware: EnqueueMiddleware]
  ): this {
    this.middleware.use(...args)
    return this
  }

  /**
   * PUSH. Wraps `args` into an array unless it is one. Resolves with the job as it was stored. If the
   * `unique` policy says `ignore` and such a job exists, resolves with the existing job, marked
   * `deduplicated`.
   */
  async enqueue(
    type: string,
    args?: unknown,
    options: JobOptions = {},
    call: CallOptions = {},
  ): Promise<Job> {
    requireCall(call)
    const unsent = unsentIds(call)
    const request = requestOf({ type, args, options }, unsent)
    return requireJob(
      await this.middleware.run(request, (final) => this.#push(final, call, unsent)),
    )
  }

  /**
   * PUSH batch: enqueues all of the jobs or none, and resolves with them in the order given. At most 1,000
   * jobs; `[]` sends nothing.
   */
  async enqueueBatch(jobs: readonly JobSpec[], call: CallOptions = {}): Promise<Job[]> {
    requireCall(call)
    const unsent = unsentIds(call)
    const requests = jobs.map((job) => requestOf(job, unsent))
    const send = (final: EnqueueRequest[]) => this.#pushAll(final, call, unsent)
    const gate = new BatchGate(requests.length, send, call.signal)
    return await Promise.all(
      requests.map((request, index) =>
        gate.pass(index, async (arrive) => requireJob(await this.middleware.run(request, arrive))),
      ),
    )
  }

  /** Resolves with the whole job: its state, times, result and errors. */
  async getJob(id: string, call: CallOptions = {}): Promise<Job> {
    return objectIn(await this.#sendRequest({ method: 'GET', path: jobPath(id), ...call }), 'job')
  }

  /**
   * Waits until the job has ended, and resolves with it: look at `state`, `result` and `error`. Rejects with
   * `OJSTransportError` of the kind `timeout` after `timeoutMs` (default: never).
   */
  async result(
    id: string,
    { timeoutMs = Number.POSITIVE_INFINITY, ...call }: CallOptions & { timeoutMs?: number } = {},
  ): Promise<JobResult> {
    requireCall(call, { timeoutMs: true })
    if (typeof timeoutMs !== 'number' || !(timeoutMs >= 0)) {
      throw new TypeError('timeoutMs must be a number of milliseconds; Infinity means no limit.')
    }
    const endsAt = performance.now() + timeoutMs
    for (;;) {
      const leftMs = endsAt - performance.now()
      const seconds = Math.max(0, Math.min(LONGEST_WAIT_S, Math.ceil(leftMs / 1_000)))
      const request = {
        method: 'GET',
        path: `${jobPath(id)}/result?wait=true&timeout=${seconds}`,
        accept: [408],
        timeout: seconds * 1_000 + 10_000,
        isUrgent: true,
      }
      const { body, status } = await this.#sendRequest({ ...request, ...call })
      if (status === 200) return { ...body } as unknown as JobResult
      if (performance.now() >= endsAt) {
        const message = `The job '${id}' has not ended within ${timeoutMs} ms.`
        throw new OJSTransportError(message, { kind: 'timeout' })
      }
    }
  }

  /**
   * Cancels the job and resolves with it. Rejects with `OJSConflictError` if the job had already ended; its
   * `currentState` tells how.
   */
  async cancelJob(id: string, call: CallOptions = {}): Promise<Job> {
    try {
      const request = { method: 'DELETE', path: jobPath(id), idempotent: true, ...call }
      return objectIn(await this.#sendRequest(request), 'job')
    } catch (error) {
      if (!wasCancelledByEarlierTry(error)) throw error
      return await this.getJob(id, call)
    }
  }

  /** Makes a job that was enqueued with `pending: true` available. */
  async activateJob(id: string, call: CallOptions = {}): Promise<Job> {
    const path = `${jobPath(id)}/activate`
    return objectIn(await this.#sendRequest({ method: 'POST', path, body: {}, ...call }), 'job')
  }

  /** Starts a workflow: one built by `chain`, `group` or `batch`, or a graph of steps. */
  workflow(definition: WorkflowDefinition, call: CallOptions = {}): Promise<Workflow> {
    return this.workflows.create(definition, call)
  }

  /** Resolves with the server's manifest: its name, version and capabilities (seed 001 §21). */
  async manifest(call: CallOptions = {}): Promise<Manifest> {
    const { body } = await this.#sendRequest({ method: 'GET', path: '/ojs/manifest', ...call })
    return { ...body } as Manifest
  }

  /** Resolves with the server's health, also when the server is degraded (503): look at `status`. */
  async health(call: CallOptions = {}): Promise<Health> {
    const request = { method: 'GET', path: '/health', accept: [503], ...call }
    return { ...(await this.#sendRequest(request)).body } as Health
  }

  /**
   * What happens, as it happens: `for await (const { type, data } of client.events({ queue: 'email' }))`. A lost
   * connection is opened again behind the last event, for ever; `onLost` is told, and may end it.
   */
  events(options: EventsOptions = {}): AsyncGenerator<OJSEvent, void, undefined> {
    requireSignal(options.signal)
    return eventsOf(this.#transport, options)
  }

  async #push(request: EnqueueRequest, call: CallOptions, unsent?: UnsentIds): Promise<Job> {
    const body = bodyOf(request, unsent)
    try {
      const traced = withActiveTrace(call)
      const sent = { method: 'POST', path: '/jobs', body, idempotent: true, ...traced }
      const answer = await this.#sendRequest(sent)
      const job = objectIn<Job>(answer, 'job')
      return answer.body['deduplicated'] === true ? { ...job, deduplicated: true } : job
    } catch (error) {
      // If the id was not sent, the job that the 409 names cannot come from an earlier try of this call.
      const isSent = !unsent?.has(request.id)
      const isOwn = isSent && error instanceof OJSDuplicateError
      if (!isOwn || error.existingJobId !== request.id) throw error
      return await this.#readBack(request, error, call)
    }
  }

  async #pushAll(
    requests: readonly EnqueueRequest[],
    call: CallOptions,
    unsent: UnsentIds | undefined,
  ): Promise<Job[]> {
    const body = { jobs: requests.map((request) => bodyOf(request, unsent)) }
    try {
      const traced = withActiveTrace(call)
      const sent = { method: 'POST', path: '/jobs/batch', body, idempotent: true, ...traced }
      const answer = await this.#sendRequest(sent)
      return withDeduplicated(listIn<Job>(answer, 'jobs'), answer.body['deduplicated'])
    } catch (error) {
      // Jobs whose ids were not sent cannot be read back by them.
      const areSent = !unsent?.size
      const isOwn =
        areSent &&
        error instanceof OJSDuplicateError &&
        requests.some(({ id }) => id === error.existingJobId)
      if (!isOwn) throw error
      return await this.#readBackAll(requests, error, call)
    }
  }

  /**
   * Resolves with the jobs that an earlier try stored. A job that is missing was not stored, because its
   * `unique` policy took an existing job instead. The lost answer named that job; a PUSH of the missing job
   * gets it named again.
   */
  async #readBackAll(
    requests: readonly EnqueueRequest[],
    conflict: OJSDuplicateError,
    call: CallOptions,
  ): Promise<Job[]> {
    const found = await inParts(requests, (request) =>
      this.#readBack(request, conflict, call).catch((error: unknown) => {
        if (error === conflict && acceptsExisting(request)) return null
        throw error
      }),
    )
    return await inParts(requests, async (request, i) => found[i] ?? this.#push(request, call))
  }

  /** Resolves with the job that an earlier try stored; rejects with `conflict` if another job has the id. */
  async #readBack(
    { id, type }: EnqueueRequest,
    conflict: OJSDuplicateError,
    call: CallOptions,
  ): Promise<Job> {
    const job = await this.getJob(id, call).catch((error: unknown) => {
      throw error instanceof OJSNotFoundError ? conflict : error
    })
    if (job.type !== type) throw conflict
    return job
  }
}

const OPTIONS = { ...HTTP_OPTIONS, transport: true }

/** Sends only what the server reads as it was meant, whichever call or middleware has made it. */
function checking(sendRequest: SendRequest): SendRequest {
  return async (request) => {
    if (isRecord(request.body)) requireJson(request.body)
    return await sendRequest(request)
  }
}

function transportOf({ transport, url, ...http }: OJSClientOptions): Transport {
  if (transport !== undefined) return transport
  if (url === undefined) throw new TypeError('A client needs a url or a transport.')
  return new HttpTransport({ url, ...http })
}

type UnsentIds = Set<string>

/**
 * A set that collects the ids minted for this call, which are then left out of its body; `undefined`: ids are
 * sent. With an `Idempotency-Key` the server compares the bodies of repeated requests, and a newly minted id
 * would make every body differ. The key itself marks a repetition.
 */
function unsentIds(call: CallOptions): UnsentIds | undefined {
  return hasIdempotencyKey(call) ? new Set() : undefined
}

function requestOf(spec: JobSpec, unsent: UnsentIds | undefined): EnqueueRequest {
  const job = wireJob(spec)
  const id = job.id ?? newJobId()
  if (job.id === undefined) unsent?.add(id)
  return Object.assign(job, { id, options: job.options ?? {} })
}

/** The body of PUSH: without `options` if the job has none (seed 004, "enqueue"). */
function bodyOf(request: EnqueueRequest, unsent: UnsentIds | undefined): WireJob {
  const { id, options, ...job } = request
  const isSent = unsent === undefined || !unsent.has(id)
  const hasOptions = Object.keys(options).length > 0
  if (isSent && hasOptions) return request
  return { ...(isSent && { id }), ...job, ...(hasOptions && { options }) }
}

/** Marks the jobs that existed before. `indexes`: theirs, which the gateway sends beside the list. */
function withDeduplicated(jobs: Job[], indexes: unknown): Job[] {
  if (!Array.isArray(indexes)) return jobs
  const known = new Set<unknown>(indexes)
  return jobs.map((job, i) => (known.has(i) ? { ...job, deduplicated: true } : job))
}

/** Calls `make` for all items, only a few at a time: a batch may have a thousand jobs. */
async function inParts<T, Made>(
  all: readonly T[],
  make: (item: T, index: number) => Promise<Made>,
): Promise<Made[]> {
  const made: Made[] = []
  for (let i = 0; i < all.length; i += REQUESTS_AT_A_TIME) {
    const some = all.slice(i, i + REQUESTS_AT_A_TIME)
    made.push(...(await Promise.all(some.map((item, j) => make(item, i + j)))))
  }
  return made
}

/** Whether the job's `unique` policy accepts an existing job in its place, so that nothing is stored. */
function acceptsExisting({ options: { unique } }: EnqueueRequest): boolean {
  const named = isRecord(unique) ? unique['on_conflict'] : undefined
  return named === 'ignore' || named === 'use_existing' || named === 'drop'
}

/** Throws if the middleware chain gave no job: a middleware that does not call `next()` must return one. */
function requireJob(job: Job | undefined): Job {
  if (job) return job
  throw new Error('An enqueue middleware neither called next() nor returned a job.')
}

function wasCancelledByEarlierTry(error: unknown): boolean {
  return (
    error instanceof OJSConflictError && error.attempts > 1 && error.currentState === 'cancelled'
  )
}

function jobPath(id: string): string {
  return `/jobs/${segment(id, 'The id of a job')}`
}
