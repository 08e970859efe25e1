/** The gate before the pipeline: finds the caller's key and counts the request against its limit. */
import type { IncomingMessage } from 'node:http'
import { OjsError } from '../../errors.ts'
import { ADMITTED, type Admission, type Caller } from '../message/admission.ts'
import { type ApiKey, identify } from './api-keys.ts'
import { LeaseAllowance } from './lease-allowance.ts'
import {
  callerOfAddress,
  type RateLimit,
  RequestLimiter,
  type Standing,
} from './request-limiter.ts'
import type { Sessions } from './sessions.ts'

type Mutable<T> = { -readonly [K in keyof T]: T[K] }
type Counted = Mutable<Pick<Admission, 'headers' | 'refusal' | 'toll'>>

/** `of a lease`: counted, unless its operation finds a running lease. */
type Cost = 'counted' | 'free' | 'of a lease'

/** A request that was counted, or that is over the limit. */
interface Count {
  rate: RateLimit
  limiter: RequestLimiter
  caller: string
  standing: Standing
}

export interface RequestAdmissionOptions {
  keys: readonly ApiKey[]
  rateLimit: RateLimit | undefined
  /** Absent: cookies mean nothing. */
  sessions?: Sessions | undefined
  /** Milliseconds since 1970 that never go back. */
  now(): number
}

/** What probes ask, by seed 001 §8, by OJS's suite, and by the names of Kubernetes. */
export const PROBES = {
  health: ['/ojs/v1/health', '/health'],
  liveness: ['/livez', '/healthz'],
  readiness: ['/readyz', '/ready'],
} as const

/** Never counted and never refused: a failing probe would take a working gateway out of service. */
const FREE: ReadonlySet<string> = new Set(Object.values(PROBES).flat())

/** ACK, NACK, heartbeats and what counts as one: if such a request were refused, its jobs would run twice. */
const OF_LEASES =
  /^\/ojs\/v1\/(workers\/(ack|nack|settle|heartbeat|beat|progress)|jobs\/[^/]+\/(ack|nack|progress|checkpoint))$/

/**
 * Identifies the caller of each request and applies the rate limit. Runs before the pipeline, so that
 * requests which are refused outside of it (`parser-errors.ts`) get the same headers (seed 001 §18.1).
 */
export class RequestAdmission {
  readonly #options: RequestAdmissionOptions
  /** Unbounded, since keys are few; and separate, so that strangers cannot use up the places of keys. */
  readonly #ofKeys: RequestLimiter | undefined
  readonly #ofAddresses: RequestLimiter | undefined
  readonly #ofLeases = new LeaseAllowance()

  constructor(options: RequestAdmissionOptions) {
    this.#options = options
    const { rateLimit } = options
    this.#ofKeys = rateLimit && new RequestLimiter(rateLimit, Number.POSITIVE_INFINITY)
    this.#ofAddresses = rateLimit && new RequestLimiter(rateLimit)
  }

  admit(request: IncomingMessage): Admission {
    const { keys, rateLimit } = this.#options
    const identity = keys.length === 0 ? 'missing' : this.#identify(request)
    const who =
      typeof identity === 'object' ? { key: identity } : { isUnknownKey: identity === 'unknown' }
    if (rateLimit === undefined) return { ...who, headers: ADMITTED.headers }
    const isServed = keys.length === 0 || who.key !== undefined
    const address = request.socket.remoteAddress
    return Object.assign(this.#count(rateLimit, who.key, address, costOf(request, isServed)), who)
  }

  /** A key counts more than a session. */
  #identify(request: IncomingMessage): Caller | 'missing' | 'unknown' {
    const { keys, sessions } = this.#options
    const { authorization, cookie } = request.headers
    if (authorization !== undefined || cookie === undefined) return identify(keys, authorization)
    return sessions?.of(request)?.key ?? 'missing'
  }

  /** Counts an unreadable request against its address, since its key is unknown. */
  admitUnread(address: string): Admission {
    const { rateLimit } = this.#options
    return rateLimit === undefined
      ? ADMITTED
      : this.#count(rateLimit, undefined, address, 'counted')
  }

  #count(
    rate: RateLimit,
    key: Caller | undefined,
    address: string | undefined,
    cost: Cost,
  ): Counted {
    const limiter = key === undefined ? this.#ofAddresses : this.#ofKeys
    if (limiter === undefined) return { ...ADMITTED }
    const caller = key === undefined ? callerOfAddress(address ?? '') : key.name
    const now = this.#options.now()
    const standing = cost === 'free' ? limiter.look(caller, now) : limiter.take(caller, now)
    const headers = rateLimitHeaders(rate, standing)
    if (cost === 'of a lease')
      return this.#withToll({ headers }, { rate, limiter, caller, standing })
    return standing.isOver ? { headers, refusal: tooMany(rate, standing, now) } : { headers }
  }

  /** A request that settles many jobs asks for each of them: it counts once, if any of them has to pay. */
  #withToll(counted: Counted, { rate, limiter, caller, standing }: Count): Counted {
    let isPaid = false
    let isGivenBack = false
    const show = (now: Standing) => {
      counted.headers = rateLimitHeaders(rate, now)
    }
    const recount = (again: Standing, now: number) => {
      show(again)
      if (again.isOver) throw tooMany(rate, again, now)
    }
    counted.toll = {
      isFree: (lease) => {
        const now = this.#options.now()
        if (!this.#ofLeases.take(lease, now)) return false
        if (!isPaid && !isGivenBack) show(limiter.giveBack(caller, standing, now))
        isGivenBack ||= !isPaid
        return true
      },
      charge: () => {
        const now = this.#options.now()
        if (standing.isOver) throw tooMany(rate, standing, now)
        if (isGivenBack) recount(limiter.take(caller, now), now)
        isGivenBack = false
        isPaid = true
      },
    }
    return counted
  }
}

/** `isServed`: false for a stranger, who could otherwise try key after key for nothing. */
function costOf({ method, url = '' }: IncomingMessage, isServed: boolean): Cost {
  const end = url.indexOf('?')
  const path = end < 0 ? url : url.slice(0, end)
  if (FREE.has(path)) return 'free'
  return isServed && (method === 'POST' || method === 'PUT') && OF_LEASES.test(path)
    ? 'of a lease'
    : 'counted'
}

/** Seed 001 §18.1. The reset is Unix time in whole seconds, rounded up so that it is never too early. */
function rateLimitHeaders({ limit }: RateLimit, { remaining, resetAt }: Standing): string[] {
  return [
    'X-RateLimit-Limit',
    String(limit),
    'X-RateLimit-Remaining',
    String(remaining),
    'X-RateLimit-Reset',
    String(Math.ceil(resetAt / 1_000)),
  ]
}

/** Seed 001 §18.2. */
function tooMany({ limit, windowMs }: RateLimit, { resetAt }: Standing, now: number): OjsError {
  const seconds = Math.ceil((resetAt - now) / 1_000)
  const message = `Rate limit exceeded. Try again in ${seconds} second${seconds === 1 ? '' : 's'}.`
  return new OjsError('rate_limited', message, {
    details: { limit, window_seconds: windowMs / 1_000, retry_after_seconds: seconds },
    retryAfterSeconds: seconds,
  })
}
