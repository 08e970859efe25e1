/** A sliding window that counts starts of jobs with a `rate_limit`, and releases those that wait. */
import type { Clock } from '../../clock.ts'
import { InsertionOrderedMap } from '../../insertion-ordered-map.ts'
import { goesBefore, type Turn } from '../../job/delivery-order.ts'
import type { JobRateLimit } from '../../job/rate-limit.ts'

/** Beyond this the least recently used key is forgotten: its jobs run once as if they had no limit. */
const MAX_KEYS = 10_000

interface Candidate extends Turn {
  readonly id: string
}

interface Waiting extends Turn {
  readonly limit: JobRateLimit
}

/** How the starts of a key stand. */
export interface StartsStanding {
  /** Of the job that asked last. */
  limit: JobRateLimit
  /** Starts within that limit's window. */
  count: number
  /** When the first of them leaves it; null: there are none. */
  resetsAt: number | null
  /** Parked jobs that wait. */
  waiting: number
}

interface Starts {
  readonly key: string
  latest: JobRateLimit
  /** The longest window of all limits seen with this key: jobs may name different ones. */
  windowMs: number
  /** The most starts that any of these limits allows. */
  most: number
  /** Start times, oldest first; may include times that no limit looks back to any more. */
  times: number[]
  /** Parked jobs that wait until they may start, by id. */
  readonly waiting: Map<string, Waiting>
  timer: NodeJS.Timeout | undefined
  /** When `timer` fires. */
  wakeAt: number
}

/**
 * Counts what FETCH starts of jobs with a `rate_limit`, by key, in an exact sliding window. Keeps at most
 * twice as many start times as a limit allows. In memory: a restart of the gateway begins at zero.
 */
export class StartLimits {
  readonly #clock: Clock
  readonly #release: (jobId: string) => boolean
  /** Ordered by last use. */
  readonly #byKey = new InsertionOrderedMap<string, Starts>()

  /**
   * `release` unparks a job that may start now. It returns false when no delivery of the job is parked
   * any more.
   */
  constructor(clock: Clock, release: (jobId: string) => boolean) {
    this.#clock = clock
    this.#release = release
  }

  /** Returns true and counts a start; or false: the job may not start now and is released later. */
  start(limit: JobRateLimit, { id, priority, order }: Candidate): boolean {
    const starts = this.#of(limit)
    const now = this.#clock.now()
    forgetOlder(starts, now)
    const dueAt = dueAtOf(starts, limit, 0)
    if (dueAt > now) {
      starts.waiting.set(id, { limit, priority, order })
      this.#wake(starts, dueAt, now)
      return false
    }
    starts.waiting.delete(id)
    starts.times.push(now)
    this.#wake(starts, now + starts.windowMs, now)
    return true
  }

  /** The job's message is in RabbitMQ again: it waits no longer here. Returns when it may start. */
  forget(limit: JobRateLimit, jobId: string): number {
    const starts = this.#byKey.get(limit.key)
    if (!starts) return this.#clock.now()
    starts.waiting.delete(jobId)
    return dueAtOf(starts, limit, 0)
  }

  /** Undoes the last counted start, which did not happen, and releases the next waiting job. */
  takeBack({ key }: JobRateLimit): void {
    const starts = this.#byKey.get(key)
    if (!starts) return
    starts.times.pop()
    this.#releaseDue(starts, this.#clock.now())
  }

