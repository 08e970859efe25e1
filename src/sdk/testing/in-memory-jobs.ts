/** Jobs and their life cycle in memory, for tests without a server. */
import { isRecord } from '../async/options.ts'
import type { Job, JobState } from '../job.ts'
import { errorOfAnswer } from '../transport/errors.ts'

type Body = Readonly<Record<string, unknown>>

/** A job and the data that no answer shows. */
interface Entry {
  job: Job
  /**
   * The job's place in the order of dead letters. A job becomes one when its retries are used up, or when it
   * expires and asked for it. Null: not a dead letter.
   */
  deadLetter: number | null
  /** For the states `scheduled` and `retryable`. */
  dueAt: number
  /** For the state `active`. */
  leaseEndsAt: number
  /** By how much a heartbeat extends the lease. */
  leaseMs: number
}

const TYPE = /^[a-zA-Z][a-zA-Z0-9_-]*(\.[a-zA-Z][a-zA-Z0-9_-]*)*$/
const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const TERMINAL: readonly JobState[] = ['completed', 'cancelled', 'discarded']
const LEASE_MS = 30_000
/** The errors that a server gives a job that it fails or discards by itself. */
const LOST = {
  code: 'visibility_timeout',
  type: 'visibility_timeout',
  message: 'No ACK, NACK or heartbeat came within the visibility timeout.',
  retryable: true,
}
const EXPIRED = {
  code: 'expired',
  type: 'expired',
  message: 'The job expired (expires_at) before it could run.',
  retryable: false,
}

/** Throws the `OJSError` that a server would answer. */
export function refuse(status: number, code: string, message: string, details: object = {}): never {
  const error = errorOfAnswer({ status, body: { error: { code, message, details } } })
  throw error ?? new Error(message)
}

/**
 * Jobs and their lifecycle (seed 001 §7), as little as tests need: states, leases, retries and dead letters.
 * Retries have no jitter, so that tests can move the clock to the exact time.
 */
export class InMemoryJobs {
  readonly #entries = new Map<string, Entry>()
  readonly #now: () => number
  readonly #newId: () => string
  #deadLetters = 0

  constructor(deps: { now: () => number; newId: () => string }) {
    this.#now = deps.now
    this.#newId = deps.newId
  }

