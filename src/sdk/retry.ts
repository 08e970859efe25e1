import { familyOf } from './error-codes.ts'
import { OJSError, OJSTransportError } from './errors.ts'
import { given } from './given.ts'
import { isRecord } from './json.ts'

export interface RetryOptions {
  /** Tries in all, the first one included. Default 5. */
  maxAttempts?: number | undefined
  /**
   * Milliseconds before the second try; doubles with each, and is shortened by up to a half at
   * random. Default 100.
   */
  initialDelay?: number | undefined
  /** Milliseconds; default 5,000. */
  maxDelay?: number | undefined
  /**
   * Milliseconds; a server that asks for a longer wait (`Retry-After`) gets no further try. Default
   * 30,000.
   */
  maxRetryAfter?: number | undefined
}

export type RetryPolicy = Readonly<Record<keyof RetryOptions, number>>

const DEFAULTS: RetryPolicy = {
  maxAttempts: 5,
  initialDelay: 100,
  maxDelay: 5_000,
  maxRetryAfter: 30_000,
}

/** `false`: one try. */
export function retryPolicy(options: RetryOptions | false | undefined): RetryPolicy {
  if (options === false) return { ...DEFAULTS, maxAttempts: 1 }
  if (options !== undefined && !isRecord(options)) {
    throw new TypeError('retry must be an object such as { maxAttempts: 5 }, or false.')
  }
  const policy = { ...DEFAULTS, ...given(options ?? {}) }
  for (const [name, value] of Object.entries(policy)) {
    if (!(value >= 0)) throw new TypeError(`retry.${name} must be a number from 0.`)
  }
  return policy
}

/**
 * Milliseconds before another try; `undefined`: none. What may be repeated: after an answer that
 * refused the request for its rate, everything; after a failure that may have come too late, only
 * what does no harm twice (ojs-digest §14.2).
 */
export function delayBeforeRetry(
  policy: RetryPolicy,
  error: unknown,
  { attempt, isIdempotent }: { attempt: number; isIdempotent: boolean },
): number | undefined {
  if (attempt >= policy.maxAttempts) return undefined
  if (!isRefusedForRate(error) && !(isIdempotent && isTemporary(error))) return undefined
  const asked = retryAfterMs(error)
  if (asked > policy.maxRetryAfter) return undefined
  const backoff = Math.min(policy.maxDelay, policy.initialDelay * 2 ** (attempt - 1))
  // Never earlier than asked; and not in step with everybody else who was asked the same.
  return Math.max(asked, backoff / 2) + (Math.random() * backoff) / 2
}

function isRefusedForRate(error: unknown): boolean {
  if (error instanceof OJSError) {
    return error.retryable && familyOf(error.code) === 'rate_limited'
  }
  return error instanceof OJSTransportError && error.status === 429
}

/** A paused queue is not: it will not be resumed within seconds. */
function isTemporary(error: unknown): boolean {
  if (error instanceof OJSError) return error.retryable && familyOf(error.code) === 'backend'
  if (!(error instanceof OJSTransportError)) return false
  if (error.kind === 'protocol') return [502, 503, 504].includes(error.status ?? 0)
  return error.kind === 'network' || error.kind === 'timeout'
}

/** How long the server asks us to wait, in milliseconds; 0 where it says nothing. */
function retryAfterMs(error: unknown): number {
  if (error instanceof OJSError || error instanceof OJSTransportError) {
    return (error.retryAfter ?? 0) * 1_000
  }
  return 0
}

/** However long the server asks to be left alone: a proxy's word must not end a worker. */
const MAX_REST_MS = 60_000

/**
 * Milliseconds: `base`, doubled with each failure up to `max` and shortened by up to a half at
 * random; no less than the server asked for, up to a minute.
 */
export function backoffMs(error: unknown, failures: number, base: number, max: number): number {
  const backoff = Math.min(max, base * 2 ** Math.min(failures, 30))
  const asked = Math.min(retryAfterMs(error), MAX_REST_MS)
  return Math.max(asked, backoff * (0.5 + Math.random() / 2))
}
