import type { BackoffPolicy } from './backoff.ts'
import { parseDuration } from './duration.ts'
import { appendErrors, errorEntry, type Failure, fillInError } from './error-history.ts'
import { allowedAttempts, type JobRow } from './job.ts'
import type { NackError } from './request.ts'
import { cut, MAX_CODE, MAX_MESSAGE, utf8Bytes } from './text-size.ts'

const MAX_DETAILS_BYTES = 65_536
const MAX_FRAMES = 50
const MAX_BACKTRACE = 10_000
const MAX_FRAME = 1_000

/** A worker's report as a failure. What it did not say is derived (conformance.md S8). */
export function failureOf(error: NackError): Failure {
  const details = error.details ?? undefined
  const code = error.code ?? error.type ?? 'handler_error'
  const type = error.type ?? errorClass(details) ?? code
  const backtrace = boundBacktrace(
    error.backtrace ?? details?.['backtrace'] ?? details?.['stack'] ?? null,
  )
  return {
    code: cut(code, MAX_CODE),
    type: cut(type, MAX_CODE),
    message: cut(error.message, MAX_MESSAGE),
    // Where a worker does not say, the code does: seed 001, Appendix B.
    retryable: error.retryable ?? code !== 'cancelled',
    ...(details && { details: boundDetails(details) }),
    ...(backtrace !== null && { backtrace }),
  }
}

function errorClass(details: Record<string, unknown> | undefined): string | undefined {
  const named = details?.['error_class']
  return typeof named === 'string' && named !== '' ? named : undefined
}

function boundDetails(details: Record<string, unknown>): Record<string, unknown> {
  if (utf8Bytes(JSON.stringify(details)) <= MAX_DETAILS_BYTES) return details
  // Half an object would be a lie. The class stays: `non_retryable_errors` may name it.
  const named = errorClass(details)
  return { truncated: true, ...(named !== undefined && { error_class: cut(named, MAX_CODE) }) }
}

/** A text by lines, a list by frames; anything else only while it is small. Null: none. */
function boundBacktrace(trace: unknown): unknown {
  if (typeof trace === 'string') {
    return cut(trace.split('\n', MAX_FRAMES).join('\n'), MAX_BACKTRACE)
  }
  if (Array.isArray(trace)) return boundFrames(trace)
  return JSON.stringify(trace).length <= MAX_BACKTRACE ? trace : null
}

function boundFrames(trace: unknown[]): unknown[] {
  const frames: unknown[] = []
  let room = MAX_BACKTRACE
  for (const item of trace.slice(0, MAX_FRAMES)) {
    const frame: unknown = typeof item === 'string' ? cut(item, MAX_FRAME) : item
    room -= JSON.stringify(frame).length
    if (room < 0) break
    frames.push(frame)
  }
  return frames
}

/** What a job's producer wants to happen after a failure, defaults filled in (seed 003). */
export interface RetryPolicy {
  /** Executions in all; 0 and 1 both mean "run once". */
  maxAttempts: number
  backoff: BackoffPolicy
  nonRetryableErrors: readonly string[]
  /** Null: the producer named none. */
  onExhaustion: 'discard' | 'dead_letter' | null
}

const DEFAULT_INITIAL_MS = 1_000
const DEFAULT_MAX_MS = 300_000
const DEFAULT_COEFFICIENT = 2