  get all(): Job[] {
    this.#letTimePass()
    return [...this.#entries.values()].map(({ job }) => job)
  }

  clear(): void {
    this.#entries.clear()
  }

  /** Stores all of the jobs or none. */
  push(bodies: readonly unknown[]): Job[] {
    const entries = bodies.map((body, index) => this.#entryOf(body, index))
    const ids = new Set(this.#entries.keys())
    for (const [index, { job }] of entries.entries()) {
      if (ids.has(job.id)) {
        refuse(409, 'duplicate', `A job with the id '${job.id}' already exists.`, {
          existing_job_id: job.id,
          index,
        })
      }
      ids.add(job.id)
    }
    for (const entry of entries) this.#entries.set(entry.job.id, entry)
    return entries.map(({ job }) => job)
  }

  get(id: string): Job {
    return this.#find(id).job
  }

  cancel(id: string): Job {
    const { job } = this.#find(id)
    if (TERMINAL.includes(job.state)) this.#conflict(job, 'cancel')
    return this.#end(job, 'cancelled', {})
  }

  activate(id: string): Job {
    const { job, dueAt } = this.#find(id)
    if (job.state !== 'pending') this.#conflict(job, 'activate')
    job.state = dueAt > this.#now() ? 'scheduled' : 'available'
    return job
  }

  /** Leases jobs: queues in the order given, then the highest priority first, then the oldest first. */
  fetch(body: Body): Job[] {
    this.#letTimePass()
    const { queues, count = 1, worker_id, visibility_timeout_ms: asked } = body
    if (!Array.isArray(queues) || queues.length === 0) {
      refuse(400, 'invalid_request', "The 'queues' field must name at least one queue.", {
        field: 'queues',
      })
    }
    const waiting = [...this.#entries.values()].filter(({ job }) => job.state === 'available')
    const found = [...new Set<unknown>(queues as unknown[])].flatMap((queue) =>
      waiting
        .filter(({ job }) => job.queue === queue)
        .sort((a, b) => (b.job.priority ?? 0) - (a.job.priority ?? 0)),
    )
    return this.#withPlaces(found, Number(count)).map((entry) => {
      const { job } = entry
      const own = job.visibility_timeout_ms
      entry.leaseMs = milliseconds(asked) ?? milliseconds(own) ?? LEASE_MS
      entry.leaseEndsAt = this.#now() + entry.leaseMs
      job.state = 'active'
      job.attempt += 1
      job.started_at = this.#timestamp()
      if (typeof worker_id === 'string') job.worker_id = worker_id
      else delete job.worker_id
      return job
    })
  }

  /** The first jobs whose concurrency keys have a place for them. */
  #withPlaces(found: readonly Entry[], count: number): Entry[] {
    const active = new Map<string, number>()
    for (const { job } of this.#entries.values()) {
      const { key } = concurrencyOf(job) ?? {}
      if (key !== undefined && job.state === 'active') active.set(key, (active.get(key) ?? 0) + 1)
    }
    const taken: Entry[] = []
    for (const entry of found) {
      if (taken.length >= count) break
      const { key, limit } = concurrencyOf(entry.job) ?? {}
      if (key !== undefined && limit !== undefined) {
        const now = active.get(key) ?? 0
        if (now >= limit) continue
        active.set(key, now + 1)
      }
      taken.push(entry)
    }
    return taken
  }

  ack(body: Body): Job {
    const { job } = this.#leased(body, 'acknowledge')
    delete job.error
    return this.#end(job, 'completed', 'result' in body ? { result: body['result'] } : {})
  }

  /** Ends an attempt: the job is retried, given back (`requeue`), or discarded. */
  nack(body: Body): Job {
    const entry = this.#leased(body, 'fail')
    const { job } = entry
    if (body['requeue'] === true) {
      job.attempt -= 1
      return waitsAgain(job, 'available')
    }
    const error = isRecord(body['error']) ? body['error'] : {}
    addError(job, error)
    if (error['retryable'] === false || isNotRetried(job, error)) return this.#discard(entry)
    return this.#retryOrDiscard(entry)
  }

  /** Extends leases. Returns the ids of the extended jobs and of those that have been cancelled. */
  beat(body: Body): { extended: string[]; cancelled: string[] } {
    this.#letTimePass()
    const { active_jobs: ids, active_job_ids: more, worker_id: workerId } = body
    const named = [ids, more].flatMap((list) => (Array.isArray(list) ? list.map(String) : []))
    const entries = [...new Set(named)]
      .flatMap((id) => this.#entries.get(id) ?? [])
      .filter(({ job }) => job.worker_id === undefined || job.worker_id === workerId)
    const active = entries.filter(({ job }) => job.state === 'active')
    const asked = milliseconds(body['visibility_timeout_ms'])
    for (const entry of active) entry.leaseEndsAt = this.#now() + (asked ?? entry.leaseMs)
    return {
      extended: active.map(({ job }) => job.id),
      cancelled: entries.filter(({ job }) => job.state === 'cancelled').map(({ job }) => job.id),
    }
  }

  /** The dead letters, the newest first, as a server lists them. */
  deadLetters(queue: string | null): Job[] {
    this.#letTimePass()
    return [...this.#entries.values()]
      .filter(({ job, deadLetter }) => job.state === 'discarded' && deadLetter !== null)
      .sort((a, b) => (b.deadLetter ?? 0) - (a.deadLetter ?? 0))
      .map(({ job }) => job)
      .filter((job) => queue === null || job.queue === queue)
  }

  retryDead(id: string): Job {
    const job = this.#dead(id)
    job.attempt = 0
    job.generation = (job.generation ?? 0) + 1
    delete job.discarded_at
    delete job.error
    return waitsAgain(job, 'available')
  }

  deleteDead(id: string): void {
    this.#entries.delete(this.#dead(id).id)
  }

  #entryOf(body: unknown, index: number): Entry {
    if (!isRecord(body)) refuse(400, 'invalid_request', 'A job must be a JSON object.', { index })
    const { options, generation: _, ...members } = body
    const { type, args, id } = members
    if (typeof type !== 'string' || !TYPE.test(type)) {
      refuse(400, 'invalid_request', "The 'type' field must be a job type, such as 'email.send'.", {
        field: 'type',
        index,
      })
    }
    if (!Array.isArray(args)) {
      refuse(400, 'invalid_request', "The 'args' field must be a JSON array.", {
        field: 'args',
        index,
      })
    }
    if (id !== undefined && !(typeof id === 'string' && ID.test(id))) {
      refuse(400, 'invalid_request', "The 'id' field must be a UUIDv7.", { field: 'id', index })
    }
    const { delay_until, pending, ...known } = isRecord(options) ? options : {}
    const dueAt = instantOf(delay_until ?? known['scheduled_at'], index)
    const isScheduled = dueAt > this.#now()
    if (isScheduled && Date.parse(String(known['expires_at'])) <= dueAt) {
      const text =
        "The 'expires_at' field must be later than 'delay_until': the job could never run."
      refuse(400, 'invalid_request', text, { field: 'expires_at', index })
    }
    const retry = isRecord(known['retry']) ? known['retry'] : {}
    const job: Job = {
      priority: 0,
      ...members,
      queue: 'default',
      ...known,
      id: typeof id === 'string' ? id : this.#newId(),
      type,
      args,
      attempt: 0,
      max_attempts: Math.max(1, numberOr(retry['max_attempts'], 3)),
      state: pending === true ? 'pending' : isScheduled ? 'scheduled' : 'available',
      created_at: this.#timestamp(),
      enqueued_at: this.#timestamp(),
      ...(isScheduled && { scheduled_at: new Date(dueAt).toISOString() }),
    }
    return { job, dueAt, leaseEndsAt: 0, leaseMs: LEASE_MS, deadLetter: null }
  }

  /** Applies what happens by time alone: schedules and retries come due, leases run out, jobs expire. */
  #letTimePass(): void {
    const now = this.#now()
    for (const entry of this.#entries.values()) {
      const { job } = entry
      const isWaiting = job.state === 'scheduled' || job.state === 'retryable'
      if (isWaiting && entry.dueAt <= now) job.state = 'available'
      else if (job.state === 'active' && entry.leaseEndsAt <= now) {
        addError(job, LOST)
        if (job.attempt < (job.max_attempts ?? 1)) waitsAgain(job, 'available')
        else this.#discard(entry)
      }
      const isOver = Date.parse(job.expires_at ?? '') <= now
      if (isOver && job.state !== 'active' && !TERMINAL.includes(job.state)) {
        job.error = { ...EXPIRED }
        this.#discard(entry, exhaustionOf(job) === 'dead_letter')
      }
    }
  }

  #retryOrDiscard(entry: Entry): Job {
    const { job } = entry
    if (job.attempt >= (job.max_attempts ?? 1)) return this.#discard(entry)
    const delay = delayOf(job)
    entry.dueAt = this.#now() + delay
    job.retry_delay_ms = delay
    job.next_attempt_at = new Date(entry.dueAt).toISOString()
    return waitsAgain(job, 'retryable')
  }

