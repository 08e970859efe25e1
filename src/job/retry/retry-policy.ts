/** Retry or discard? A job's policy applied to a failed attempt (OJS retry). */
import { allowedAttempts, type JobRow } from '../job.ts'
import { BACKOFF_STRATEGIES } from '../request.ts'
import { parseDuration } from '../values/duration.ts'
import { jsonOrNull, membersOf } from '../values/json-value.ts'
import type { BackoffPolicy } from './backoff.ts'
import type { Failure } from './error-history.ts'
import { errorClass } from './failure.ts'

/** A job's retry policy with defaults filled in (seed 003). */
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

/** Reads the policy from the stored envelope. Never throws: an unusable value counts as the default. */
export function retryPolicyOf(row: Pick<JobRow, 'envelope' | 'maxAttempts'>): RetryPolicy {
  const envelope = membersOf(jsonOrNull(row.envelope))
  const retry = membersOf(envelope['retry'])
  const { backoff_coefficient: coefficient, on_exhaustion: onExhaustion, jitter } = retry
  const named = retry['non_retryable_errors']
  return {
    maxAttempts: row.maxAttempts,
    backoff: {
      strategy: strategyOf(membersOf(envelope['retry_extra'])['backoff_strategy']),
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

function isCoefficient(value: unknown): value is number {
  return typeof value === 'number' && value >= 1
}

function strategyOf(given: unknown): BackoffPolicy['strategy'] {
  const name = BACKOFF_STRATEGIES.find((strategy) => strategy === given) ?? 'exponential'
  return name === 'constant' ? 'none' : name
}

function durationOr(text: unknown, fallback: number): number {
  try {
    return (typeof text === 'string' && parseDuration(text, 'retry')) || fallback
  } catch {
    return fallback
  }
}

/** What happens after a failed attempt. `isDeadLetter`: the job is listed under `GET /dead-letter`. */
export type Verdict = { do: 'retry' } | { do: 'discard'; isDeadLetter: boolean }

/** Decides what happens after a failure, in the order of OJS retry. `attempt`: the one that failed. */
export function judge(policy: RetryPolicy, attempt: number, failure: Failure): Verdict {
  switch (failure.code) {
    case 'DISCARD':
    case 'FAIL':
      return { do: 'discard', isDeadLetter: false }
    case 'DEAD_LETTER':
      return { do: 'discard', isDeadLetter: true }
    default:
      return isOver(policy, attempt, failure)
        ? // Without `on_exhaustion` the job is kept as a dead letter, so that it is not lost (C-20).
          { do: 'discard', isDeadLetter: policy.onExhaustion !== 'discard' }
        : { do: 'retry' }
  }
}

function isOver(policy: RetryPolicy, attempt: number, failure: Failure): boolean {
  if (!failure.retryable || attempt >= allowedAttempts(policy)) return true
  const names = [failure.type, failure.code, errorClass(failure.details)]
  return policy.nonRetryableErrors.some((pattern) => names.some((name) => matches(pattern, name)))
}

/** `auth.*` matches every name that begins with `auth.`, but not `auth` itself (ojs-choices C-85). */
function matches(pattern: string, name: string | undefined): boolean {
  if (pattern.endsWith('.*')) return name?.startsWith(pattern.slice(0, -1)) ?? false
  return name === pattern
}

/** An expired job has not failed: it is listed only with an explicit `dead_letter` (ojs-choices C-87). */
export function isListedWhenExpired(policy: RetryPolicy): boolean {
  return policy.onExhaustion === 'dead_letter'
}
