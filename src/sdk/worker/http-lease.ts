/** A job that FETCH answered, reported by ACK or NACK until the server has it. */
import type { Job } from '../job.ts'
import { OJSError, OJSTransportError } from '../transport/errors.ts'
import { backoffMs } from '../transport/retry.ts'
import type { AbortableRequests } from './abortable-requests.ts'
import { type HttpReports, REPORT_TIMEOUT_MS, type Report } from './http-reports.ts'
import { jobError, jobErrorOf } from './job-error.ts'
import type { LeaseNotes, ProgressNote } from './notes.ts'
import type { JobError, Lease, Settlement } from './source.ts'
import { withActiveTrace } from './tracing.ts'

const FIRST_RETRY_MS = 100
const MAX_RETRY_MS = 5_000
/** The lease length if the server names none (seed 001 §10.1); its heartbeat answers may hint at less. */
const DEFAULT_LEASE_MS = 30_000

export interface HttpLeaseDeps {
  readonly courier: AbortableRequests
  readonly reports: HttpReports
  readonly workerId: string
  /** The lease length that each FETCH asks for; `undefined`: the job or the server decides. */
  readonly visibilityTimeout: number | undefined
  onSettled(lease: HttpLease): void
  onError(error: unknown): void
}

/** The server does not accept the content of the report. */
interface Refused {
  readonly refusal: unknown
}

/** A job that FETCH answered, and its ACK or FAIL (seed 001 §10.2, §10.3). */
export class HttpLease implements Lease, LeaseNotes {
  readonly job: Job
  readonly attempt: number
  /** Which life of the job: after the retry of a dead letter its attempts begin at 1 again. */
  readonly #generation: number
  /** How long the server reserves the job, as far as the worker knows. */
  readonly lengthMs: number
  /** True if neither this worker nor the job names the length: the server's own may be shorter. */
  readonly isLengthAssumed: boolean
  readonly #deps: HttpLeaseDeps
  /** In terms of `performance.now()`, as is `#endsAt`. Rather too early, so that the lease never seems too long. */
  readonly leasedAt: number
  #endsAt: number
  #begunAt: number | undefined
  #lastCheckpoint: unknown

  constructor(job: Job, leasedAt: number, deps: HttpLeaseDeps) {
    this.job = job
    this.leasedAt = leasedAt
    this.attempt = job.attempt
    this.#generation = generationOf(job)
    this.#deps = deps
    const named = deps.visibilityTimeout ?? ownLeaseMs(job)
    this.lengthMs = named ?? DEFAULT_LEASE_MS
    this.isLengthAssumed = named === undefined
    this.#endsAt = leasedAt + this.lengthMs
    this.#lastCheckpoint = job.checkpoint?.state
  }

  get notes(): LeaseNotes {
    return this
  }

  begin(): boolean {
    this.#begunAt = performance.now()
    return true
  }

  /** When the job began, in terms of `performance.now()`. */
  get begunAt(): number | undefined {
    return this.#begunAt
  }

  /** Whether the lease has run out, as far as the worker knows. */
  get isPast(): boolean {
    return performance.now() >= this.#endsAt
  }

  /** Called when a heartbeat that was sent at `sentAt` has reached the server. */
  extend(sentAt: number): void {
    this.#endsAt = sentAt + this.lengthMs
  }

  async complete(result: unknown): Promise<Settlement> {
    const outcome = await this.#report('ack', result === undefined ? {} : { result })
    if (typeof outcome === 'string') return this.#ended(outcome)
    // The result is too large, for example. Another run would have the same result, so there is no retry.
    const message = `The server refused the result of the job: ${jobErrorOf(outcome.refusal).message}`
    return this.fail(jobError('handler_error', message, { type: 'ResultError', retryable: false }))
  }

  async fail(error: JobError): Promise<Settlement> {
    const outcome = await this.#report('nack', { error })
    return this.#ended(typeof outcome === 'string' ? outcome : 'failed')
  }

  /** Gives the job back. `requeue` counts no attempt; a server that does not know it retries the job. */
  async release(): Promise<void> {
    const error = jobError('shutdown', 'The worker gave the job back.', { type: 'ShutdownError' })
    await this.#report('nack', { error, requeue: true })
    this.#deps.onSettled(this)
  }