  #discard(entry: Entry, isDeadLetter = exhaustionOf(entry.job) !== 'discard'): Job {
    entry.deadLetter = isDeadLetter ? ++this.#deadLetters : null
    return this.#end(entry.job, 'discarded', {})
  }

  #end(job: Job, state: 'completed' | 'cancelled' | 'discarded', more: object): Job {
    const at = `${state}_at`
    return Object.assign(job, { state, [at]: this.#timestamp() }, more)
  }

  /** The job that an ACK or FAIL names. Refuses the request unless that execution is the current one. */
  #leased(body: Body, verb: string): Entry {
    const entry = this.#find(String(body['job_id']))
    const { job } = entry
    const { worker_id: worker = job.worker_id, attempt = job.attempt } = body
    const { generation = job.generation ?? 0 } = body
    const isSameLife = generation === (job.generation ?? 0)
    const isCurrent = worker === job.worker_id && attempt === job.attempt && isSameLife
    if (job.state !== 'active' || !isCurrent) this.#conflict(job, verb)
    return entry
  }

  #find(id: string): Entry {
    this.#letTimePass()
    return this.#entries.get(id) ?? refuse(404, 'not_found', `Job '${id}' not found.`)
  }

  #dead(id: string): Job {
    const job = this.deadLetters(null).find((one) => one.id === id)
    return job ?? refuse(404, 'not_found', `Dead letter job '${id}' not found.`)
  }

  #conflict(job: Job, verb: string): never {
    const details = { job_id: job.id, current_state: job.state }
    refuse(409, 'invalid_request', `Cannot ${verb} job in state '${job.state}'.`, details)
  }

  #timestamp(): string {
    return new Date(this.#now()).toISOString()
  }
}

