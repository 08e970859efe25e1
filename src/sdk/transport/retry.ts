/** When to repeat a request, and how long to wait before. */
import { given, isRecord, requireKnown } from '../async/options.ts'
import { familyOf } from './error-codes.ts'
import { OJSError, OJSTransportError } from './errors.ts'

export interface RetryOptions {
  /** Tries in all, including the first one. Default 5. */
  maxAttempts?: number | undefined
  /**
   * Milliseconds before the second try. Doubles with each try; jitter takes off up to a half. Default 100.
   */
  initialDelay?: number | undefined
  /** Longest delay in milliseconds; default 5,000. */
  maxDelay?: number | undefined
  /** Milliseconds; a longer `Retry-After` of the server means no further try. Default 30,000. */
  maxRetryAfter?: number | undefined
}

export type RetryPolicy = Readonly<Record<keyof RetryOptions, number>>

const DEFAULTS: RetryPolicy = {
  maxAttempts: 5,
  initialDelay: 100,
  maxDelay: 5_000,
  maxRetryAfter: 30_000,
}

/** The policy with defaults; `false`: one try only. Throws `TypeError` for invalid options. */
export function retryPolicy(options: RetryOptions | false | undefined): RetryPolicy {
  if (options === false) return { ...DEFAULTS, maxAttempts: 1 }
  if (options !== undefined && !isRecord(options)) {
    throw new TypeError('retry must be an object such as { maxAttempts: 5 }, or false.')
  }
  requireKnown(options ?? {}, DEFAULTS, "'retry'")
  const policy = { ...DEFAULTS, ...given(options ?? {}) }
  for (const [name, value] of Object.entries(policy)) {
    const isLimit = name !== 'initialDelay'
    const isUsable = isLimit ? value >= 0 : Number.isFinite(value) && value >= 0
    if (typeof value === 'number' && isUsable) continue
    const or = isLimit ? ', or Infinity for no limit' : ''
    throw new TypeError(`retry.${name} must be a number of at least 0${or}.`)
  }
  return policy
}

/**
 * Milliseconds before another try; `undefined`: no further try. A request that was refused for its rate may
 * always be repeated. After a failure that may have come too late, when the request had already taken effect,
 * only idempotent requests may be (OJS errors).
 */
export function delayBeforeRetry(
  policy: RetryPolicy,
  error: unknown,
  { attempt, isIdempotent }: { attempt: number; isIdempotent: boolean },
): number | undefined {
  if (attempt >= policy.maxAttempts) return undefined
  if (!isRefusedForRate(error) && !(isIdempotent && isTemporary(error))) return undefined
  const askedMs = retryAfterMs(error)
  if (askedMs > policy.maxRetryAfter) return undefined
  const backoff = Math.min(policy.maxDelay, policy.initialDelay * 2 ** Math.min(attempt - 1, 30))
  // Never earlier than the server asked; with jitter, because other clients were told the same.
  return Math.max(askedMs, backoff / 2) + (Math.random() * backoff) / 2
}

function isRefusedForRate(error: unknown): boolean {
  if (error instanceof OJSError) {
    return error.retryable && familyOf(error.code) === 'rate_limited'
  }
  return error instanceof OJSTransportError && error.status === 429
}

/** Whether the error may pass within seconds. A paused queue does not count: it is resumed much later. */
function isTemporary(error: unknown): boolean {
  if (error instanceof OJSError) return error.retryable && familyOf(error.code) === 'backend'
  if (!(error instanceof OJSTransportError)) return false
  if (error.kind === 'protocol') return [502, 503, 504].includes(error.status ?? 0)
  return error.kind === 'network' || error.kind === 'timeout'
}

/** How long the server asks the client to wait, in milliseconds; 0 if it does not. */
function retryAfterMs(error: unknown): number {
  if (error instanceof OJSError || error instanceof OJSTransportError) {
    return (error.retryAfter ?? 0) * 1_000
  }
  return 0
}

/** The longest `Retry-After` that a worker obeys: a proxy's huge value must not stop it for good. */
const MAX_OBEYED_MS = 60_000

/**
 * Milliseconds before a worker's next try: `base`, doubled with each failure up to `max`, and shortened at
 * random by up to a half. Not less than the server asked for, up to a minute.
 */
export function backoffMs(error: unknown, failures: number, base: number, max: number): number {
  const backoff = Math.min(max, base * 2 ** Math.min(failures, 30))
  const askedMs = Math.min(retryAfterMs(error), MAX_OBEYED_MS)
  return Math.max(askedMs, backoff * (0.5 + Math.random() / 2))
}