  /** The keys of starts within the last window, and of parked jobs, in no order. */
  keys(): string[] {
    return [...this.#byKey.keys()]
  }

  /** Null: nothing is known of the key. */
  standing(key: string): StartsStanding | null {
    const starts = this.#byKey.get(key)
    if (!starts) return null
    const { latest: limit, times, waiting } = starts
    const now = this.#clock.now()
    const counted = times.filter((at) => at + limit.windowMs > now)
    const [first] = counted
    const resetsAt = first === undefined ? null : first + limit.windowMs
    return { limit, count: counted.length, resetsAt, waiting: waiting.size }
  }

  get size(): number {
    return this.#byKey.size
  }

  #of(latest: JobRateLimit): Starts {
    const { key, starts: most, windowMs } = latest
    const known = this.#byKey.get(key)
    if (known) {
      known.latest = latest
      known.most = Math.max(known.most, most)
      known.windowMs = Math.max(known.windowMs, windowMs)
      this.#byKey.set(key, known)
      return known
    }
    if (this.#byKey.size >= MAX_KEYS) this.#forgetLeastRecent()
    const starts: Starts = { key, latest, windowMs, most, times: [], waiting: new Map(), ...ASLEEP }
    this.#byKey.set(key, starts)
    return starts
  }

  #forgetLeastRecent(): void {
    const first = this.#byKey.dropOldest()
    if (!first) return
    clearTimeout(first.timer)
    for (const id of first.waiting.keys()) this.#release(id)
  }

  #wake(starts: Starts, at: number, now: number): void {
    const wakeAt = Math.ceil(at)
    if (starts.wakeAt <= wakeAt) return
    clearTimeout(starts.timer)
    starts.wakeAt = wakeAt
    starts.timer = setTimeout(() => this.#onTime(starts), Math.max(1, wakeAt - now))
    starts.timer.unref()
  }

  #onTime(starts: Starts): void {
    Object.assign(starts, ASLEEP)
    const now = this.#clock.now()
    forgetOlder(starts, now)
    const { waiting, times, windowMs } = starts
    if (waiting.size + times.length === 0) {
      this.#byKey.delete(starts.key)
      return
    }
    this.#releaseDue(starts, now)
    // With no job waiting: when the last start time leaves the window, so that the key can be deleted.
    let next = (times.at(-1) ?? now) + windowMs
    for (const { limit } of waiting.values()) next = Math.min(next, nextDueOf(starts, limit, now))
    this.#wake(starts, next, now)
  }

  /**
   * Releases waiting jobs as far as their limits allow, highest priority first, even before jobs that
   * have waited longer. A job that is no longer parked uses up no start.
   */
  #releaseDue(starts: Starts, now: number): void {
    const { waiting } = starts
    const inTurn = [...waiting].sort(([, a], [, b]) => (goesBefore(a, b) ? -1 : 1))
    let released = 0
    for (const [id, { limit }] of inTurn) {
      if (dueAtOf(starts, limit, released) > now) continue
      waiting.delete(id)
      if (this.#release(id)) released += 1
    }
  }
}

const ASLEEP = { timer: undefined, wakeAt: Number.POSITIVE_INFINITY } as const

function forgetOlder({ times, windowMs, most }: Starts, now: number): void {
  const first = times.findIndex((at) => at + windowMs > now)
  if (first !== 0) times.splice(0, first === -1 ? times.length : first)
  if (times.length >= 2 * most) times.splice(0, times.length - most)
}

/** When one more job may start under `limit`, if `planned` other jobs start now; -Infinity: at once. */
function dueAtOf({ times }: Starts, limit: JobRateLimit, planned: number): number {
  if (planned >= limit.starts) return Number.POSITIVE_INFINITY
  const at = times[times.length + planned - limit.starts]
  return at === undefined ? Number.NEGATIVE_INFINITY : at + limit.windowMs
}

/**
 * When to check a waiting job again; always later than `now`. Counts only starts that happened, because a
 * job that was just released may not be started after all, or be gone.
 */
function nextDueOf({ times }: Starts, limit: JobRateLimit, now: number): number {
  // Does not copy `times`: this runs for each waiting job, up to 2,048 of a queue.
  let i = Math.max(0, times.length - limit.starts)
  while ((times[i] ?? now) + limit.windowMs <= now) i += 1
  return (times[i] ?? now) + limit.windowMs
}
