import type { Courier } from './courier.ts'
import { OJSError, OJSTransportError } from './errors.ts'
import type { Job } from './job.ts'
import { jobError, jobErrorOf } from './job-error.ts'
import { backoffMs } from './retry.ts'
import type { JobError, Lease, Settlement } from './source.ts'
import { withActiveTrace } from './tracing.ts'

const FIRST_RETRY_MS = 100
const MAX_RETRY_MS = 5_000
const REPORT_TIMEOUT_MS = 10_000
/** Of a server that says nothing else (seed 001 §10.1); its heartbeats may hint at less. */
const DEFAULT_LEASE_MS = 30_000

export interface HttpLeaseDeps {
  readonly courier: Courier
  readonly workerId: string
  /** Asked for with each job; `undefined`: the job or the server decides. */
  readonly visibilityTimeout: number | undefined
  onSettled(lease: HttpLease): void
  onError(error: unknown): void
}

/** What the report says is not acceptable to the server. */
interface Refused {
  readonly refusal: unknown
}

/** A job that FETCH answered, and its ACK or FAIL (seed 001 §10.2, §10.3). */
export class HttpLease implements Lease {
  readonly job: Job
  readonly attempt: number
  /** How long the server reserves the job, as far as we know. */
  readonly lengthMs: number
  /** Neither we nor the job have named that length: the server's own may be shorter. */
  readonly isLengthAssumed: boolean
  readonly #deps: HttpLeaseDeps
  /** Of `performance.now()`. */
  #endsAt: number

  /** `askedAt`: when the FETCH was sent, so that the lease never seems longer than it is. */
  constructor(job: Job, askedAt: number, deps: HttpLeaseDeps) {
    this.job = job
    this.attempt = job.attempt
    this.#deps = deps
    const named = deps.visibilityTimeout ?? ownLeaseMs(job)
    this.lengthMs = named ?? DEFAULT_LEASE_MS
    this.isLengthAssumed = named === undefined
    this.#endsAt = askedAt + this.lengthMs
  }

  begin(): boolean {
    return true
  }

  /** As far as we know, the server has given the job up. */
  get isPast(): boolean {
    return performance.now() >= this.#endsAt
  }

  /** A heartbeat that was sent at `sentAt` reached the server. */
  extend(sentAt: number): void {
    this.#endsAt = sentAt + this.lengthMs
  }

  async complete(result: unknown): Promise<Settlement> {
    const settled = await this.#report('/workers/ack', result === undefined ? {} : { result })
    if (typeof settled === 'string') return this.#ended(settled)
    // E.g. too large. Done again it would be refused again, so it is not to be retried.
    const message = `The server refused the result of the job: ${jobErrorOf(settled.refusal).message}`
    return this.fail(jobError('handler_error', message, { type: 'ResultError', retryable: false }))
  }

  async fail(error: JobError): Promise<Settlement> {
    const settled = await this.#report('/workers/nack', { error })
    return this.#ended(typeof settled === 'string' ? settled : 'failed')
  }

  /** `requeue` counts no attempt; a server that does not know it retries the job. */
  async release(): Promise<void> {
    const error = jobError('shutdown', 'The worker gave the job back.', { type: 'ShutdownError' })
    await this.#report('/workers/nack', { error, requeue: true })
    this.#deps.onSettled(this)
  }

  #ended(settlement: Settlement): Settlement {
    this.#deps.onSettled(this)
    return settlement
  }

  /** Repeated while the lease lasts: a finished job is worth more than a quick answer. */
  async #report(path: string, said: object): Promise<Settlement | Refused> {
    const { courier, workerId } = this.#deps
    const body = { job_id: this.job.id, worker_id: workerId, attempt: this.attempt, ...said }
    const traced = withActiveTrace({})
    for (let failures = 0; ; failures += 1) {
      try {
        // Its lease runs on, and a worker that ends waits for it: not behind what a client sends.
        const sent = { method: 'POST', path, body, timeout: REPORT_TIMEOUT_MS, isUrgent: true }
        await courier.send({ ...sent, ...traced })
        return 'settled'
      } catch (error) {
        const verdict = verdictOn(error)
        if (verdict === 'stale') return failures > 0 && isOwnEcho(error, path) ? 'settled' : 'stale'
        if (verdict === 'refused' || !(await this.#mayRepeat(error, failures))) {
          this.#deps.onError(error)
          return verdict === 'refused' ? { refusal: error } : 'failed'
        }
      }
    }
  }

  /** After a pause; false: the lease is over by then, or the worker. */
  async #mayRepeat(error: unknown, failures: number): Promise<boolean> {
    const { courier } = this.#deps
    const at = performance.now() + backoffMs(error, failures, FIRST_RETRY_MS, MAX_RETRY_MS)
    // Heartbeats may extend the lease meanwhile, beyond a `Retry-After` that is longer than it.
    for (let now = performance.now(); now < at; now = performance.now()) {
      if (courier.hasEnded || this.isPast) return false
      await courier.sleep(Math.min(at, this.#endsAt) - now)
    }
    return !courier.hasEnded && !this.isPast
  }
}

/**
 * What a refused report means. `stale`: the server waits for it no more (409; 404: not even the
 * job is there). `refused`: what it says is not acceptable. Everything else may pass: the server
 * is away, its credentials are being renewed.
 */
function verdictOn(error: unknown): 'stale' | 'refused' | 'again' {
  // Of a proxy that takes less than the server: the same body is too large for it every time.
  if (error instanceof OJSTransportError && error.status === 413) return 'refused'
  if (!(error instanceof OJSError)) return 'again'
  if (error.status === 409 || error.status === 404) return 'stale'
  return [400, 413, 422].includes(error.status ?? 0) && !error.retryable ? 'refused' : 'again'
}

/** An earlier try got through, and only its answer was lost. */
function isOwnEcho(error: unknown, path: string): boolean {
  const state = error instanceof OJSError ? error.details?.['current_state'] : undefined
  if (path === '/workers/ack') return state === 'completed'
  return state === 'retryable' || state === 'discarded' || state === 'available'
}

function ownLeaseMs(job: Job): number | undefined {
  const own = job.visibility_timeout_ms
  return typeof own === 'number' && own > 0 ? own : undefined
}
