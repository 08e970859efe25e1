import { OjsError } from '../errors.ts'
import { formatDuration, isIsoDuration, MAX_DURATION_MS, parseDuration } from './duration.ts'
import { MAX_INT32 } from './int32.ts'
import type { RetryRequest } from './request.ts'

/** Defaults of seed 003; `max_attempts` counts every execution, the first included. */
const DEFAULT_MAX_ATTEMPTS = 3

/** The `retry` member of the envelope: seed 003's closed form, only what the producer named. */
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
  /** What seed 003's closed schema has no room for; echoed beside `retry`, not inside it. */
  extra: { backoff_strategy: string } | undefined
}

/**
 * The producer's retry policy in seed 003's form. Both spellings are accepted, milliseconds win
 * (ojs-digest C-5). Throws 422 for a number out of range, with the field named (architecture §9);
 * `field` is what the client calls the policy.
 */
export function normaliseRetry(
  retry: RetryRequest | null | undefined,
  field: string,
): NormalisedRetry {
  if (!retry) return { maxAttempts: DEFAULT_MAX_ATTEMPTS, echo: undefined, extra: undefined }
  const initial = interval(
    retry.initial_interval_ms ?? retry.initial_delay_ms,
    retry.initial_interval,
    `${field}.initial_interval`,
  )
  const max = interval(
    retry.max_interval_ms ?? retry.max_delay_ms,
    retry.max_interval,
    `${field}.max_interval`,
  )
  checkRange(retry, initial?.ms, max?.ms, field)
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

/** Integer seconds, ISO 8601 or milliseconds → one duration; null when none was named. */
function interval(
  ms: number | null | undefined,
  named: string | number | null | undefined,
  field: string,
): { ms: number; text: string } | null {
  if (ms != null) return { ms, text: formatDuration(ms) }
  if (named == null) return null
  if (typeof named === 'number') return { ms: named * 1000, text: formatDuration(named * 1000) }
  const parsed = parseDuration(named, field)
  return { ms: parsed, text: isIsoDuration(named) ? named : formatDuration(parsed) }
}

function checkRange(
  retry: RetryRequest,
  initial: number | undefined,
  max: number | undefined,
  field: string,
): void {
  const attempts = retry.max_attempts ?? 0
  if (attempts < 0 || attempts > MAX_INT32) {
    throw outOfRange(`${field}.max_attempts`, `must be from 0 to ${MAX_INT32}`)
  }
  if ((retry.backoff_coefficient ?? 1) < 1) {
    throw outOfRange(`${field}.backoff_coefficient`, 'must be at least 1.0')
  }
  if (initial !== undefined && initial <= 0) {
    throw outOfRange(`${field}.initial_interval`, 'must be longer than 0')
  }
  // Text is bounded by its parser; a number is a number (and an ISO duration of it would be 1e+18).
  if ((initial ?? 0) > MAX_DURATION_MS) {
    throw outOfRange(`${field}.initial_interval`, 'must not be longer than ten years')
  }
  if ((max ?? 0) > MAX_DURATION_MS) {
    throw outOfRange(`${field}.max_interval`, 'must not be longer than ten years')
  }
  if (max !== undefined && max < (initial ?? 1)) {
    throw outOfRange(`${field}.max_interval`, 'must not be shorter than initial_interval')
  }
}

function outOfRange(field: string, rule: string): OjsError {
  return new OjsError('invalid_request', `The '${field}' field ${rule}.`, {
    status: 422,
    type: 'validation_error',
    details: { field, validation: 'range' },
  })
}