function addError(job: Job, error: Body): void {
  job.error = { ...error }
  job.errors = [...(job.errors ?? []), { ...error, attempt: job.attempt }]
}

/** Makes the job wait for its next attempt. The last attempt's worker and start time are removed. */
function waitsAgain(job: Job, state: 'available' | 'retryable'): Job {
  job.state = state
  delete job.started_at
  delete job.worker_id
  return job
}

/** At most `limit` jobs with this key are active at once; undefined: any number. */
function concurrencyOf(job: Job): { key: string; limit: number } | undefined {
  const policy = job['concurrency']
  if (!isRecord(policy) || typeof policy['limit'] !== 'number') return undefined
  const { key, limit } = policy
  const own = typeof key === 'string' ? key : `queue:${job.queue}:type:${job.type}`
  return { key: own, limit }
}

function retryOf(job: Job): Body {
  return isRecord(job['retry']) ? job['retry'] : {}
}

function exhaustionOf(job: Job): unknown {
  return retryOf(job)['on_exhaustion']
}

/** The retry delay in ms: as the gateway's, but without jitter and rounding. */
function delayOf(job: Job): number {
  const { backoff_strategy: strategy, ...retry } = retryOf(job)
  const first = numberOr(retry['initial_interval_ms'], 1_000)
  const coefficient = numberOr(retry['backoff_coefficient'], 2)
  const max = numberOr(retry['max_interval_ms'], 300_000)
  const { attempt } = job
  if (strategy === 'none' || strategy === 'constant') return Math.min(max, first)
  if (strategy === 'linear') return Math.min(max, first * attempt)
  if (strategy === 'polynomial') return Math.min(max, first * attempt ** coefficient)
  return Math.min(max, first * coefficient ** (attempt - 1))
}

function isNotRetried(job: Job, error: Body): boolean {
  const listed = retryOf(job)['non_retryable_errors']
  if (!Array.isArray(listed)) return false
  const { code, type, details } = error
  const errorClass = isRecord(details) ? details['error_class'] : undefined
  const names = [code, type, errorClass].filter((name) => typeof name === 'string')
  return listed.some((entry) =>
    names.some((name) =>
      String(entry).endsWith('.*') ? name.startsWith(entry.slice(0, -1)) : name === entry,
    ),
  )
}

/** The time in ms; NaN: none is given. Refuses an unreadable time: it would count as already passed. */
function instantOf(value: unknown, index: number): number {
  const at = Date.parse(String(value ?? ''))
  if (value == null || !Number.isNaN(at)) return at
  const message =
    "The 'delay_until' field must be a date and time; in memory it cannot be relative to now."
  return refuse(400, 'invalid_request', message, { field: 'delay_until', index })
}

function numberOr(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise
}

function milliseconds(value: unknown): number | undefined {
  return typeof value === 'number' && value > 0 ? value : undefined
}