/** Reads the policy out of the stored envelope. Never throws: what is not usable is the default. */
export function retryPolicyOf(row: Pick<JobRow, 'envelope' | 'maxAttempts'>): RetryPolicy {
  const envelope = objectOf(parsed(row.envelope))
  const retry = objectOf(envelope['retry'])
  const { backoff_coefficient: coefficient, on_exhaustion: onExhaustion, jitter } = retry
  const named = retry['non_retryable_errors']
  return {
    maxAttempts: row.maxAttempts,
    backoff: {
      strategy: strategyOf(objectOf(envelope['retry_extra'])['backoff_strategy']),
      initialMs: durationOr(retry['initial_interval'], DEFAULT_INITIAL_MS),
      coefficient: isCoefficient(coefficient) ? coefficient : DEFAULT_COEFFICIENT,
      maxMs: durationOr(retry['max_interval'], DEFAULT_MAX_MS),
      jitter: jitter !== false,
    },
    nonRetryableErrors: Array.isArray(named)
      ? named.filter((name) => typeof name === 'string')
      : [],
    onExhaustion:
      onExhaustion === 'discard' || onExhaustion === 'dead_letter' ? onExhaustion : null,
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

function isCoefficient(value: unknown): value is number {
  return typeof value === 'number' && value >= 1
}

function strategyOf(name: unknown): BackoffPolicy['strategy'] {
  if (name === 'linear' || name === 'polynomial' || name === 'none') return name
  return name === 'constant' ? 'none' : 'exponential'
}

function durationOr(text: unknown, fallback: number): number {
  try {
    return (typeof text === 'string' && parseDuration(text, 'retry')) || fallback
  } catch {
    return fallback
  }
}

/** What becomes of a failed attempt. `isDeadLetter`: listed under `GET /dead-letter`. */
export type Verdict = { do: 'retry' } | { do: 'discard'; isDeadLetter: boolean }

/** FAIL decides in this order (ojs-digest §3.3); `attempt` is the one that failed. */
export function judge(policy: RetryPolicy, attempt: number, failure: Failure): Verdict {
  switch (failure.code) {
    case 'DISCARD':
    case 'FAIL':
      return { do: 'discard', isDeadLetter: false }
    case 'DEAD_LETTER':
      return { do: 'discard', isDeadLetter: true }
    default:
      return isOver(policy, attempt, failure)
        ? // No data loss where the producer said nothing (C-20).
          { do: 'discard', isDeadLetter: policy.onExhaustion !== 'discard' }
        : { do: 'retry' }
  }
}

function isOver(policy: RetryPolicy, attempt: number, failure: Failure): boolean {
  if (!failure.retryable || attempt >= allowedAttempts(policy)) return true
  const names = [failure.type, failure.code, errorClass(failure.details)]
  return policy.nonRetryableErrors.some((pattern) => names.some((name) => matches(pattern, name)))
}

/** `auth.*` is a prefix with its dot: `auth.expired`, but not `auth` (ojs-digest C-85). */
function matches(pattern: string, name: string | undefined): boolean {
  if (pattern.endsWith('.*')) return name?.startsWith(pattern.slice(0, -1)) ?? false
  return name === pattern
}

/** A job that expired never failed: it is listed only by explicit wish (ojs-digest C-87). */
export function isListedWhenExpired(policy: RetryPolicy): boolean {
  return policy.onExhaustion === 'dead_letter'
}

/** The failure as the job's `error`, and appended to its `errors`; JSON texts. */
export function recordFailure(
  errors: string | null,
  attempt: number,
  failure: Failure,
  now: number,
): { error: string; errors: string } {
  const entry = errorEntry(attempt, failure, now)
  return { error: JSON.stringify(failure), errors: appendErrors(errors, [entry]) }
}

/**
 * The same for an attempt that was recorded as unreported before its worker's word came. `error`
 * only where that attempt is the last one that failed. Null: nothing to fill in.
 */
export function recordLateFailure(
  errors: string | null,
  attempt: number,
  failure: Failure,
  now: number,
): { error: string | null; errors: string } | null {
  const filled = fillInError(errors, errorEntry(attempt, failure, now))
  if (filled === null) return null
  return { error: filled.isLast ? JSON.stringify(failure) : null, errors: filled.errors }
}

/** The server's own verdict on an attempt that took longer than `timeout_ms` (ojs-digest §1.5). */
export function timeoutFailure(limitMs: number, elapsedMs: number): Failure {
  return {
    code: 'timeout',
    type: 'timeout',
    message: `The attempt ran longer than its timeout of ${limitMs / 1000} s.`,
    retryable: true,
    details: {
      timeout_kind: 'execution',
      limit_seconds: limitMs / 1000,
      elapsed_seconds: elapsedMs / 1000,
    },
  }
}

/** Nobody settled the job or renewed its lease in time (ojs-digest §1.4). */
export function visibilityFailure(leaseMs: number): Failure {
  return {
    code: 'visibility_timeout',
    type: 'visibility_timeout',
    message: `No ACK, NACK or heartbeat came within the visibility timeout of ${leaseMs / 1000} s.`,
    retryable: true,
  }
}
