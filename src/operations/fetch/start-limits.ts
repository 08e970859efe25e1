import type { Clock } from '../../clock.ts'
import type { JobRateLimit } from '../../job/rate-limit.ts'
import { goesBefore, type Turn } from '../../job/turn.ts'

/** The least recently used is forgotten: its jobs run as if they had no limit for once. */
const MAX_KEYS = 10_000

interface Candidate extends Turn {
  readonly id: string
}

interface Starts {
  limit: JobRateLimit
  /** When, oldest first; those that have left the window may still be there. */
  times: number[]
  /** Jobs that wait for their turn, by id. */
  readonly waiting: Map<string, Turn>
  timer: NodeJS.Timeout | undefined
  /** When it goes off. */
  wakeAt: number
}

/**
 * What FETCH has started of jobs with a limit, by key, in a sliding window: exact, and never more
 * times in memory than jobs were started within it. In this process only; a restart begins anew.
 */
export class StartLimits {
  readonly #clock: Clock
  readonly #release: (jobId: string) => boolean
  readonly #byKey = new Map<string, Starts>()

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
    if (starts.times.length >= limit.starts) {
      starts.waiting.set(id, { priority, order })
      this.#wake(starts, now)
      return false
    }
    starts.waiting.delete(id)
    starts.times.push(now)
    this.#wake(starts, now)
    return true
  }

  /** It was counted and has not been started: its turn is that of the next one. */
  takeBack({ key }: JobRateLimit): void {
    const starts = this.#byKey.get(key)
    if (!starts) return
    starts.times.pop()
    this.#releaseFirst(starts, 1)
  }

  get size(): number {
    return this.#byKey.size
  }

  #of(limit: JobRateLimit): Starts {
    const known = this.#byKey.get(limit.key)
    if (known) {
      known.limit = limit
      // Behind all others: the map's order is that of their last use.
      this.#byKey.delete(limit.key)
      this.#byKey.set(limit.key, known)
      return known
    }
    if (this.#byKey.size >= MAX_KEYS) this.#forgetLeastRecent()
    const starts: Starts = { limit, times: [], waiting: new Map(), ...ASLEEP }
    this.#byKey.set(limit.key, starts)
    return starts
  }

  #forgetLeastRecent(): void {
    const [first] = this.#byKey.values()
    if (!first) return
    clearTimeout(first.timer)
    this.#byKey.delete(first.limit.key)
    for (const id of first.waiting.keys()) this.#release(id)
  }

  /** When the next one may start; with nobody waiting, when there is nothing left to remember. */
  #wake(starts: Starts, now: number): void {
    const { times, waiting, limit } = starts
    const since = (waiting.size > 0 ? times[0] : times.at(-1)) ?? now
    const wakeAt = Math.ceil(since + limit.windowMs)
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
    const { waiting, times, limit } = starts
    if (waiting.size + times.length === 0) {
      this.#byKey.delete(limit.key)
      return
    }
    this.#releaseFirst(starts, limit.starts - times.length)
    this.#wake(starts, now)
  }

  /** A job of a higher priority overtakes all that have waited longer. Who is gone takes no place. */
  #releaseFirst({ waiting }: Starts, count: number): void {
    for (let free = count; free > 0; ) {
      const id = firstOf(waiting)
      if (id === undefined) return
      waiting.delete(id)
      if (this.#release(id)) free -= 1
    }
  }
}

const ASLEEP = { timer: undefined, wakeAt: Number.POSITIVE_INFINITY } as const

function forgetOlder({ times, limit }: Starts, now: number): void {
  const first = times.findIndex((at) => at + limit.windowMs > now)
  if (first !== 0) times.splice(0, first === -1 ? times.length : first)
}

function firstOf(waiting: ReadonlyMap<string, Turn>): string | undefined {
  let first: [string, Turn] | undefined
  for (const one of waiting) if (!first || goesBefore(one[1], first[1])) first = one
  return first?.[0]
}
