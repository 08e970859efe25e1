/** A worker's error as a job's `error`: members derived, sizes bounded. */
import type { JobRow } from '../job.ts'
import type { NackError } from '../request.ts'
import { cut, MAX_CODE, MAX_MESSAGE, utf8Bytes } from '../values/limits.ts'
import {
  appendErrors,
  DEAD_WORKER,
  errorEntry,
  type Failure,
  fillInError,
  recordedOf,
  replaceNewest,
  SILENT,
  UNREPORTED,
} from './error-history.ts'

const MAX_DETAILS_BYTES = 65_536
const MAX_FRAMES = 50
const MAX_BACKTRACE = 10_000
const MAX_FRAME = 1_000

/** Makes a failure out of a worker's error; derives the members that it did not send (ojs-choices S8). */
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
    // Without the worker's `retryable` the code decides: seed 001, Appendix B.
    retryable: error.retryable ?? code !== 'cancelled',
    ...(details && { details: boundDetails(details) }),
    ...(backtrace !== null && { backtrace }),
  }
}

/** The class of the error, if the worker named it. */
export function errorClass(details: Record<string, unknown> | undefined): string | undefined {
  const named = details?.['error_class']
  return typeof named === 'string' && named !== '' ? named : undefined
}

function boundDetails(details: Record<string, unknown>): Record<string, unknown> {
  if (utf8Bytes(JSON.stringify(details)) <= MAX_DETAILS_BYTES) return details
  // Details that are too large are dropped as a whole: a part of them could mislead. The class stays, because
  // `non_retryable_errors` may name it.
  const named = errorClass(details)
  return { truncated: true, ...(named !== undefined && { error_class: cut(named, MAX_CODE) }) }
}

/** Cuts a backtrace: a text by lines, a list by frames. Returns null for anything else that is not small. */
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

/** Records a failure: returns it as the job's `error`, and `errors` with it appended; JSON texts. */
export function recordFailure(
  errors: string | null,
  attempt: number,
  failure: Failure,
  now: number,
): { error: string; errors: string } {
  const entry = errorEntry(attempt, failure, now)
  return { error: JSON.stringify(failure), errors: appendErrors(errors, [entry]) }
}

/** What `x-ojs-error-*` of a job message says about the attempt before the one that it causes. */
export interface ReportedError {
  code: string
  message: string
}

/** The error record of a row: its attempt, and JSON texts. */
type Recorded = Pick<JobRow, 'attempt' | 'error' | 'errors'>

/**
 * Records the attempts that ended without a report (a foreign worker that republished as in seed 002 §15.4, or
 * one that was lost). The first of them may be recorded already, since its lease had run out. `reported` is
 * about the last of them. Returns the job's `error` and `errors`.
 */
export function recordSkipped(
  row: Recorded,
  skipped: readonly number[],
  reported: ReportedError | null,
  now: number,
): Pick<JobRow, 'error' | 'errors'> {
  const isFirstKnown = skipped[0] === row.attempt && recordedOf(row) !== null
  const attempts = isFirstKnown ? skipped.slice(1) : skipped
  const entries = attempts.map((attempt, index) => {
    const said = index === attempts.length - 1 ? reported : null
    const code = cut(said?.code ?? UNREPORTED, MAX_CODE)
    const message = cut(said?.message ?? `Attempt ${attempt} ended without a report.`, MAX_MESSAGE)
    return errorEntry(attempt, { code, type: code, message, retryable: true }, now)
  })
  const last = entries.at(-1)
  if (last === undefined) return { error: row.error, errors: row.errors }
  return { error: JSON.stringify(last), errors: appendErrors(row.errors, entries) }
}

/**
 * As `recordFailure`, for the attempt that `row` runs. A native worker's attempt may have been recorded as
 * failed when its lease ran out, and may have been resumed since: the new entry then replaces the old one.
 * `isCounted`: the failure was counted and its event emitted then, so it must not be counted again.
 */
export function recordEnd(
  row: Recorded,
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
 * Fills a worker's late report into the record of an attempt that was recorded without it. Returns `error`
 * only if that attempt is the newest entry of `errors`; null if there is nothing to fill in.
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

/** The failure of an attempt that ran longer than `timeout_ms` (OJS core). */
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

/** The failure of an attempt whose lease ran out without ACK, NACK or heartbeat (OJS core). */
export function visibilityFailure(): Failure {
  return {
    code: SILENT,
    type: SILENT,
    // Does not name the length: each heartbeat may have set another.
    message: 'No ACK, NACK or heartbeat came within the visibility timeout.',
    retryable: true,
  }
}

/** The failure of an attempt whose worker an operator has deregistered (OJS admin API §9). */
export function workerDeathFailure(workerId: string): Failure {
  return {
    code: DEAD_WORKER,
    type: DEAD_WORKER,
    message: `Worker '${cut(workerId, MAX_CODE)}' was silent, and an operator has deregistered it.`,
    retryable: true,
  }
}