  #ended(settlement: Settlement): Settlement {
    this.#deps.onSettled(this)
    return settlement
  }

  progress(note: ProgressNote): Promise<void> {
    return this.#note('progress', note)
  }

  async checkpoint(state: unknown): Promise<void> {
    await this.#note('checkpoint', { state })
    this.#lastCheckpoint = state
  }

  async lastCheckpoint(): Promise<unknown> {
    return this.#lastCheckpoint
  }

  /** Counts as a heartbeat. Urgent, for the same reason as a report. */
  async #note(kind: 'progress' | 'checkpoint', members: object): Promise<void> {
    const { courier, workerId } = this.#deps
    const lease = { worker_id: workerId, attempt: this.attempt, generation: this.#generation }
    const path = `/jobs/${encodeURIComponent(this.job.id)}/${kind}`
    const sent = { method: 'PUT', path, body: { ...lease, ...members }, isUrgent: true }
    await courier.send({ ...sent, timeout: REPORT_TIMEOUT_MS, idempotent: true })
  }

  /** Sends a report; repeats it while the lease lasts, because the outcome of a finished job is worth it. */
  async #report(action: Report['action'], members: object): Promise<Settlement | Refused> {
    const { reports, workerId } = this.#deps
    const lease = { job_id: this.job.id, worker_id: workerId, attempt: this.attempt }
    const body = { ...lease, generation: this.#generation, ...members }
    const report = { action, body, headers: withActiveTrace({}).headers }
    for (let failures = 0; ; failures += 1) {
      try {
        await reports.send(report)
        return 'settled'
      } catch (error) {
        const verdict = verdictOn(error)
        if (verdict === 'stale')
          return failures > 0 && hasEarlierTryArrived(error, action) ? 'settled' : 'stale'
        if (verdict === 'refused' || !(await this.#mayRepeat(error, failures))) {
          this.#deps.onError(error)
          return verdict === 'refused' ? { refusal: error } : 'failed'
        }
      }
    }
  }

  /** Pauses before the next try. False: by then the lease has run out, or the worker has ended. */
  async #mayRepeat(error: unknown, failures: number): Promise<boolean> {
    const { courier } = this.#deps
    const at = performance.now() + backoffMs(error, failures, FIRST_RETRY_MS, MAX_RETRY_MS)
    // Heartbeats may extend the lease meanwhile, beyond a `Retry-After` that was longer than the lease.
    for (let now = performance.now(); now < at; now = performance.now()) {
      if (courier.hasEnded || this.isPast) return false
      await courier.sleep(Math.min(at, this.#endsAt) - now)
    }
    return !courier.hasEnded && !this.isPast
  }
}

/**
 * What the error of a report means. `stale`: the server does not wait for this report any more (409; 404: it
 * does not even have the job). `refused`: it does not accept the content. `again`: the error may pass, e.g.
 * the server cannot be reached, or its credentials are being renewed.
 */
function verdictOn(error: unknown): 'stale' | 'refused' | 'again' {
  // From a proxy with a smaller size limit than the server's: the same body is too large every time.
  if (error instanceof OJSTransportError && error.status === 413) return 'refused'
  if (!(error instanceof OJSError)) return 'again'
  if (error.status === 409 || error.status === 404) return 'stale'
  return [400, 413, 422].includes(error.status ?? 0) && !error.retryable ? 'refused' : 'again'
}

/**
 * Whether an earlier try of the same report got through and only its answer was lost: the job is in the state
 * that the report led to.
 */
function hasEarlierTryArrived(error: unknown, action: Report['action']): boolean {
  const state = error instanceof OJSError ? error.details?.['current_state'] : undefined
  if (action === 'ack') return state === 'completed'
  return state === 'retryable' || state === 'discarded' || state === 'available'
}

/** The job names its generation only if it is not 0. Any other value is a member of the producer's own. */
function generationOf({ generation }: Job): number {
  return typeof generation === 'number' && Number.isInteger(generation) && generation > 0
    ? generation
    : 0
}

function ownLeaseMs(job: Job): number | undefined {
  const own = job.visibility_timeout_ms
  return typeof own === 'number' && own > 0 ? own : undefined
}
