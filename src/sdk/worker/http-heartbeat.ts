/** Heartbeats over HTTP: extends leases, and carries out what the answers say. */
import { Deferred } from '../async/deferred.ts'
import { Pause } from '../async/sleep.ts'
import type { AbortableRequests } from './abortable-requests.ts'
import type { HttpLease } from './http-lease.ts'
import { processId } from './signals.ts'
import type { SourceOptions, SourceSink } from './source.ts'

/** Job ids in one heartbeat; servers refuse more than a thousand. */
const MAX_IDS = 1_000
const MIN_INTERVAL_MS = 50
const MIN_TIMEOUT_MS = 1_000
/** An idle worker has no lease to extend: it only says that it is alive, as its polls do. */
const IDLE_INTERVALS = 3
/** Interval until the first answer for jobs of unknown lease length: the answer may hint at short leases. */
const UNTOLD_INTERVAL_MS = 1_000

export interface HeartbeatDeps {
  readonly courier: AbortableRequests
  readonly sink: SourceSink
  readonly worker: SourceOptions
  readonly intervalMs: number
  readonly visibilityTimeout: number | undefined
  /** The jobs in hand by their ids. */
  readonly leases: ReadonlyMap<string, HttpLease>
  /** Called for a job that was cancelled or lost: later heartbeats must not name it. */
  forget(lease: HttpLease): void
}

/**
 * Tells the server, independently of polls and handlers, that the worker is alive and which jobs it runs
 * (seed 001 §10.4). Carries out what the answer says: directives, cancelled jobs, lost jobs.
 */
export class Heartbeat {
  readonly #deps: HeartbeatDeps
  readonly #pause = new Pause()
  readonly #onTold = new Pause()
  readonly #first = new Deferred<unknown>()
  #isDue = false
  /** The state in the newest heartbeat, whether or not it reached the server. */
  #newestState: string | undefined
  #hasTold = true
  #isFailing = false
  /**
   * True once an answer named extended jobs. Some servers always answer `jobs_extended: []`; only from others
   * does a missing id mean that the job is lost.
   */
  #tellsExtended = false
  /** When the pause between two heartbeats ends, in terms of `performance.now()`. */
  #dueAt = 0
  /** How often the server wants a heartbeat for a job whose lease length nobody has named. */
  #hintMs = UNTOLD_INTERVAL_MS

  constructor(deps: HeartbeatDeps) {
    this.#deps = deps
  }

  /** Resolves after the first heartbeat, with its error or `undefined`. */
  get first(): Promise<unknown> {
    return this.#first.promise
  }

  /** Resolves when the courier has ended. Never rejects. */
  async run(): Promise<void> {
    const { courier } = this.#deps
    while (!courier.hasEnded) {
      this.#isDue = false
      this.#newestState = this.#deps.sink.state()
      const beganAt = performance.now()
      await this.#beat()
      if (!this.#isDue) {
        this.#hasTold = true
        this.#onTold.wake()
      }
      await this.#untilDue(beganAt)
    }
  }

