/** A small OJS server in memory, used as a transport. */
import { isRecord } from '../async/options.ts'
import type { Job } from '../job.ts'
import { newJobId } from '../job.ts'
import { OJSError, OJSTransportError } from '../transport/errors.ts'
import type { Transport, TransportRequest, TransportResponse } from '../transport/transport.ts'
import { InMemoryJobs, refuse } from './in-memory-jobs.ts'

type Body = Readonly<Record<string, unknown>>
type Answer = readonly [status: number, body: object]

/**
 * A small OJS server in memory, for tests of programs that use the client or the HTTP worker: pass it to both
 * as `transport`. It enqueues, hands out, completes, retries and cancels jobs and lists dead letters as a
 * server does. It refuses invalid types, `args` and ids, and requests that the job's state does not allow. It
 * does not check what a server checks besides: names of queues, numbers out of range, policies, `meta`.
 *
 * It has no workflows, cron, schemas, pausing, events, histories or actions on many jobs (`OJSUnsupportedError`).
 * Its list of jobs knows the filters `state`, `queue`, `type` and `id`. Jobs with `concurrency` are held
 * back as on a server, but do not say so (`held_by`). `unique` and a relative `expires_at` have no effect. Retry intervals are only understood in milliseconds.
 */
export class InMemoryTransport implements Transport {
  readonly #jobs = new InMemoryJobs({ now: () => Date.now() + this.#ahead, newId: newJobId })
  /** Functions that end the wait of each FETCH that found nothing. */
  readonly #waiting = new Set<() => void>()
  /** The workers that said that they take no more jobs. */
  readonly #quiet = new Set<unknown>()
  #ahead = 0

