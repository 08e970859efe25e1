import { ByAge } from '../../by-age.ts'
import type { Clock } from '../../clock.ts'
import type { JobRateLimit } from '../../job/rate-limit.ts'
import { goesBefore, type Turn } from '../../job/turn.ts'

/** The least recently used is forgotten: its jobs run as if they had no limit for once. */
const MAX_KEYS = 10_000

interface Candidate extends Turn {
  readonly id: string
}

interface Waiting extends Turn {
  readonly limit: JobRateLimit
}

interface Starts {
  readonly key: string
  /** Of all limits that its jobs have had: they need not have the same. */
  windowMs: number
  most: number
  /** When, oldest first; those that no limit asks for may still be there. */
  times: number[]
  /** Jobs that wait for their turn, by id. */
  readonly waiting: Map<string, Waiting>
  timer: NodeJS.Timeout | undefined
  /** When it goes off. */
  wakeAt: number
}

/**
 * What FETCH has started of jobs with a limit, by key, in a sliding window: exact, and never more than
 * twice as many times in memory as a limit allows. In this process only; a restart begins anew.
 */
export class StartLimits {
  readonly #clock: Clock
  readonly #release: (jobId: string) => boolean
  /** By the last use of each. */
  readonly #byKey = new ByAge<string, Starts>()

  /** `release` gets jobs whose turn may have come. False: nothing waits for it here any more. */
  constructor(clock: Clock, release: (jobId: string) => boolean) {
    this.#clock = clock
    this.#release = release
  }

  /** False: not now; it is released when it is its turn. True counts as a start. */
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

  /** It was counted and has not been started: its turn is that of the next one. */
  takeBack({ key }: JobRateLimit): void {
    const starts = this.#byKey.get(key)
    if (!starts) return
    starts.times.pop()
    this.#releaseDue(starts, this.#clock.now())
  }

  get size(): number {
    return this.#byKey.size
  }

  #of({ key, starts: most, windowMs }: JobRateLimit): Starts {
    const known = this.#byKey.get(key)
    if (known) {
      known.most = Math.max(known.most, most)
      known.windowMs = Math.max(known.windowMs, windowMs)
      this.#byKey.set(key, known)
      return known
    }
    if (this.#byKey.size >= MAX_KEYS) this.#forgetLeastRecent()
    const starts: Starts = { key, windowMs, most, times: [], waiting: new Map(), ...ASLEEP }
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
    // With nobody waiting, when there is nothing left to remember.
    let next = (times.at(-1) ?? now) + windowMs
    for (const { limit } of waiting.values()) next = Math.min(next, nextDueOf(starts, limit, now))
    this.#wake(starts, next, now)
  }

  /** A job of a higher priority overtakes all that have waited longer. Who is gone takes no place. */
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

/** When it may start; `planned`: so many others do now. */
function dueAtOf({ times }: Starts, limit: JobRateLimit, planned: number): number {
  if (planned >= limit.starts) return Number.POSITIVE_INFINITY
  const at = times[times.length + planned - limit.starts]
  return at === undefined ? Number.NEGATIVE_INFINITY : at + limit.windowMs
}

/** The same where what was released is not started, or is gone: later than now in any case. */
function nextDueOf({ times }: Starts, limit: JobRateLimit, now: number): number {
  // No copy of them: it is asked for each job that waits, 2,048 of a queue.
  let i = Math.max(0, times.length - limit.starts)
  while ((times[i] ?? now) + limit.windowMs <= now) i += 1
  return (times[i] ?? now) + limit.windowMs
}