  /** Sends a heartbeat at once if the worker's state has changed. */
  beatNow(): void {
    if (this.#deps.sink.state() === this.#newestState) return
    this.#hasTold = false
    this.beatSoon()
  }

  /** Sends a heartbeat as soon as the one that is under way has been answered. */
  beatSoon(): void {
    this.#isDue = true
    this.#pause.wake()
  }

  /** Resolves when the heartbeat of `beatNow` has been answered or has failed, after `ms` at most. */
  async told(ms: number): Promise<void> {
    if (!this.#hasTold) await this.#deps.courier.sleep(ms, this.#onTold)
  }

  /** Called for a new job: the next heartbeat may be due earlier. */
  leased(lease: HttpLease): void {
    if (lease.leasedAt + this.#intervalFor(lease) < this.#dueAt) this.#pause.wake()
  }

  async #untilDue(beganAt: number): Promise<void> {
    const { courier } = this.#deps
    for (;;) {
      this.#dueAt = this.#nextDue(beganAt)
      const left = this.#dueAt - performance.now()
      if (this.#isDue || courier.hasEnded || left <= 0) return
      await courier.sleep(left, this.#pause)
    }
  }

  #nextDue(beganAt: number): number {
    let due = beganAt + this.#deps.intervalMs * IDLE_INTERVALS
    for (const lease of this.#deps.leases.values()) {
      // What was leased after the last heartbeat needs the next one only when its own interval is over.
      due = Math.min(due, Math.max(beganAt, lease.leasedAt) + this.#intervalFor(lease))
    }
    return due
  }

  #shortestInterval(): number {
    let interval = this.#deps.intervalMs
    for (const lease of this.#deps.leases.values()) {
      interval = Math.min(interval, this.#intervalFor(lease))
    }
    return interval
  }

  /** Three heartbeats per lease, so that two may be lost. */
  #intervalFor({ lengthMs, isLengthAssumed }: HttpLease): number {
    const interval = isLengthAssumed ? Math.min(lengthMs / 3, this.#hintMs) : lengthMs / 3
    return Math.max(MIN_INTERVAL_MS, Math.min(interval, this.#deps.intervalMs))
  }

  async #beat(): Promise<void> {
    const leases = [...this.#deps.leases.values()]
    try {
      for (let from = 0; from === 0 || from < leases.length; from += MAX_IDS) {
        await this.#beatFor(leases.slice(from, from + MAX_IDS), leases.length)
      }
      this.#isFailing = false
      this.#first.resolve(undefined)
    } catch (error) {
      this.#first.resolve(error)
      if (this.#deps.courier.hasEnded) return
      // Reported once per outage; the polls report the same.
      if (!this.#isFailing) this.#deps.sink.onError(error)
      this.#isFailing = true
      // The server could not tell, but once the lease has run out another worker may have the job.
      for (const lease of leases) if (this.#isHeld(lease) && lease.isPast) this.#drop(lease, 'lost')
    }
  }

  async #beatFor(leases: readonly HttpLease[], activeJobs: number): Promise<void> {
    const { courier, sink, worker, visibilityTimeout } = this.#deps
    const sentAt = performance.now()
    const pid = processId()
    const { body } = await courier.send({
      method: 'POST',
      path: '/workers/heartbeat',
      timeout: Math.max(MIN_TIMEOUT_MS, this.#shortestInterval()),
      isUrgent: true,
      body: {
        worker_id: worker.workerId,
        state: sink.state(),
        active_jobs: activeJobs,
        active_job_ids: leases.map(({ job }) => job.id),
        queues: worker.queues,
        concurrency: worker.concurrency,
        ...(pid !== undefined && { pid }),
        ...(visibilityTimeout !== undefined && { visibility_timeout_ms: visibilityTimeout }),
      },
    })
    this.#obey(body, leases, sentAt)
  }

  #obey(answer: Record<string, unknown>, leases: readonly HttpLease[], sentAt: number): void {
    const { sink } = this.#deps
    const directive = answer['state'] ?? answer['directive']
    if (isDirective(directive)) sink.directive(directive)
    const cancelled = idsIn(answer['cancelled_jobs'])
    const extended = idsIn(answer['jobs_extended'])
    if (extended.size > 0) this.#tellsExtended = true
    this.#hintMs = hintIn(answer['heartbeat_interval_ms'])
    // Seed 001 §10.4: with `terminate` the server extends no lease, so a missing id does not mean that the
    // job is lost.
    const extendsAny = directive !== 'terminate'
    for (const lease of leases) {
      if (!this.#isHeld(lease)) continue
      if (extended.has(lease.job.id)) lease.extend(sentAt)
      else if (cancelled.has(lease.job.id)) this.#drop(lease, 'cancelled')
      else if (extendsAny && this.#tellsExtended) this.#drop(lease, 'lost')
      else if (extendsAny) lease.extend(sentAt)
    }
  }

  /** False: the job was settled meanwhile, and the same job may have been delivered again. */
  #isHeld(lease: HttpLease): boolean {
    return this.#deps.leases.get(lease.job.id) === lease
  }

  #drop(lease: HttpLease, reason: 'cancelled' | 'lost'): void {
    this.#deps.forget(lease)
    this.#deps.sink.abort(lease.job.id, reason)
  }
}

export function isDirective(value: unknown): value is 'quiet' | 'terminate' {
  return value === 'quiet' || value === 'terminate'
}

/** The server's interval in ms; `Infinity` if it gives none or an invalid one. */
function hintIn(hint: unknown): number {
  return typeof hint === 'number' && hint > 0 ? hint : Number.POSITIVE_INFINITY
}

function idsIn(list: unknown): Set<unknown> {
  return new Set(Array.isArray(list) ? list : [])
}