  /** All jobs as they are now, the oldest first. */
  get jobs(): Job[] {
    return copy(this.#jobs.all)
  }

  /** Moves the server's clock forward: schedules and retries come due, leases run out. */
  advance(ms: number): void {
    this.#ahead += ms
    this.#wake()
  }

  clear(): void {
    this.#jobs.clear()
  }

  async request(opts: TransportRequest): Promise<TransportResponse> {
    if (opts.signal?.aborted) throw aborted(opts)
    // Copied as over the wire: members that are `undefined` get lost, and caller and server share no objects.
    const body = opts.body === undefined ? {} : copy(opts.body)
    if (!isRecord(body)) refuse(400, 'invalid_request', 'The body must be a JSON object.')
    const [status, answer] =
      opts.path === '/workers/fetch'
        ? await this.#fetch(body, opts)
        : this.#answer(opts.method, new URL(opts.path, 'http://memory'), body)
    this.#wake()
    return { status, body: copy(answer) }
  }

  #answer(method: string, { pathname, searchParams: search }: URL, body: Body): Answer {
    const [, resource = '', id = '', verb = ''] = pathname.split('/').map(decodeURIComponent)
    if (resource === 'jobs' && method === 'GET' && id === '') return [200, this.#find(search)]
    const isKnown = resource !== 'jobs' || verb === '' || verb === 'activate'
    if (resource === 'jobs' && isKnown && id !== 'bulk') {
      return this.#answerJobs(method, id, verb, body)
    }
    if (resource === 'workers') return this.#answerWorkers(id, body)
    if (resource === 'dead-letter') return this.#answerDeadLetters(method, id, search)
    if (resource === 'queues' && id === '') return [200, page('queues', this.#queues(), search)]
    if (resource === 'health') return [200, { status: 'ok', backend: { type: 'memory' } }]
    if (pathname === '/ojs/manifest') return [200, MANIFEST]
    return refuse(422, 'unsupported', `${method} ${pathname} is not supported in memory.`)
  }

  #answerJobs(method: string, id: string, verb: string, body: Body): Answer {
    if (method === 'POST' && id === '') return [201, { job: this.#jobs.push([body])[0] }]
    if (method === 'POST' && id === 'batch') {
      const { jobs: given } = body
      if (!Array.isArray(given))
        refuse(400, 'invalid_request', "The 'jobs' field must be a JSON array.")
      const jobs = this.#jobs.push(given)
      return [201, { jobs, count: jobs.length }]
    }
    if (method === 'POST' && verb === 'activate') return [200, { job: this.#jobs.activate(id) }]
    if (method === 'DELETE') return [200, { job: this.#jobs.cancel(id) }]
    return [200, { job: this.#jobs.get(id) }]
  }

  /** The newest first, as a server does without `sort` and `order`. */
  #find(search: URLSearchParams): object {
    const unknown = [...search.keys()].find((name) => !FILTERS.has(name) && !PAGE.has(name))
    if (unknown !== undefined) {
      refuse(422, 'unsupported', `There is no filter '${unknown}' in memory.`, { field: unknown })
    }
    const filters = [...search].filter(([name]) => FILTERS.has(name))
    const jobs = this.#jobs.all
      .filter((job) => filters.every(([name, text]) => isMeant(job[name], text)))
      .reverse()
    return { ...page('jobs', jobs, search), total: jobs.length }
  }

  #answerWorkers(verb: string, body: Body): Answer {
    if (verb === 'ack') {
      const { id, state, completed_at } = this.#jobs.ack(body)
      return [200, { acknowledged: true, job_id: id, state, completed_at }]
    }
    if (verb === 'nack') {
      const { id, ...job } = this.#jobs.nack(body)
      return [200, { job_id: id, ...job }]
    }
    if (verb === 'settle') return [200, { items: this.#settle(body) }]
    if (verb !== 'heartbeat') return refuse(404, 'not_found', `No such route: ${verb}.`)
    const { worker_id: workerId, state } = body
    if (state === 'quiet' || state === 'terminate') this.#quiet.add(workerId)
    else this.#quiet.delete(workerId)
    const { extended, cancelled } = this.#jobs.beat(body)
    const server_time = new Date(Date.now() + this.#ahead).toISOString()
    return [
      200,
      { state: 'running', jobs_extended: extended, cancelled_jobs: cancelled, server_time },
    ]
  }

  /** Answers each item as its own request would be answered. */
  #settle({ items, worker_id }: Body): object[] {
    if (!Array.isArray(items) || items.length === 0)
      refuse(400, 'invalid_request', "The 'items' field must be a JSON array.", { field: 'items' })
    return items.map((item) => this.#settleOne({ worker_id, ...item }))
  }

  #settleOne(item: Body): object {
    const { action, job_id } = item
    try {
      const [status, answer] = this.#answerWorkers(action === 'ack' ? 'ack' : 'nack', item)
      return { status, ...answer }
    } catch (error) {
      if (!(error instanceof OJSError)) throw error
      const { status, code, message, retryable, details } = error
      return { status, job_id, error: { code, message, retryable, details } }
    }
  }

  #answerDeadLetters(method: string, id: string, search: URLSearchParams): Answer {
    if (id === '') return [200, page('jobs', this.#jobs.deadLetters(search.get('queue')), search)]
    if (method === 'POST') return [200, { job: this.#jobs.retryDead(id) }]
    this.#jobs.deleteDead(id)
    return [200, { deleted: true, job_id: id }]
  }

  #queues(): object[] {
    const names = new Set(['default', ...this.#jobs.all.map(({ queue }) => queue)])
    return [...names].map((name) => ({ name, status: 'active' }))
  }

  /** FETCH: waits up to `wait_ms` for a first job, as the gateway does. */
  async #fetch(body: Body, opts: TransportRequest): Promise<Answer> {
    const { signal } = opts
    const waitMs = typeof body['wait_ms'] === 'number' ? body['wait_ms'] : 0
    const endsAt = performance.now() + waitMs
    for (;;) {
      if (signal?.aborted) throw aborted(opts)
      const jobs = this.#jobs.fetch(body)
      const left = endsAt - performance.now()
      const isOver = left <= 0 || this.#quiet.has(body['worker_id'])
      if (jobs.length > 0 || isOver) return [200, { jobs }]
      await this.#nextChange(left, signal)
    }
  }

  /** Resolves at the next request, and after 50 ms at most, because retries come due without any request. */
  #nextChange(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer)
        this.#waiting.delete(end)
        signal?.removeEventListener('abort', end)
        resolve()
      }
      const timer = setTimeout(end, Math.min(ms, 50))
      this.#waiting.add(end)
      signal?.addEventListener('abort', end, { once: true })
    })
  }

  #wake(): void {
    for (const end of [...this.#waiting]) end()
  }
}

const MANIFEST = {
  ojs_version: '1.0',
  implementation: { name: 'in-memory', version: '1', language: 'typescript' },
  conformance_level: 1,
  protocols: ['http'],
  backend: 'memory',
  extensions: ['fetch_wait_ms', 'fenced_ack', 'nack_requeue', 'batch_settle'],
  capabilities: { batch_enqueue: true, dead_letter: true, delayed_jobs: true },
}

const FILTERS: ReadonlySet<string> = new Set(['id', 'state', 'queue', 'type'])
const PAGE: ReadonlySet<string> = new Set(['limit', 'offset'])

function isMeant(value: unknown, texts: string): boolean {
  return texts
    .split(',')
    .some((text) =>
      text.endsWith('*') ? String(value).startsWith(text.slice(0, -1)) : value === text,
    )
}

function page(member: string, all: readonly object[], search: URLSearchParams): object {
  const limit = Math.min(100, Number(search.get('limit') ?? 50))
  const offset = Number(search.get('offset') ?? 0)
  const total = all.length
  const pagination = { total, limit, offset, has_more: offset + limit < total }
  return { [member]: all.slice(offset, offset + limit), pagination }
}

function aborted({ method, path, signal }: TransportRequest): OJSTransportError {
  const init = { kind: 'aborted', cause: signal?.reason } as const
  return new OJSTransportError(`${method} ${path}: aborted by the caller`, init)
}

function copy<T>(value: T): T {
  return JSON.parse(JSON.stringify(value))
}
