/** At most `limit` requests of one caller in a window. */
export interface RateLimit {
  readonly limit: number
  readonly windowMs: number
}

const PATTERN = /^(\d{1,9})\/(\d{1,5})(s|m|h)$/
const UNIT_MS = { s: 1_000, m: 60_000, h: 3_600_000 }
const MAX_WINDOW_MS = 86_400_000

/** `1000/60s` (units s, m, h; at most a day); empty = no limit. Adds a line for a mistake. */
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

/** Where a caller stands. */
export interface Standing {
  readonly remaining: number
  /** When the window ends, in the milliseconds that `now` was given in. */
  readonly resetAt: number
  readonly isOver: boolean
}

interface Window {
  count: number
  endsAt: number
}

/** About 10 MB. Whoever comes when all of them are taken shares one window with the others. */
const MAX_CALLERS = 50_000
const OTHERS = '*'

/**
 * Fixed windows, as seed 001 §18.1 describes them; each starts with its caller's first request.
 * Not a package: `rate-limiter-flexible` and `express-rate-limit` count with a promise per request
 * (and the first with a timer per caller), bound the callers by time only, and what Node's parser
 * refuses never reaches a middleware, but must carry the headers too.
 */
export class RequestLimiter {
  readonly #rate: RateLimit
  readonly #maxCallers: number
  /** In the order in which they end: all are equally long. */
  readonly #windows = new Map<string, Window>()

  constructor(rate: RateLimit, maxCallers = MAX_CALLERS) {
    this.#rate = rate
    this.#maxCallers = maxCallers
  }

  /** Counts a request. What is over the limit is not counted any further. */
  take(caller: string, now: number): Standing {
    const window = this.#current(caller, now) ?? this.#open(caller, now)
    const isOver = window.count >= this.#rate.limit
    if (!isOver) window.count += 1
    return this.#standing(window, isOver)
  }

  /** Without counting one. */
  look(caller: string, now: number): Standing {
    const unused = { count: 0, endsAt: now + this.#rate.windowMs }
    return this.#standing(this.#current(caller, now) ?? unused, false)
  }

  get size(): number {
    return this.#windows.size
  }

  #current(caller: string, now: number): Window | undefined {
    const window = this.#windows.get(caller)
    return window !== undefined && window.endsAt > now ? window : undefined
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
 * Whom an address stands for: an IPv6 host has a whole /64 to call from, and an IPv4 one may come
 * as an IPv6 address.
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
