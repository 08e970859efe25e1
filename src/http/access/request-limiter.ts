/** The request limit: `OJS_RATE_LIMIT` parsed, and requests counted per caller in fixed windows. */

/** At most `limit` requests per caller and window. */
export interface RateLimit {
  readonly limit: number
  readonly windowMs: number
}

const PATTERN = /^(\d{1,9})\/(\d{1,5})(s|m|h)$/
const UNIT_MS = { s: 1_000, m: 60_000, h: 3_600_000 }
const MAX_WINDOW_MS = 86_400_000

/** Parses `1000/60s` (units s, m, h; at most a day); empty = no limit. Adds a line for a mistake. */
export function parseRateLimit(text: string, mistakes: string[]): RateLimit | undefined {
  if (text === '') return undefined
  const [, limit = '', count = '', unit] = PATTERN.exec(text) ?? []
  const windowMs = Number(count) * UNIT_MS[unit === 'm' || unit === 'h' ? unit : 's']
  if (Number(limit) >= 1 && windowMs >= 1 && windowMs <= MAX_WINDOW_MS) {
    return { limit: Number(limit), windowMs }
  }
  mistakes.push('OJS_RATE_LIMIT must be requests/window, e.g. 1000/60s (s, m or h, at most 24h)')
  return undefined
}

/** What a caller has left of its limit. */
export interface Standing {
  readonly remaining: number
  /** The end of the window, on the clock of `now`. */
  readonly resetAt: number
  readonly isOver: boolean
}

interface Window {
  count: number
  endsAt: number
}

/** About 10 MB. When all places are taken, further callers share one window. */
const MAX_CALLERS = 50_000
const OTHERS = '*'

/**
 * Counts requests in fixed windows, as seed 001 §18.1 describes; a window starts with its caller's first
 * request. Not a package: `rate-limiter-flexible` and `express-rate-limit` create a promise per request (the
 * former also a timer per caller) and bound the number of callers by time only. Besides, requests that Node's
 * parser refuses never reach a middleware, but their answers need the headers too.
 */
export class RequestLimiter {
  readonly #rate: RateLimit
  readonly #maxCallers: number
  /** Ordered by end, because all windows are equally long. */
  readonly #windows = new Map<string, Window>()

  constructor(rate: RateLimit, maxCallers = MAX_CALLERS) {
    this.#rate = rate
    this.#maxCallers = maxCallers
  }

  /** Counts a request. Requests over the limit are not counted. */
  take(caller: string, now: number): Standing {
    const window = this.#current(caller, now) ?? this.#open(caller, now)
    const isOver = window.count >= this.#rate.limit
    if (!isOver) window.count += 1
    return this.#standing(window, isOver)
  }

  /** Returns the caller's standing without counting a request. */
  look(caller: string, now: number): Standing {
    const unused = { count: 0, endsAt: now + this.#rate.windowMs }
    return this.#standing(this.#counting(caller, now) ?? unused, false)
  }

  /** Takes back the count of a request that got `standing` from `take`. Returns the new standing. */
  giveBack(caller: string, standing: Standing, now: number): Standing {
    const window = this.#counting(caller, now)
    // A request may end in a later window than it began in; that one has not counted it.
    if (window !== undefined && window.endsAt === standing.resetAt && !standing.isOver) {
      window.count -= 1
    }
    return this.look(caller, now)
  }

  get size(): number {
    return this.#windows.size
  }

  #current(caller: string, now: number): Window | undefined {
    const window = this.#windows.get(caller)
    return window !== undefined && window.endsAt > now ? window : undefined
  }

  /** The window that counts this caller's requests: its own, or the one that callers beyond the limit share. */
  #counting(caller: string, now: number): Window | undefined {
    const own = this.#current(caller, now)
    if (own !== undefined || this.#windows.size < this.#maxCallers) return own
    return this.#current(OTHERS, now)
  }

  #open(caller: string, now: number): Window {
    this.#dropEnded(now)
    const isFull = this.#windows.size >= this.#maxCallers
    const shared = isFull ? this.#windows.get(OTHERS) : undefined
    if (shared !== undefined) return shared
    const window = { count: 0, endsAt: now + this.#rate.windowMs }
    this.#windows.set(isFull ? OTHERS : caller, window)
    return window
  }

  #dropEnded(now: number): void {
    for (const [caller, window] of this.#windows) {
      if (window.endsAt > now) return
      this.#windows.delete(caller)
    }
  }

  #standing({ count, endsAt }: Window, isOver: boolean): Standing {
    return { remaining: this.#rate.limit - count, resetAt: endsAt, isOver }
  }
}

/**
 * The caller that an address belongs to. An IPv6 host can call from a whole /64, so its addresses count as
 * one caller; an IPv4 address may appear mapped to IPv6.
 */
export function callerOfAddress(address: string): string {
  if (!address.includes(':')) return address
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  const [head = '', tail] = address.split('::')
  const left = head === '' ? [] : head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => '0')
  return `${[...left, ...zeros, ...right].slice(0, 4).join(':')}::/64`
}
