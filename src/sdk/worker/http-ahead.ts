/** Jobs that were fetched before there is a slot for them: which, how many, and how long they may wait. */
import type { Job } from '../job.ts'
import type { HttpLease } from './http-lease.ts'

/** Jobs are fetched ahead for so long: more than a fetch takes, and too short for anyone to miss them. */
const AHEAD_MS = 50
/** Servers hand out no more jobs per request (OJS workers). */
const MAX_AHEAD = 100
/** How long a job may wait for a slot before it is given back: another worker may have one. */
const MAX_WAIT_MS = 1_000
/** A job waits for no more than this part of its own timeout or lease, which have begun. */
const MAX_PART = 0.1
/** The weight of the newest job in the average duration. */
const WEIGHT = 0.1
/**
 * How long nothing is fetched ahead after a job that may not wait: where one was, there are often more. Doubled
 * each time, and shorter by `LESS_REST_MS` for each job that begins and might have waited: a few among many do not
 * end it for the others, and a queue of nothing else is asked once a second.
 */
const MIN_REST_MS = 50
const MAX_REST_MS = 1_000
const LESS_REST_MS = 10
/** The codes of an attempt that nobody reported: its worker may have died of the job, and may again. */
const LOST: ReadonlySet<unknown> = new Set(['visibility_timeout', 'worker_death', 'unreported'])

export interface FetchedAheadDeps {
  readonly concurrency: number
  /** Free slots now. */
  capacity(): number
  deliver(lease: HttpLease): void
}

/**
 * The jobs of a worker that have not begun. A worker of quick jobs fetches as many as its slots will take in
 * the next 50 ms, so that they do not wait for the fetch. What gets no slot within a second, or before the
 * worker stops, is given back. So is at once what cannot bear to lose an attempt: if the process dies, the
 * server counts one for each of its jobs, and cannot know which of them have begun.
 */
export class FetchedAhead {
  readonly #deps: FetchedAheadDeps
  /** In the order of arrival, with the time at which each is given back, in terms of `performance.now()`. */
  readonly #unbegun = new Map<HttpLease, number>()
  #timer: ReturnType<typeof setTimeout> | undefined
  #timerEndsAt = Number.POSITIVE_INFINITY
  #averageMs = Number.POSITIVE_INFINITY
  /**
   * Halved when jobs got no slot in time, which the average of those that end may hide: most slots may be taken by
   * long ones. Is 1 after a job that may not wait. Grows by one with as many jobs that begin and might have waited.
   */
  #ceiling = MAX_AHEAD
  /** In terms of `performance.now()`. */
  #restsUntil = 0
  #restMs = MIN_REST_MS
  #isAllowed = false
  #hasEnded = false

  constructor(deps: FetchedAheadDeps) {
    this.#deps = deps
  }

  /** Called when the server is known to take jobs back without counting an attempt. */
  allow(): void {
    this.#isAllowed = true
  }

  /** How many jobs there should be without a slot, but are not. */
  get missing(): number {
    const most = performance.now() < this.#restsUntil ? 0 : this.#most
    const missing = most - this.#unbegun.size
    // Not for each job that begins: one request for many is the point.
    return !this.#hasEnded && missing * 2 >= most ? missing : 0
  }

  /** Takes a job that has arrived. It begins at once if there is a slot. */
  put(lease: HttpLease): void {
    const endsAt = performance.now() + mayWaitMs(lease)
    this.#unbegun.set(lease, endsAt)
    if (endsAt < this.#timerEndsAt) this.#clear()
    this.begin()
    if (this.#unbegun.has(lease) && !this.#mayWait(lease)) this.#giveBack(lease)
    this.#watch()
  }

  #mayWait({ job }: HttpLease): boolean {
    if (!canLoseAttempt(job)) {
      this.#rest()
      return false
    }
    // The server sent more than it was asked for, or the jobs have become slow meanwhile.
    const isSurplus = this.#most === 0 || this.#unbegun.size > MAX_AHEAD
    return !isSurplus && !this.#hasEnded
  }

  #rest(): void {
    const now = performance.now()
    // Once for all such jobs of an answer.
    if (now < this.#restsUntil) return
    this.#restsUntil = now + this.#restMs
    this.#restMs = Math.min(MAX_REST_MS, this.#restMs * 2)
    this.#ceiling = 1
  }

  /** How many jobs may be without a slot. */
  get #most(): number {
    if (!this.#isAllowed) return 0
    return Math.floor(
      Math.min(this.#ceiling, (this.#deps.concurrency * AHEAD_MS) / this.#averageMs),
    )
  }

  /** Begins jobs for which there are slots. */
  begin(): void {
    for (const lease of this.#unbegun.keys()) {
      if (this.#deps.capacity() === 0) break
      this.#unbegun.delete(lease)
      // While nothing ran in this process, for example, another worker may have got the job.
      if (lease.isPast) void lease.release()
      else this.#deliver(lease)
    }
    this.#watch()
  }

  /** Called when a job is settled, cancelled or lost. One that has not begun never does. */
  drop(lease: HttpLease): void {
    this.#unbegun.delete(lease)
    if (lease.begunAt !== undefined) this.#note(performance.now() - lease.begunAt)
  }

  /** Gives everything back that has not begun, and whatever comes from now on. */
  end(): void {
    this.#hasEnded = true
    for (const lease of this.#unbegun.keys()) this.#giveBack(lease)
    this.#watch()
  }

  #deliver(lease: HttpLease): void {
    if (canLoseAttempt(lease.job)) {
      this.#ceiling = Math.min(MAX_AHEAD, this.#ceiling + 1 / this.#ceiling)
      this.#restMs = Math.max(MIN_REST_MS, this.#restMs - LESS_REST_MS)
    }
    this.#deps.deliver(lease)
  }

  #giveBack(lease: HttpLease): void {
    this.#unbegun.delete(lease)
    void lease.release()
  }

  #note(durationMs: number): void {
    this.#averageMs = Number.isFinite(this.#averageMs)
      ? this.#averageMs + (durationMs - this.#averageMs) * WEIGHT
      : durationMs
  }

  #giveBackOld(): void {
    this.#timer = undefined
    const now = performance.now()
    const old = [...this.#unbegun].filter(([, endsAt]) => endsAt <= now)
    for (const [lease] of old) this.#giveBack(lease)
    if (old.length > 0) this.#ceiling = Math.max(1, this.#ceiling / 2)
    this.#watch()
  }

  /** Keeps a timer while jobs wait, until the first of them is to be given back. */
  #watch(): void {
    if (this.#unbegun.size === 0) this.#clear()
    else if (this.#timer === undefined) {
      this.#timerEndsAt = Math.min(...this.#unbegun.values())
      const left = this.#timerEndsAt - performance.now()
      this.#timer = setTimeout(() => this.#giveBackOld(), Math.max(1, left))
    }
  }

  #clear(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}

/**
 * False for the last attempt: it would be lost for a job that has not begun. False after a lost one: if a job
 * kills its worker, those that waited beside it come back together with it.
 */
function canLoseAttempt({ attempt, max_attempts: most, error }: Job): boolean {
  const isLast = typeof most === 'number' && attempt >= most
  return !isLast && !LOST.has(error?.['code'])
}

function mayWaitMs({ job: { timeout_ms: limit }, lengthMs }: HttpLease): number {
  const shortest = limit !== undefined && limit > 0 ? Math.min(limit, lengthMs) : lengthMs
  return Math.min(MAX_WAIT_MS, shortest * MAX_PART)
}
