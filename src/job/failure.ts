import {
  appendErrors,
  errorEntry,
  type Failure,
  fillInError,
  recordedOf,
  replaceNewest,
  SILENT,
  UNREPORTED,
} from './error-history.ts'
import type { JobRow } from './job.ts'
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

/** The class of the error where the worker named it. */
export function errorClass(details: Record<string, unknown> | undefined): string | undefined {
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
 * The same for the attempt that `row` runs. A native worker's may have failed before, when its lease ran
 * out, and be heard of again after that: it has one entry, the last word on it. `isCounted`: its failure
 * was counted and told then, and an attempt fails once.
 */
export function recordEnd(
  row: Pick<JobRow, 'attempt' | 'error' | 'errors'>,
  failure: Failure,
  now: number,
): { error: string; errors: string; isCounted: boolean } {
  const before = recordedOf(row)
  if (before === null) {
    return { ...recordFailure(row.errors, row.attempt, failure, now), isCounted: false }
  }
  const errors = replaceNewest(row.errors, errorEntry(row.attempt, failure, now))
  return { error: JSON.stringify(failure), errors, isCounted: before.code !== UNREPORTED }
}

/**
 * The same for an attempt that was recorded without its worker's word before that came. `error`
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
export function visibilityFailure(): Failure {
  return {
    code: SILENT,
    type: SILENT,
    // No length: each heartbeat may have named another.
    message: 'No ACK, NACK or heartbeat came within the visibility timeout.',
    retryable: true,
  }
}
