/** A producer's retry policy, checked and in seed 003's form. */
import { OjsError } from '../../errors.ts'
import type { RetryRequest } from '../request.ts'
import {
  formatDuration,
  isIsoDuration,
  MAX_DURATION_MS,
  parseDuration,
} from '../values/duration.ts'
import { MAX_INT32 } from '../values/limits.ts'

/** Defaults of seed 003; `max_attempts` counts every execution, the first included. */
const DEFAULT_MAX_ATTEMPTS = 3

/** The `retry` member of the envelope, in seed 003's closed form: only members that the producer named. */
interface RetryEcho {
  max_attempts?: number
  initial_interval?: string
  backoff_coefficient?: number
  max_interval?: string
  jitter?: boolean
  non_retryable_errors?: string[]
  on_exhaustion?: 'discard' | 'dead_letter'
}

interface NormalisedRetry {
  maxAttempts: number
  echo: RetryEcho | undefined
  /** Members that seed 003's closed schema does not allow; echoed beside `retry`, not inside it. */
  extra: { backoff_strategy: string } | undefined
}

/**
 * Converts the producer's retry policy to seed 003's form. Accepts both spellings of intervals; milliseconds
 * win (ojs-choices C-5). Throws 422 for a number out of range, naming the field (docs/architecture.md §9).
 * `field`: the name by which the client sent the policy.
 */
export function normaliseRetry(
  retry: RetryRequest | null | undefined,
  field: string,
): NormalisedRetry {
  if (!retry) return { maxAttempts: DEFAULT_MAX_ATTEMPTS, echo: undefined, extra: undefined }
  const initial = interval(retry, INITIAL, field)
  const max = interval(retry, MAX, field)
  checkRange(retry, initial, max, field)
  const strategy = retry.backoff_strategy ?? retry.backoff_type ?? retry.strategy
  return {
    maxAttempts: retry.max_attempts ?? DEFAULT_MAX_ATTEMPTS,
    echo: echoOf(retry, initial?.text, max?.text),
    extra: strategy ? { backoff_strategy: strategy } : undefined,
  }
}

function echoOf(retry: RetryRequest, initial?: string, max?: string): RetryEcho {
  return {
    ...(retry.max_attempts != null && { max_attempts: retry.max_attempts }),
    ...(initial !== undefined && { initial_interval: initial }),
    ...(retry.backoff_coefficient != null && { backoff_coefficient: retry.backoff_coefficient }),
    ...(max !== undefined && { max_interval: max }),
    ...(retry.jitter != null && { jitter: retry.jitter }),
    ...(retry.non_retryable_errors && { non_retryable_errors: retry.non_retryable_errors }),
    ...(retry.on_exhaustion && { on_exhaustion: retry.on_exhaustion }),
  }
}

const INITIAL = ['initial_interval_ms', 'initial_delay_ms', 'initial_interval'] as const
const MAX = ['max_interval_ms', 'max_delay_ms', 'max_interval'] as const

interface Interval {
  ms: number
  text: string
  /** The name that the client used. */
  field: string
}

/**
 * Reads an interval by the first of `names` that is there: a number is milliseconds, under the last name
 * seconds; a text is a duration that `parseDuration` accepts. Null when there is none.
 */
function interval(
  retry: RetryRequest,
  names: typeof INITIAL | typeof MAX,
  policy: string,
): Interval | null {
  const name = names.find((candidate) => retry[candidate] != null)
  const named = name && retry[name]
  if (named == null) return null
  const field = `${policy}.${name}`
  if (typeof named === 'number') {
    const ms = name === names[2] ? named * 1000 : named
    return { ms, text: formatDuration(ms), field }
  }
  const ms = parseDuration(named, field)
  return { ms, text: isIsoDuration(named) ? named : formatDuration(ms), field }
}

function checkRange(
  retry: RetryRequest,
  initial: Interval | null,
  max: Interval | null,
  field: string,
): void {
  checkAttempts(retry.max_attempts, `${field}.max_attempts`)
  if ((retry.backoff_coefficient ?? 1) < 1) {
    throw outOfRange(`${field}.backoff_coefficient`, 'must be at least 1.0')
  }
  for (const named of [initial, max]) {
    if (named === null) continue
    if (named.ms <= 0) throw outOfRange(named.field, 'must be longer than 0')
    // `parseDuration` bounds texts, but not numbers (1e18 would make an invalid ISO 8601 text).
    if (named.ms > MAX_DURATION_MS)
      throw outOfRange(named.field, 'must not be longer than ten years')
  }
  if (max !== null && max.ms < (initial?.ms ?? 1)) {
    throw outOfRange(max.field, 'must not be shorter than initial_interval')
  }
}

/** Throws 422. */
export function checkAttempts(attempts: number | null | undefined, field: string): void {
  if (attempts == null || (attempts >= 0 && attempts <= MAX_INT32)) return
  throw outOfRange(field, `must be from 0 to ${MAX_INT32}`)
}

function outOfRange(field: string, rule: string): OjsError {
  return new OjsError('invalid_request', `The '${field}' field ${rule}.`, {
    status: 422,
    type: 'validation_error',
    details: { field, validation: 'range' },
  })
}
